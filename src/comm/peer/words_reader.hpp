// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "comm/host_waits.hpp"

namespace shard8::comm::peer {

/// The words of this rank's memory in which peers write how far they are (Handshake). A watchdog's thread reads them
/// while another thread may free the memory.
class ReadableWords {
 public:
  /// `words` are those that Handshake::words describes.
  explicit ReadableWords(const std::uint32_t* words) : words_(words) {}

  /// Waits until nobody reads the words. From then on nobody reads them, and the memory may be freed.
  void close() {
    const std::lock_guard lock(mutex_);
    words_ = nullptr;
  }
  /// Returns read(words), during which close() waits. After close() the function returns false.
  template <class Read>
  bool read(const Read& read) const {
    const std::lock_guard lock(mutex_);
    return words_ != nullptr && read(words_);
  }

 private:
  mutable std::mutex mutex_;
  const std::uint32_t* words_;
};

/// Where a call's progress on other ranks can be read, and by which numbers.
struct CallWords {
  std::shared_ptr<const ReadableWords> words;  ///< null: the call has no such words
  CallNumbers numbers;
};

/// Reads the words of calls that are overdue. A WordsReader has a stream and pinned memory of its own, so that it
/// neither waits for the streams that hang nor makes the device allocate.
class WordsReader {
 public:
  /// How long the device may take to answer. A copy of a few words takes microseconds.
  static constexpr std::chrono::seconds kLimit{1};

  /// A reader of words in memory of the current device. Allocates all that reads need.
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
