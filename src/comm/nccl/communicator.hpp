// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.hpp"
#include "comm/nccl/group_info.hpp"
#include "comm/nccl/health.hpp"

namespace shard8::comm::nccl {

/// A communicator of NCCL over the ranks of a group. Destroyed by all of them.
class NcclCommunicator {
 public:
  struct Options {
    int most_ctas = 0;      ///< thread blocks that one collective may take; 0: as NCCL chooses
    bool zero_cta = false;  ///< gathers in symmetric windows by copy engines
  };
  /// Collective. `purpose` is what errors call it: "gathers".
  NcclCommunicator(const Communicator& group, const GroupInfo& info, const char* purpose, const Options& options,
                   Health& health);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  ncclComm_t get() const { return communicator_; }
  /// An error that NCCL has met since, in words. For another thread.
  std::optional<std::string> failure() const;

 private:
  GroupInfo info_;
  const char* purpose_;
  Health& health_;
  HostWaits* waits_;
  ncclComm_t communicator_ = nullptr;
};

/// "NCCL 2.28.9", of the library that is loaded.
std::string nccl_version();

}  // namespace shard8::comm::nccl
