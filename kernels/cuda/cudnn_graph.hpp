// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cuda/library_check.hpp"
#include "kernels/planned/device_memory.hpp"

namespace shard8::kernels::cuda {

/// A descriptor of cuDNN's backend API, owned. The caller sets attributes, then finalizes the descriptor; after that it
/// is not changed.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    SHARD8_CUDNN_CHECK(cudnnBackendCreateDescriptor(type, &descriptor_));
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  using Name = cudnnBackendAttributeName_t;
  Descriptor& set(Name name, std::int64_t value) { return set(name, CUDNN_TYPE_INT64, 1, &value); }
  Descriptor& set(Name name, bool value) { return set(name, CUDNN_TYPE_BOOLEAN, 1, &value); }
  Descriptor& set(Name name, cudnnDataType_t value) { return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value); }
  Descriptor& set(Name name, cudnnPointwiseMode_t value) { return set(name, CUDNN_TYPE_POINTWISE_MODE, 1, &value); }
  Descriptor& set(Name name, cudnnReduceTensorOp_t value) {
    return set(name, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &value);
  }
  Descriptor& set(Name name, cudnnBackendHeurMode_t value) { return set(name, CUDNN_TYPE_HEUR_MODE, 1, &value); }
  Descriptor& set(Name name, cudnnHandle_t value) { return set(name, CUDNN_TYPE_HANDLE, 1, &value); }
  Descriptor& set(Name name, const Descriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
  }
  Descriptor& set(Name name, std::span<const std::int64_t> values) {
    return set(name, CUDNN_TYPE_INT64, std::ssize(values), values.data());
  }
  Descriptor& set_pointers(Name name, std::span<void* const> values) {
    return set(name, CUDNN_TYPE_VOID_PTR, std::ssize(values), values.data());
  }
  Descriptor& set_descriptors(Name name, std::span<const cudnnBackendDescriptor_t> values) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(values), values.data());
  }

  Descriptor& finalize() {
    SHARD8_CUDNN_CHECK(cudnnBackendFinalize(descriptor_));
    return *this;
  }
  /// Finalizes and returns the status, where a failure is an answer: an engine does not support a graph.
  cudnnStatus_t try_finalize() { return cudnnBackendFinalize(descriptor_); }

  std::int64_t get_int(Name name) const {
    std::int64_t value = 0, count = 0;
    SHARD8_CUDNN_CHECK(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_INT64, 1, &count, &value));
    return value;
  }
  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  Descriptor& set(Name name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
    SHARD8_CUDNN_CHECK(cudnnBackendSetAttribute(descriptor_, name, type, count, values));
    return *this;
  }

  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

/// Extents and strides, in elements, of a tensor of four dimensions.
struct Layout {
  std::array<std::int64_t, 4> extents, strides;

  static Layout row_major(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return {{a, b, c, d}, {b * c * d, c * d, d, 1}};
  }
};

/// A tensor of a graph.
struct GraphTensor {
  Descriptor descriptor;
  Layout layout;
};

/// A number that a plan reads from host memory at each run.
struct GraphScalar {
  std::int64_t id;
  float value;
};

/// A graph of operations, which an engine of cuDNN runs as one kernel or a few. A tensor of the graph is one of three:
/// in memory, with an address that each run gives by id; a number; or intermediate, passed from one operation to the
/// next. All arithmetic is FP32.
/// The functions whose name ends in _into write the result to the tensor y. The others return the result as a new
/// intermediate tensor.
class Graph {
 public:
  using Tensor = const GraphTensor&;  ///< valid as long as the graph

  /// A tensor in memory. `id` must be below 1000.
  Tensor in_memory(std::int64_t id, cudnnDataType_t type, const Layout& layout);
  Tensor number(float value);

  /// y = mode(x), or y = mode(x, b), for each element, in FP32.
  Tensor pointwise(cudnnPointwiseMode_t mode, Tensor x);
  Tensor pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b);
  void pointwise_into(Tensor y, cudnnPointwiseMode_t mode, Tensor x);
  void pointwise_into(Tensor y, cudnnPointwiseMode_t mode, Tensor x, Tensor b);
  /// As pointwise; the result is passed to the next operation in the given type.
  Tensor pointwise_as(cudnnDataType_t type, cudnnPointwiseMode_t mode, Tensor x, Tensor b);

  /// x where its index in dimension 2 is at least its index in dimension 3; else `hidden`.
  Tensor lower_triangle(Tensor x, Tensor hidden);

  /// y (.., m, n) = a (.., m, k) · b (.., k, n).
  void matmul_into(Tensor y, Tensor a, Tensor b);
  Tensor matmul(Tensor a, Tensor b, cudnnDataType_t type, const Layout& layout);

  /// Reduces x by `op` over the dimensions in which y has extent 1. Where y has fewer heads than x, groups of heads are
  /// reduced.
  void reduce_into(Tensor y, cudnnReduceTensorOp_t op, Tensor x);
  Tensor reduce(cudnnReduceTensorOp_t op, Tensor x, const Layout& layout);

  /// The elements of x in another layout.
  Tensor reshape(Tensor x, cudnnDataType_t type, const Layout& layout);

  /// The finalized graph of all operations so far.
  Descriptor finish(cudnnHandle_t handle) const;
  std::span<const GraphScalar> scalars() const { return scalars_; }

 private:
  Tensor add(std::int64_t id, cudnnDataType_t type, const Layout& layout, bool passed_on, bool by_value);
  Tensor passed_on(cudnnDataType_t type, const Layout& layout);
  void add_pointwise(Tensor y, cudnnPointwiseMode_t mode, Tensor x, const GraphTensor* b = nullptr,
                     const GraphTensor* t = nullptr, cudnnDataType_t math = CUDNN_DATA_FLOAT, std::int64_t axis = -1);

  std::deque<GraphTensor> tensors_;
  std::vector<Descriptor> details_, operations_;
  std::vector<GraphScalar> scalars_;
  std::int64_t next_id_ = 1000;  ///< ids below 1000 are the caller's
};

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

/// The ids of the tensors in memory of attention's graphs.
enum SdpaId : std::int64_t { kQ = 1, kK, kV, kO, kLse, kDo, kDq, kDk, kDv, kDelta, kDqSum };

/// The graph of forward. cuDNN's fused engines recognize it as attention if the operations come in this order: scores,
/// scale, mask, softmax by a maximum and a sum, product with the values. q, k, v are BF16 slices of rows [q heads | k
/// heads | v heads]; o is BF16 rows of heads; lse is FP32.
Graph sdpa_forward_graph(const SdpaPart& part);

/// The graph of backward, with probabilities recomputed from the log-sum-exp. dq, dk, dv lie as q, k, v, and dout as o.
/// Scratch in memory: kDelta FP32 (batch, heads, seq), the sums of dout·o; and, unless deterministic, kDqSum FP32
/// (batch, heads, seq, head_dim). Deterministic backward keeps the gradients of all scores of the part, in BF16, in the
/// plan's workspace.
Graph sdpa_backward_graph(const SdpaPart& part);

}  // namespace shard8::kernels::cuda
