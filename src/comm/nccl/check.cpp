// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/check.hpp"

#include "base/error.hpp"

namespace shard8::comm::nccl {
namespace {

std::string_view file_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

std::string where(const GroupInfo& group) {
  return fmt::format("in group '{}' on its rank {} of {}", group.name, group.rank, group.size);
}

void check(ncclResult_t status, const char* expression, std::string_view purpose, const GroupInfo& group,
           ncclComm_t communicator, const char* file, int line) {
  if (status == ncclSuccess) return;
  const char* const last = ncclGetLastError(communicator);
  base::fail(base::ExitCode::failed, "{} {}: nccl: {} gave {} ({}) at nccl/{}:{}: {}; NCCL_DEBUG=WARN says more",
             purpose, where(group), expression, static_cast<int>(status), ncclGetErrorString(status), file_of(file),
             line, last == nullptr || *last == '\0' ? "it says no more" : last);
}

}  // namespace shard8::comm::nccl
