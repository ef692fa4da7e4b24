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

/// Extents of a tensor of four dimensions and the elements from one index to the next.
struct Layout {
  std::array<std::int64_t, 4> extents, strides;

  static Layout row_major(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return {{a, b, c, d}, {b * c * d, c * d, d, 1}};
  }
};

/// An operand of a graph's operations.
struct GraphTensor {
  Descriptor descriptor;
  Layout layout;
};

/// A number that a plan reads from host memory.
struct GraphScalar {
  std::int64_t id;
  float value;
};

/// A graph of operations, which an engine of cuDNN runs as one kernel or a few. Tensors are in
/// memory (their addresses come with each run, by id), numbers, or only pass from one operation to
/// the next. All arithmetic is FP32.
class Graph {
 public:
  using Tensor = const GraphTensor&;  ///< lives as long as the graph

  Tensor in_memory(std::int64_t id, cudnnDataType_t type, const Layout& layout);
  Tensor number(float value);

  Tensor pointwise(cudnnPointwiseMode_t mode, Tensor x);
  Tensor pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b);
  void pointwise_into(Tensor y, cudnnPointwiseMode_t mode, Tensor x);
  void pointwise_into(Tensor y, cudnnPointwiseMode_t mode, Tensor x, Tensor b);
  /// As pointwise, passed on in another type.
  Tensor pointwise_as(cudnnDataType_t type, cudnnPointwiseMode_t mode, Tensor x, Tensor b);

  /// x where its index in dimension 2 is at least that in dimension 3, else `hidden`.
  Tensor lower_triangle(Tensor x, Tensor hidden);

  /// y (.., m, n) = a (.., m, k) · b (.., k, n).
  void matmul_into(Tensor y, Tensor a, Tensor b);
  Tensor matmul(Tensor a, Tensor b, cudnnDataType_t type, const Layout& layout);

  /// Over the dimensions where the result has extent 1, or groups of heads where it has fewer.
  void reduce_into(Tensor y, cudnnReduceTensorOp_t op, Tensor x);
  Tensor reduce(cudnnReduceTensorOp_t op, Tensor x, const Layout& layout);

  /// The same elements under another layout.
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
  std::int64_t next_id_ = 1000;  ///< ids below are the caller's
};

}  // namespace shard8::kernels::cuda
