// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/cuda/cudnn_graph.hpp"

namespace shard8::kernels::cuda {

/// An address for a tensor of a graph, by its id.
struct Binding {
  std::int64_t id;
  void* address;
};

/// The engine configurations that the heuristics offer for a finalized graph on this device and that
/// support it, best first; those of last resort at the end.
std::vector<Descriptor> engine_configurations(const Descriptor& graph);

/// A graph compiled for an engine.
class Plan {
 public:
  /// Throws base::Error with the library's reason when the engine does not take the graph after all.
  Plan(cudnnHandle_t handle, const Descriptor& configuration, std::span<const GraphScalar> scalars);

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// On the handle's stream; `workspace` has workspace_bytes(), 256-byte aligned.
  cudnnStatus_t run(cudnnHandle_t handle, std::span<const Binding> bindings, void* workspace);

 private:
  Descriptor plan_{CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
  std::vector<GraphScalar> scalars_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace shard8::kernels::cuda
