// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/cuda/cudnn_graph.hpp"

namespace shard8::kernels::cuda {

/// The address of one tensor of a graph, by its id.
struct Binding {
  std::int64_t id;
  void* address;
};

/// The engine configurations that cuDNN's heuristics offer on this device for a finalized graph, and that support the
/// graph. Best first; fallback configurations last.
std::vector<Descriptor> engine_configurations(const Descriptor& graph);

/// A graph compiled for an engine.
class Plan {
 public:
  /// Throws base::Error with the library's reason if the engine does not support the graph. An engine that cuDNN's
  /// heuristics proposed may still not support it.
  Plan(cudnnHandle_t handle, const Descriptor& configuration, std::span<const GraphScalar> scalars);

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Runs the graph on the handle's stream. `workspace` must have workspace_bytes() and be aligned to 256 bytes.
  cudnnStatus_t run(cudnnHandle_t handle, std::span<const Binding> bindings, void* workspace);

 private:
  Descriptor plan_{CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
  std::vector<GraphScalar> scalars_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace shard8::kernels::cuda
