// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <vector>

#include "bench/calibrate.hpp"
#include "kernels/elementwise.hpp"
#include "tensor/arena.hpp"
#include "tensor/transfer.hpp"

namespace shard8::bench {

std::vector<machine::KernelTime> time_memory(const tensor::Exec& exec, std::uint64_t most) {
  using Clock = std::chrono::steady_clock;
  constexpr std::uint64_t kLeast = 65536, kFactor = 4;
  constexpr std::int64_t kColumns = 1024;
  constexpr int kBlocks = 5;
  constexpr double kBlock_s = 0.01;               // chosen: many calls, so that the device never waits for the host
  const auto rows_of = [](std::uint64_t bytes) {  // three matrices of bf16 are passed
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / (3 * 2 * kColumns)));
  };
  const std::int64_t most_rows = rows_of(most);
  tensor::Arena arena("memory", tensor::MemoryKind::buffers,
                      3 * (tensor::bytes_of(tensor::DType::bf16, most_rows * kColumns) + tensor::kAlignment));
  std::vector<tensor::Tensor> whole;
  for (int i = 0; i < 3; ++i) {
    whole.push_back(arena.allocate({most_rows, kColumns}, tensor::DType::bf16));
    kernels::fill_zero(exec, whole.back());
  }
  std::vector<machine::KernelTime> times;
  for (std::uint64_t bytes = kLeast; bytes <= most; bytes *= kFactor) {
    const std::int64_t rows = rows_of(bytes);
    const auto seconds_of = [&](int calls) {
      tensor::finish(exec);
      const auto begin = Clock::now();
      for (int i = 0; i < calls; ++i)
        kernels::residual_add(exec, whole[0].slice(0, rows), whole[1].slice(0, rows), whole[2].slice(0, rows), {});
      tensor::finish(exec);
      return std::chrono::duration<double>(Clock::now() - begin).count() / calls;
    };
    seconds_of(1);
    const int calls = std::clamp(static_cast<int>(kBlock_s / seconds_of(2)), 2, 2000);
    std::vector<double> blocks;
    for (int b = 0; b < kBlocks; ++b) blocks.push_back(seconds_of(calls));
    std::nth_element(blocks.begin(), blocks.begin() + kBlocks / 2, blocks.end());
    machine::KernelTime time;
    time.name = "any";
    time.bytes = static_cast<std::uint64_t>(rows * kColumns) * 6;
    time.seconds = blocks[kBlocks / 2];
    times.push_back(time);
  }
  return times;
}

}  // namespace shard8::bench
