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

/// Makes CUDA refuse work on the default stream and synchronisation of the whole device: it refuses both while a stream
/// that waits for the default stream is captured. Work on streams that do not wait for the default stream goes on.
class DefaultStreamTrap {
 public:
  DefaultStreamTrap();
  ~DefaultStreamTrap();
  DefaultStreamTrap(const DefaultStreamTrap&) = delete;
  DefaultStreamTrap& operator=(const DefaultStreamTrap&) = delete;

  /// Ends the capture. Returns whether CUDA has refused something since the constructor, in any thread.
  bool sprung();

 private:
  cudaStream_t stream_ = nullptr;
  bool capturing_ = true;
};

/// Blocks the default stream. Work on it, and everything that waits for it or for the whole device, waits until this
/// object is destroyed, at most for `limit`.
class HeldDefaultStream {
 public:
  explicit HeldDefaultStream(std::chrono::milliseconds limit);
  /// Releases the stream and waits until all work on it is done.
  ~HeldDefaultStream();
  HeldDefaultStream(const HeldDefaultStream&) = delete;
  HeldDefaultStream& operator=(const HeldDefaultStream&) = delete;

  /// Whether the stream was released because `limit` was over.
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
