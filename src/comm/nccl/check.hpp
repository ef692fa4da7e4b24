// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

#include "comm/host_waits.hpp"
#include "profile/collective_log.hpp"

namespace shard8::comm::nccl {

/// What reports and errors say of a group. It must live as long as calls of the group are under way.
struct GroupInfo {
  std::string name;
  int rank = 0;
  int size = 1;
  profile::CollectiveLog* log = nullptr;
};

/// What a wait of this rank's host for the group is called.
inline HostWaits::Subject subject_of(std::string_view operation, const GroupInfo& group) {
  return {operation, group.name, group.rank, group.size};
}

/// "in group 'shard' on its rank 2 of 4"
std::string where(const GroupInfo& group);

/// Throws Error(failed) with the call, what it was for, the group and this rank, and the library's own
/// words unless `status` is success. `communicator` may be null before there is one.
void check(ncclResult_t status, const char* expression, std::string_view purpose, const GroupInfo& group,
           ncclComm_t communicator, const char* file, int line);

}  // namespace shard8::comm::nccl

/// Evaluates a call that returns ncclResult_t; throws base::Error unless it is success.
#define SHARD8_NCCL_CHECK(expression, purpose, group, communicator) \
  ::shard8::comm::nccl::check((expression), #expression, purpose, group, communicator, __FILE__, __LINE__)
