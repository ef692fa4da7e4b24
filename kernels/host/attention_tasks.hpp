// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "kernels/attention.hpp"
#include "kernels/kokkos/label.hpp"
#include "tensor/exec.hpp"

namespace shard8::kernels {

/// How a pass is cut. Both ways run the same block products in the same order on every sum, so they
/// give the same bits.
struct AttentionPlan {
  std::int64_t workers = 1;        ///< each with scratch of its own
  bool whole_heads = true;         ///< a task is a (sequence, kv head); else a block: of queries, or of keys
  std::int64_t worker_floats = 0;  ///< scratch of one
};
AttentionPlan plan_forward(const AttentionShape& shape, int threads);
AttentionPlan plan_backward(const AttentionShape& shape, int threads);

/// The task counter lies before the workers' scratch.
inline constexpr std::int64_t kCounterBytes = 256;
std::size_t plan_bytes(const AttentionPlan& plan);

/// Calls f(scratch, task) for every task, each worker taking the next one when it is done.
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
