// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "kernels/host/attention_blocks.hpp"
#include "kernels/kokkos/label.hpp"
#include "tensor/exec.hpp"

namespace shard8::kernels {

/// How a pass is cut into tasks. Both ways compute the same block products, and add them in the same order to every
/// sum. So both give the same bits.
struct AttentionPlan {
  std::int64_t workers = 1;        ///< how many threads take tasks; each has its own scratch
  bool whole_heads = true;         ///< a task is a (sequence, kv head); otherwise a block of queries or of keys
  std::int64_t worker_floats = 0;  ///< floats of scratch of one worker
};

/// The plan of a pass on `threads` threads whose workers use Scratch. `whole` and `by_blocks` are the work of the two
/// ways, in any unit. Whole heads need less work, but there may be too few of them for the threads. They are chosen
/// unless their last round leaves threads idle for so long that cutting by blocks is faster.
template <class Scratch>
AttentionPlan plan_pass(const AttentionShape& shape, std::int64_t threads, std::int64_t whole, std::int64_t by_blocks) {
  const AttentionLayout at(shape);
  const auto heads = shape.batch * shape.kv_heads, blocks = shape.batch * shape.heads * at.blocks;
  const auto rounds = (heads + threads - 1) / threads;
  const bool whole_heads = whole * rounds * threads <= by_blocks * heads || at.blocks == 1;
  ScratchCutter cut(nullptr);
  const Scratch counted(cut, at, whole_heads);
  return {.workers = std::min<std::int64_t>(threads, whole_heads ? heads : blocks),
          .whole_heads = whole_heads,
          .worker_floats = cut.used()};
}
AttentionPlan plan_forward(const AttentionShape& shape, int threads);
AttentionPlan plan_backward(const AttentionShape& shape, int threads);

/// Bytes of the task counter, which is stored before the workers' scratch.
inline constexpr std::int64_t kCounterBytes = 256;
/// Bytes of workspace that a plan needs.
std::size_t plan_bytes(const AttentionPlan& plan);

/// Calls f(scratch, task) for every task in [0, tasks). A worker that has finished a task takes the next one.
template <class F>
void run_tasks(const tensor::Exec& exec, const char* label, const AttentionPlan& plan, std::byte* workspace,
               std::int64_t tasks, const F& f) {
  auto* counter = reinterpret_cast<std::int64_t*>(workspace);
  auto* scratch = reinterpret_cast<float*>(workspace + kCounterBytes);
  *counter = 0;
  using Workers = Kokkos::RangePolicy<tensor::Exec, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(label_of(label), Workers(exec, 0, plan.workers), [=](std::int64_t worker) {
    for (;;) {
      const auto task = Kokkos::atomic_fetch_add(counter, std::int64_t{1});
      if (task >= tasks) return;
      f(scratch + worker * plan.worker_floats, task);
    }
  });
}

}  // namespace shard8::kernels
