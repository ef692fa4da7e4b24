// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "comm/peer/call_words.hpp"

namespace shard8::comm::peer {

/// Reads the words of calls that are overdue. It has a stream and pinned memory of its own, so that it neither waits
/// for the streams that hang nor makes the device allocate.
class WordsReader {
 public:
  /// How long the device may take to answer. A copy of a few words takes microseconds.
  static constexpr std::chrono::seconds kLimit{1};

  /// For memory of the current device. Allocates all that reads need.
  WordsReader();

  /// late_peers() of the call, by the words as they are now. Nothing if the words cannot be read: the call has none,
  /// their memory is freed, CUDA gives an error, or the device does not answer within kLimit. Called by one thread at a
  /// time, which may be another one than the thread that issues the calls.
  std::optional<std::string> late_peers(const CallWords& call) const noexcept;

 private:
  class Copies;
  std::shared_ptr<Copies> copies_;
};

}  // namespace shard8::comm::peer
