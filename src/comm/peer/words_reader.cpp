// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/peer/words_reader.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <future>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "comm/peer/handshake.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::comm::peer {
namespace {

using Words = std::array<std::uint32_t, std::size_t{2} * kMostRanks>;

}  // namespace

/// Copies words to the host.
class WordsReader::Copies {
 public:
  Copies() : device_(tensor::cuda::current_device()) {
    void* memory = nullptr;
    SHARD8_CUDA_CHECK(cudaHostAlloc(&memory, sizeof(Words), cudaHostAllocDefault));
    words_ = static_cast<std::uint32_t*>(memory);
    // The first copy of a stream may allocate, for which CUDA may wait for the whole device. So the constructor makes a
    // first copy.
    void* trial = nullptr;
    SHARD8_CUDA_CHECK(cudaMalloc(&trial, sizeof(Words)));
    SHARD8_CUDA_CHECK(cudaMemcpyAsync(words_, trial, sizeof(Words), cudaMemcpyDeviceToHost, stream_));
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream_));
    SHARD8_CUDA_CHECK(cudaFree(trial));
  }
  ~Copies() {
    if (std::uncaught_exceptions() == 0) cudaFreeHost(words_);  // may wait for the device, which may hang
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// The first `count` words, or nothing. Blocks until the device answers.
  std::optional<Words> read(const ReadableWords& from, std::size_t count) const {
    const std::lock_guard lock(mutex_);
    const bool copied = from.read([&](const std::uint32_t* words) {
      return cudaSetDevice(device_) == cudaSuccess &&
             cudaMemcpyAsync(words_, words, count * sizeof *words, cudaMemcpyDeviceToHost, stream_) == cudaSuccess &&
             cudaStreamSynchronize(stream_) == cudaSuccess;
    });
    if (!copied) return std::nullopt;
    Words words{};
    std::copy_n(words_, count, words.begin());
    return words;
  }

 private:
  int device_;
  tensor::cuda::Stream stream_;
  std::uint32_t* words_ = nullptr;
  mutable std::mutex mutex_;
};

WordsReader::WordsReader() : copies_(std::make_shared<Copies>()) {}

std::optional<std::string> WordsReader::late_peers(const CallWords& call) const noexcept {
  if (call.words == nullptr) return std::nullopt;
  const auto size = static_cast<std::size_t>(call.numbers.size);
  if (size > kMostRanks) return std::nullopt;
  try {
    // A call of CUDA may block, where another thread holds a lock of the library and waits for a device that hangs. So
    // a thread makes the calls, and is left behind if they block.
    std::promise<std::optional<Words>> promise;
    auto answer = promise.get_future();
    std::thread([copies = copies_, from = call.words, size, promise = std::move(promise)]() mutable {
      try {
        promise.set_value(copies->read(*from, 2 * size));
      } catch (...) {
        promise.set_value(std::nullopt);
      }
    }).detach();
    if (answer.wait_for(kLimit) != std::future_status::ready) return std::nullopt;
    const std::optional<Words> words = answer.get();
    if (!words) return std::nullopt;
    const std::span all(*words);
    return comm::late_peers(call.numbers, all.subspan(Handshake::ready * size, size),
                            all.subspan(Handshake::done * size, size));
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace shard8::comm::peer
