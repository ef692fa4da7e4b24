// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

#include "tests/comm/peer/one_process.hpp"

/// What tests of races of ranks in one process need: other bytes than were there, and delays at random places.
namespace shard8::comm::tests {

inline void copy(cudaStream_t stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  SHARD8_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}
inline void poison(cudaStream_t stream, std::byte* memory, std::size_t bytes) {
  SHARD8_CUDA_CHECK(cudaMemsetAsync(memory, 0xff, bytes, stream));
}

/// What happens at random: the same in every run.
class Chance {
 public:
  /// CUDA loads a kernel at its first launch, and must not do so while a stream waits.
  Chance() { poison(nullptr, busy_.data(), kBusy); }
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  /// Every fourth time the stream has something else to do, for up to some ten microseconds.
  void delay(cudaStream_t stream) {
    if (below(4) != 0) return;
    for (int i = below(6); i-- > 0;) poison(stream, busy_.data(), kBusy);
  }
  /// The ranks of a group, in the order in which the host gives them their calls.
  std::vector<int> order(int size) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::shuffle(ranks.begin(), ranks.end(), random_);
    return ranks;
  }

 private:
  static constexpr std::size_t kBusy = std::size_t{8} << 20;
  std::mt19937 random_;
  Memory busy_{kBusy};
};

}  // namespace shard8::comm::tests
