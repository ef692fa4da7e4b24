// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace shard8::base {

/// How far one thread has got, for a watchdog. One thread writes the progress, another one reads it.
class Progress {
 public:
  /// The thread begins or has ended `what`, a static text. Costs two relaxed stores.
  void note(const char* what) {
    what_.store(what, std::memory_order_relaxed);
    note();
  }
  /// The thread has got on with what it does.
  void note() { count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  /// Differs between two calls if the thread has got on in between.
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  /// What the thread noted last.
  const char* what() const { return what_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> count_ = 0;
  std::atomic<const char*> what_ = "start";
};

}  // namespace shard8::base
