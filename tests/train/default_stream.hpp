// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace shard8::test {

/// Makes work on the default stream, and synchronisation of the whole device, an error of whoever asks for
/// it: while a stream that waits for the default one is captured, CUDA refuses both. (Work on streams
/// that do not wait for the default one goes on.)
class DefaultStreamTrap {
 public:
  DefaultStreamTrap();
  ~DefaultStreamTrap();
  DefaultStreamTrap(const DefaultStreamTrap&) = delete;
  DefaultStreamTrap& operator=(const DefaultStreamTrap&) = delete;

  /// Ends it. Whether something was refused meanwhile, in whatever thread.
  bool sprung();

 private:
  cudaStream_t stream_ = nullptr;
  bool capturing_ = true;
};

/// Holds the default stream: what is put there, and what waits for it or for the whole device, waits
/// until this is released, at the latest after `limit`.
class HeldDefaultStream {
 public:
  explicit HeldDefaultStream(std::chrono::milliseconds limit);
  /// Releases it and waits until it is empty.
  ~HeldDefaultStream();
  HeldDefaultStream(const HeldDefaultStream&) = delete;
  HeldDefaultStream& operator=(const HeldDefaultStream&) = delete;

  /// Whether it had to be released because the time was over.
  bool expired() const;

 private:
  void release(bool late);
  std::uint32_t* word_ = nullptr;  ///< pinned; the stream waits until it is 1
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false, late_ = false;
  std::thread guard_;
};

}  // namespace shard8::test
