// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "base/error.hpp"
#include "comm/communicator.hpp"

namespace shard8::comm {

/// An error that every rank of a group throws alike, so that nobody waits for anybody.
class AgreedError : public base::Error {
 public:
  AgreedError(base::ExitCode code, const std::string& message, int ranks) : Error(code, message), ranks_(ranks) {}
  /// Size of the group that agreed.
  int ranks() const noexcept { return ranks_; }

 private:
  int ranks_;
};

/// Runs `action`, which must not communicate within `group` in a way that one rank's error could
/// leave hanging, on every rank. If it throws on any, all ranks throw AgreedError with the code and
/// message of the lowest rank that failed ("rank N: " in front unless all failed). Collective.
void agree(const Communicator& group, const std::function<void()>& action);

/// Runs `action` on the root alone. If it throws, all ranks throw AgreedError with its code and its
/// message as it is: the work was everybody's. Collective.
void agree_on_root(const Communicator& group, int root, const std::function<void()>& action);

}  // namespace shard8::comm
