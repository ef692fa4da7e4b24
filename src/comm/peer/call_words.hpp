// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "comm/late_peers.hpp"

namespace shard8::comm::peer {

/// The words of the handshakes in this rank's memory, for a watchdog's thread. The thread reads the words while the
/// memory exists, and finds out when it does not exist any more.
class ReadableWords {
 public:
  /// `words` are those that Handshake::words describes.
  explicit ReadableWords(const std::uint32_t* words) : words_(words) {}

  /// Waits until nobody reads the words. From now on nobody will, and the memory may be freed.
  void close() {
    const std::lock_guard lock(mutex_);
    words_ = nullptr;
  }
  /// Returns read(words), during which close() waits. After close() it returns false.
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

}  // namespace shard8::comm::peer
