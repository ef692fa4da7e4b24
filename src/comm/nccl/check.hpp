// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <string_view>

#include "comm/nccl/group_info.hpp"

namespace shard8::comm::nccl {

/// Throws Error(failed) with the call, what it was for, the group and this rank, and the library's own
/// words unless `status` is success. `communicator` may be null before there is one.
void check(ncclResult_t status, const char* expression, std::string_view purpose, const GroupInfo& group,
           ncclComm_t communicator, const char* file, int line);

}  // namespace shard8::comm::nccl

/// Evaluates a call that returns ncclResult_t; throws base::Error unless it is success.
#define SHARD8_NCCL_CHECK(expression, purpose, group, communicator) \
  ::shard8::comm::nccl::check((expression), #expression, purpose, group, communicator, __FILE__, __LINE__)
