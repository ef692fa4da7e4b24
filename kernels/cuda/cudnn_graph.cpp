// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn_graph.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace shard8::kernels::cuda {

Graph::Tensor Graph::add(std::int64_t id, cudnnDataType_t type, const Layout& layout, bool passed_on, bool by_value) {
  constexpr std::int64_t kAlignment = 16;
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const std::int64_t>(layout.extents))
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const std::int64_t>(layout.strides))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, passed_on)
      .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, by_value)
      .finalize();
  return tensors_.emplace_back(GraphTensor{std::move(tensor), layout});
}

Graph::Tensor Graph::in_memory(std::int64_t id, cudnnDataType_t type, const Layout& layout) {
  return add(id, type, layout, false, false);
}

Graph::Tensor Graph::passed_on(cudnnDataType_t type, const Layout& layout) {
  return add(next_id_++, type, layout, true, false);
}

Graph::Tensor Graph::number(float value) {
  scalars_.push_back({next_id_, value});
  return add(next_id_++, CUDNN_DATA_FLOAT, Layout::row_major(1, 1, 1, 1), false, true);
}

void Graph::add_pointwise(Tensor y, cudnnPointwiseMode_t mode, Tensor x, const GraphTensor* b, const GraphTensor* t,
                          cudnnDataType_t math, std::int64_t axis) {
  Descriptor detail(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  detail.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, math);
  if (axis >= 0) detail.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  detail.finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, detail)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
  if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->descriptor);
  if (t != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t->descriptor);
  operation.finalize();
  details_.push_back(std::move(detail));
  operations_.push_back(std::move(operation));
}

Graph::Tensor Graph::pointwise(cudnnPointwiseMode_t mode, Tensor x) {
  Tensor y = passed_on(CUDNN_DATA_FLOAT, x.layout);
  add_pointwise(y, mode, x);
  return y;
}
Graph::Tensor Graph::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b) {
  return pointwise_as(CUDNN_DATA_FLOAT, mode, x, b);
}
Graph::Tensor Graph::pointwise_as(cudnnDataType_t type, cudnnPointwiseMode_t mode, Tensor x, Tensor b) {
  Tensor y = passed_on(type, x.layout);
  add_pointwise(y, mode, x, &b);
  return y;
}
void Graph::pointwise_into(Tensor y, cudnnPointwiseMode_t mode, Tensor x) { add_pointwise(y, mode, x); }
void Graph::pointwise_into(Tensor y, cudnnPointwiseMode_t mode, Tensor x, Tensor b) { add_pointwise(y, mode, x, &b); }

Graph::Tensor Graph::lower_triangle(Tensor x, Tensor hidden) {
  Tensor row = passed_on(CUDNN_DATA_INT32, x.layout);
  add_pointwise(row, CUDNN_POINTWISE_GEN_INDEX, x, nullptr, nullptr, CUDNN_DATA_FLOAT, 2);
  Tensor column = passed_on(CUDNN_DATA_INT32, x.layout);
  add_pointwise(column, CUDNN_POINTWISE_GEN_INDEX, x, nullptr, nullptr, CUDNN_DATA_FLOAT, 3);
  Tensor seen = passed_on(CUDNN_DATA_BOOLEAN, x.layout);
  add_pointwise(seen, CUDNN_POINTWISE_CMP_GE, row, &column, nullptr, CUDNN_DATA_BOOLEAN);
  Tensor y = passed_on(CUDNN_DATA_FLOAT, x.layout);
  add_pointwise(y, CUDNN_POINTWISE_BINARY_SELECT, x, &hidden, &seen);
  return y;
}

void Graph::matmul_into(Tensor y, Tensor a, Tensor b) {
  Descriptor detail(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  detail.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor)
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor)
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, y.descriptor)
      .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, detail)
      .finalize();
  details_.push_back(std::move(detail));
  operations_.push_back(std::move(operation));
}
Graph::Tensor Graph::matmul(Tensor a, Tensor b, cudnnDataType_t type, const Layout& layout) {
  Tensor y = passed_on(type, layout);
  matmul_into(y, a, b);
  return y;
}

void Graph::reduce_into(Tensor y, cudnnReduceTensorOp_t op, Tensor x) {
  Descriptor detail(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  detail.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT).set(CUDNN_ATTR_REDUCTION_OPERATOR, op).finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, detail)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor)
      .finalize();
  details_.push_back(std::move(detail));
  operations_.push_back(std::move(operation));
}
Graph::Tensor Graph::reduce(cudnnReduceTensorOp_t op, Tensor x, const Layout& layout) {
  Tensor y = passed_on(CUDNN_DATA_FLOAT, layout);
  reduce_into(y, op, x);
  return y;
}

Graph::Tensor Graph::reshape(Tensor x, cudnnDataType_t type, const Layout& layout) {
  Tensor y = passed_on(type, layout);
  Descriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor)
      .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor)
      .finalize();
  operations_.push_back(std::move(operation));
  return y;
}

Descriptor Graph::finish(cudnnHandle_t handle) const {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const auto& operation : operations_) operations.push_back(operation.get());
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations)
      .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle)
      .finalize();
  return graph;
}

namespace {

constexpr std::size_t kMaxOperands = 24;

std::vector<Descriptor> offered(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (heuristics.try_finalize() != CUDNN_STATUS_SUCCESS) return {};  // the heuristics do not know such graphs
  const auto results = [&](std::int64_t room, cudnnBackendDescriptor_t* into) {
    std::int64_t count = 0;
    SHARD8_CUDNN_CHECK(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, room, &count, into));
    return static_cast<std::size_t>(count);
  };
  std::vector<Descriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::size_t n = results(0, nullptr); n > 0; --n) {
    raw.push_back(configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  // cuDNN fills in only the configurations that support the graph, at the front.
  const auto filled = raw.empty() ? 0 : results(std::ssize(raw), raw.data());
  while (configurations.size() > filled) configurations.pop_back();
  return configurations;
}

}  // namespace

std::vector<Descriptor> engine_configurations(const Descriptor& graph) {
  auto all = offered(graph, CUDNN_HEUR_MODE_A);
  for (auto& configuration : offered(graph, CUDNN_HEUR_MODE_FALLBACK)) all.push_back(std::move(configuration));
  return all;
}

Plan::Plan(cudnnHandle_t handle, const Descriptor& configuration, std::span<const GraphScalar> scalars)
    : scalars_(scalars.begin(), scalars.end()) {
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle)
      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)
      .finalize();
  workspace_bytes_ = static_cast<std::size_t>(plan_.get_int(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
}

cudnnStatus_t Plan::run(cudnnHandle_t handle, std::span<const Binding> bindings, void* workspace) {
  const auto count = bindings.size() + scalars_.size();
  SHARD8_REQUIRE(count <= kMaxOperands, "cudnn: {} operands in a plan, {} allowed", count, kMaxOperands);
  std::array<std::int64_t, kMaxOperands> ids;
  std::array<void*, kMaxOperands> addresses;
  std::size_t n = 0;
  for (const auto& [id, address] : bindings) {
    ids[n] = id;
    addresses[n++] = address;
  }
  for (auto& scalar : scalars_) {
    ids[n] = scalar.id;
    addresses[n++] = &scalar.value;
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const std::int64_t>(ids).first(count))
      .set_pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span<void* const>(addresses).first(count))
      .set_pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::span<void* const>(&workspace, 1))
      .finalize();
  return cudnnBackendExecute(handle, plan_.get(), pack.get());
}

namespace {

constexpr auto kBf16 = CUDNN_DATA_BFLOAT16;
constexpr auto kFp32 = CUDNN_DATA_FLOAT;

/// The layouts of all tensors, (batch, heads, rows, columns).
struct Layouts {
  Layout q, k, k_transposed, out, row, scores, scores_transposed, full;

  explicit Layouts(const SdpaPart& part) {
    const auto& w = part.whole;
    const auto b = part.batch, h = part.heads(), kv = part.kv_heads, s = w.seq, d = w.head_dim,
               columns = w.qkv_columns();
    q = {{b, h, s, d}, {s * columns, d, columns, 1}};
    k = {{b, kv, s, d}, {s * columns, d, columns, 1}};
    k_transposed = {{b, kv, d, s}, {s * columns, d, 1, columns}};
    out = {{b, h, s, d}, {s * w.heads * d, d, w.heads * d, 1}};
    row = {{b, h, s, 1}, {w.heads * s, s, 1, 1}};
    scores = Layout::row_major(b, h, s, s);
    scores_transposed = {scores.extents, {h * s * s, s * s, 1, s}};
    full = Layout::row_major(b, h, s, d);
  }
};

float scale_of(const SdpaPart& part) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(part.whole.head_dim)));
}

constexpr float kHidden = -std::numeric_limits<float>::infinity();

}  // namespace

Graph sdpa_forward_graph(const SdpaPart& part) {
  const Layouts at(part);
  Graph g;
  Graph::Tensor q = g.in_memory(kQ, kBf16, at.q);
  Graph::Tensor k_transposed = g.in_memory(kK, kBf16, at.k_transposed);
  Graph::Tensor v = g.in_memory(kV, kBf16, at.k);
  Graph::Tensor o = g.in_memory(kO, kBf16, at.out);
  Graph::Tensor lse = g.in_memory(kLse, kFp32, at.row);

  Graph::Tensor scores = g.matmul(q, k_transposed, kFp32, at.scores);
  Graph::Tensor scaled = g.pointwise(CUDNN_POINTWISE_MUL, scores, g.number(scale_of(part)));
  Graph::Tensor seen = g.lower_triangle(scaled, g.number(kHidden));
  Graph::Tensor largest = g.reduce(CUDNN_REDUCE_TENSOR_MAX, seen, at.row);
  Graph::Tensor e = g.pointwise(CUDNN_POINTWISE_EXP, g.pointwise(CUDNN_POINTWISE_SUB, seen, largest));
  Graph::Tensor sum = g.reduce(CUDNN_REDUCE_TENSOR_ADD, e, at.row);
  g.pointwise_into(lse, CUDNN_POINTWISE_ADD, largest, g.pointwise(CUDNN_POINTWISE_LOG, sum));
  Graph::Tensor p = g.pointwise_as(kBf16, CUDNN_POINTWISE_DIV, e, sum);
  g.matmul_into(o, p, v);
  return g;
}

Graph sdpa_backward_graph(const SdpaPart& part) {
  const Layouts at(part);
  const bool grouped = part.heads() != part.kv_heads;
  Graph g;
  Graph::Tensor q = g.in_memory(kQ, kBf16, at.q);
  Graph::Tensor k_transposed = g.in_memory(kK, kBf16, at.k_transposed);
  Graph::Tensor v_transposed = g.in_memory(kV, kBf16, at.k_transposed);
  Graph::Tensor o = g.in_memory(kO, kBf16, at.out);
  Graph::Tensor dout = g.in_memory(kDo, kBf16, at.out);
  Graph::Tensor lse = g.in_memory(kLse, kFp32, at.row);
  Graph::Tensor dq = g.in_memory(kDq, kBf16, at.q);
  Graph::Tensor dk = g.in_memory(kDk, kBf16, at.k);
  Graph::Tensor dv = g.in_memory(kDv, kBf16, at.k);
  Graph::Tensor delta = g.in_memory(kDelta, kFp32, Layout::row_major(part.batch, part.heads(), part.whole.seq, 1));
  Graph::Tensor scale = g.number(scale_of(part)), hidden = g.number(kHidden), one = g.number(1.0f);

  // delta = Σ dout·o, for each query.
  Graph::Tensor product = g.pointwise(CUDNN_POINTWISE_MUL, dout, o);
  g.pointwise_into(delta, CUDNN_POINTWISE_MUL, g.reduce(CUDNN_REDUCE_TENSOR_ADD, product, delta.layout), one);

  // The gradient of k or v. With grouped queries it is summed over the query heads of the group.
  const auto key_gradient = [&](Graph::Tensor y, Graph::Tensor of_scores, Graph::Tensor x) {
    Graph::Tensor transposed = g.reshape(of_scores, kBf16, at.scores_transposed);
    if (grouped) {
      g.reduce_into(y, CUDNN_REDUCE_TENSOR_ADD, g.matmul(transposed, x, kBf16, at.full));
    } else {
      g.matmul_into(y, transposed, x);
    }
  };

  // p = exp(scores − lse), dv = pᵀ·dout.
  Graph::Tensor scores = g.matmul(q, k_transposed, kFp32, at.scores);
  Graph::Tensor scaled = g.pointwise(CUDNN_POINTWISE_MUL, scores, scale);
  Graph::Tensor shifted = g.pointwise(CUDNN_POINTWISE_SUB, scaled, lse);
  Graph::Tensor p = g.pointwise(CUDNN_POINTWISE_EXP, g.lower_triangle(shifted, hidden));
  key_gradient(dv, p, dout);

  // ds = p·(dout·vᵀ − delta)·scale, dk = dsᵀ·q.
  Graph::Tensor dp = g.matmul(dout, v_transposed, kFp32, at.scores);
  Graph::Tensor centred = g.pointwise(CUDNN_POINTWISE_SUB, dp, delta);
  Graph::Tensor ds = g.pointwise(CUDNN_POINTWISE_MUL, g.pointwise(CUDNN_POINTWISE_MUL, centred, p), scale);
  key_gradient(dk, ds, q);

  // dq = ds·k. If deterministic, dq is computed from all of ds. Otherwise tiles of keys add to dq in any order.
  Graph::Tensor k = g.reshape(k_transposed, kBf16, at.k);
  if (part.whole.deterministic) {
    g.matmul_into(dq, ds, k);
  } else {
    Graph::Tensor sum = g.in_memory(kDqSum, kFp32, at.full);
    g.matmul_into(sum, ds, k);
    g.pointwise_into(dq, CUDNN_POINTWISE_IDENTITY, sum);
  }
  return g;
}

}  // namespace shard8::kernels::cuda
