// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/host_waits.hpp"
#include "profile/collective_log.hpp"

namespace shard8::comm::nccl {

/// What reports and errors say of a group. A GroupInfo must live as long as calls of the group are under way.
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

class NcclCommunicator;

/// The communicators whose errors in the background a watchdog queries.
class Health {
 public:
  void add(const NcclCommunicator& communicator);
  void remove(const NcclCommunicator& communicator);

  /// Describes the first error, if there is one. Another thread may call the function.
  std::optional<std::string> problem();

 private:
  std::mutex mutex_;
  std::vector<const NcclCommunicator*> communicators_;
};

/// Identities of communicators that NCCL has not made. NCCL keeps a thread and a socket on a group's first rank for
/// each of them until all ranks have come, so the one of a communicator that was never used serves the next one of the
/// same ranks.
class Identities {
 public:
  using Ranks = std::vector<double>;  ///< of a group, in the world
  /// Returns an identity that is kept for these ranks. If there is none, the group's first rank makes one and sends it
  /// to the others. Collective over `group`.
  ncclUniqueId take(const Communicator& group, const GroupInfo& info, const Ranks& ranks);
  /// Keeps an identity with which no communicator was made, for a later take(). All ranks of the group must call keep()
  /// in the same order.
  void keep(const Ranks& ranks, const ncclUniqueId& id) { kept_[ranks].push_back(id); }

 private:
  std::map<Ranks, std::vector<ncclUniqueId>> kept_;
};

/// A communicator of NCCL over the ranks of a group, which NCCL makes when it is first used. So a communicator that
/// stays idle, because peers' memory serves the group, takes no device memory. All ranks must use it first, and destroy
/// it, together.
class NcclCommunicator {
 public:
  struct Options {
    int most_ctas = 0;      ///< most thread blocks of one collective; 0: as NCCL chooses
    bool zero_cta = false;  ///< copy engines gather in symmetric windows
  };
  /// Collective: agrees on an identity. `ranks`: those of `group`. Errors call the communicator by `purpose`:
  /// "gathers".
  NcclCommunicator(const Communicator& group, const GroupInfo& info, const Identities::Ranks& ranks,
                   const char* purpose, const Options& options, Health& health, Identities& identities);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// NCCL's communicator. The first call makes the communicator, and is collective. Error(environment) if the device
  /// has no memory left for it.
  ncclComm_t get();
  /// Describes an error that NCCL has met in the background, if there is one. Another thread may call the function.
  std::optional<std::string> failure() const;

 private:
  GroupInfo info_;
  const char* purpose_;
  Health& health_;
  HostWaits* waits_;
  Options options_;
  Identities& identities_;
  Identities::Ranks ranks_;
  ncclUniqueId id_;
  ncclComm_t communicator_ = nullptr;
};

/// The version of the library that is loaded: "NCCL 2.28.9".
std::string nccl_version();

}  // namespace shard8::comm::nccl

/// Evaluates a call that returns ncclResult_t; throws base::Error unless it is success.
#define SHARD8_NCCL_CHECK(expression, purpose, group, communicator) \
  ::shard8::comm::nccl::check((expression), #expression, purpose, group, communicator, __FILE__, __LINE__)
