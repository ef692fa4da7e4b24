// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "kernels/cuda/cudnn_descriptor.hpp"

namespace shard8::kernels::cuda {

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

}  // namespace shard8::kernels::cuda
