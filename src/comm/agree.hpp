// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "base/error.hpp"
#include "comm/communicator.hpp"

namespace shard8::comm {

/// An error that every rank of a group throws with the same code and message, so that no rank waits for another one.
class AgreedError : public base::Error {
 public:
  AgreedError(base::ExitCode code, const std::string& message, int ranks) : Error(code, message), ranks_(ranks) {}
  /// Size of the group that agreed.
  int ranks() const noexcept { return ranks_; }

 private:
  int ranks_;
};

/// Runs `action` on every rank. Collective. `action` must not communicate with ranks of `group`: if one rank threw, the
/// others would wait for it. If `action` throws on any rank, all ranks throw AgreedError with the code and message of
/// the lowest rank that failed, behind "rank N: " unless all failed.
void agree(const Communicator& group, const std::function<void()>& action);

/// Runs `action` on rank `root` alone. Collective. If it throws, all ranks throw AgreedError with its code and its
/// message without a rank's number: the root did the work for all ranks.
void agree_on_root(const Communicator& group, int root, const std::function<void()>& action);

}  // namespace shard8::comm
