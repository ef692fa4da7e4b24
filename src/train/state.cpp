// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/state.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "comm/communicator.hpp"
#include "deck/device.hpp"
#include "kernels/adamw.hpp"
#include "kernels/attention.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"
#include "kernels/planned/device_memory.hpp"
#include "kernels/vocabulary.hpp"
#include "model/vocabulary.hpp"
#include "tensor/dtype.hpp"
#include "train/setup.hpp"

namespace shard8::train {

using operation::Format;
using operation::Operation;
using profile::Exchange;

namespace {

/// For each unit, memory in which its gradient shards may lie: a layer's kept activations, which are not read after the
/// layer's backward. Empty for the embedding.
std::vector<tensor::Tensor> lent_to_units(const model::Activations& activations) {
  std::vector<tensor::Tensor> lent(activations.layers.size() + 1);
  for (std::size_t layer = 0; layer < activations.layers.size(); ++layer)
    lent[static_cast<std::size_t>(model::layer_unit(static_cast<std::int64_t>(layer)))] = activations.kept[layer];
  return lent;
}

}  // namespace

State::State(const Setup& setup, tensor::ArenaSet set) : State(setup, std::move(set), workspace_bytes(setup)) {}

State::State(const Setup& setup, tensor::ArenaSet set, std::size_t workspace)
    : arenas(std::move(set)),
      activations(model::Activations::allocate(setup.dims, setup.config.model.layers, setup.config.model.recompute,
                                               setup.weights.recipe, workspace, arenas)),
      scaling(setup.weights.recipe, arenas[tensor::MemoryKind::weights], setup.validates()),
      units(model::unit_shapes(setup.units, setup.weights, &scaling), setup.fsdp, arenas, lent_to_units(activations)),
      optimizer(setup.config.optimizer, units, arenas),
      all_squares(arenas[tensor::MemoryKind::buffers].allocate(
          {(setup.weights.stored() ? 2 : 1) * static_cast<std::int64_t>(units.units().size()),
           kernels::kExactTotalBytes},
          tensor::DType::u8)),
      squares(all_squares.slice(0, static_cast<std::int64_t>(units.units().size()))),
      weight_squares(all_squares.slice(squares.rows(), all_squares.rows() - squares.rows())) {}

std::size_t reduce_memory_bytes(const Setup& setup, const fsdp::UnitBuffers& buffers) {
  constexpr std::size_t kEnough =
      std::size_t{256} << 20;  // chosen: with so much, each round of a reduction takes far longer than its start
  std::size_t most = 0;
  for (int unit = 0; unit < static_cast<int>(buffers.units().size()); ++unit) {
    std::size_t bytes = 0;
    for (const fsdp::WeightForms& weight : buffers.weights(unit)) {
      const std::size_t own = tensor::bytes_of(setup.fsdp.reduce, weight.gradient.count());
      bytes += comm::Communicator::reduce_memory_bytes(own, buffers.shard_ranks(unit));
    }
    most = std::max(most, bytes);
  }
  return std::min(most, kEnough);
}

std::size_t all_reduce_memory_bytes(const Setup& setup, const fsdp::UnitBuffers& buffers) {
  std::size_t most = 0;
  for (int unit = 0; unit < static_cast<int>(buffers.units().size()); ++unit) {
    std::size_t bytes = 0;
    for (const fsdp::WeightForms& weight : buffers.weights(unit))
      bytes += tensor::bytes_of(setup.fsdp.reduce, weight.gradient.count());
    most = std::max(most, comm::Communicator::all_reduce_memory_bytes(bytes, buffers.sum_ranks(unit)));
  }
  return most;
}

std::size_t UserBuffers::bytes() const {
  if (gather + scatter == 0) return reduce;
  return reduce + comm::Communicator::parts_memory_bytes(gather, scatter, ranks);
}

UserBuffers user_buffers(const Setup& setup) {
  const model::Dims& d = setup.dims;
  const std::int64_t own = d.tokens_local() * d.hidden;
  UserBuffers buffers;
  buffers.ranks = d.tensor;
  if (!d.overlap.of_tensor_group()) return buffers;
  if (d.device && deck::carried_by_hosts(setup.config.run)) return buffers;  // parts go by messages
  if (d.device) {
    constexpr std::size_t kEnough = std::size_t{256} << 20;  // as for gradients
    buffers.reduce = comm::Communicator::reduce_memory_bytes(bytes_of(d.compute, own), d.tensor);
    if (!d.overlap.by_parts()) buffers.reduce = std::min(buffers.reduce, kEnough);  // parts need room for all
    return buffers;
  }
  if (d.overlap.of(Exchange::head_fprop).shares_memory())
    buffers.gather = tensor::aligned(bytes_of(d.compute, model::HeadChunks::make(d).gathered_first() * d.hidden));
  if (d.overlap.of(Exchange::qkv_fprop).shares_memory() || d.overlap.of(Exchange::fc1_fprop).shares_memory()) {
    const fp8::Recipe& recipe = setup.weights.recipe;
    if (recipe.layers < setup.config.model.layers)
      buffers.gather = std::max(buffers.gather, tensor::aligned(bytes_of(d.compute, own)));
    if (recipe.on()) {
      const auto scaling = recipe.rowwise(fp8::Role::input);
      const auto scales = static_cast<std::size_t>(tensor::scale_bytes(scaling, own));
      buffers.gather = std::max(
          buffers.gather, tensor::aligned(bytes_of(recipe.dtype(fp8::Role::input), own)) + tensor::aligned(scales));
    }
  }
  if (d.overlap.of(Exchange::proj_fprop).shares_memory() || d.overlap.of(Exchange::fc2_fprop).shares_memory())
    buffers.scatter = bytes_of(d.compute, d.tokens() * d.hidden);
  return buffers;
}

tensor::MemoryBytes state_bytes(const Setup& setup) { return State(setup, tensor::ArenaSet::measure()).arenas.bytes(); }

namespace {

/// The most bytes that any operation needs of the memory of a kernels::Workspace.
class Largest {
 public:
  Largest(const model::Dims& dims, int threads) : dims_(dims), threads_(threads) {}

  void add(const Operation& operation) {
    if (const auto* p = operation.product()) take(product(operation.location.linear, *p));
    if (const auto* a = operation.attention()) take(attention(a->shape));
    if (const auto* k = operation.kernel()) take(kernel(*k));
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void take(std::size_t bytes) { bytes_ = std::max(bytes_, bytes); }

  /// Bytes that the three products of a linear need. The bytes are counted at the linear's wgrad: fprop has shown how
  /// inputs are scaled, and wgrad shows which matrices are transposed. 0 for fprop and dgrad.
  std::size_t product(std::optional<fp8::Linear> linear, const operation::Product& p) {
    if (p.kind == operation::Product::Kind::fprop) inputs_[linear] = p.left;
    if (p.kind != operation::Product::Kind::wgrad) return 0;
    const Format& x = inputs_.at(linear);
    const bool transposed = p.left.transposed && p.right.transposed;
    if (dims_.device) return kernels::cuda::gemm_memory_bytes(x.dtype, p.inner, p.cols, p.rows, x.scaling, transposed);
    return kernels::gemm_workspace_bytes(x.dtype, p.inner, p.cols, p.rows, x.scaling, transposed);
  }

  std::size_t attention(const kernels::AttentionShape& shape) const {
    return dims_.device ? kernels::cuda::sdpa_workspace_bytes(shape)
                        : kernels::attention_workspace_bytes(shape, threads_);
  }

  std::size_t kernel(const operation::Kernel& k) const {
    if (k.name == "bias_gradient" || k.name == "rmsnorm_backward" || k.name == "layernorm_backward" ||
        k.name == "qk_norm_rope_backward")
      return kernels::norm_workspace_bytes(k.rows, k.cols);
    if (k.name == "embedding_backward")
      return kernels::embedding_workspace_bytes(k.rows, dims_.vocab_local, dims_.device);
    return 0;
  }

  const model::Dims& dims_;
  int threads_;
  std::map<std::optional<fp8::Linear>, Format> inputs_;
  std::size_t bytes_ = 0;
};

/// Bytes of workspace for products of an expert that gets all rows of a round; a record shows products of mean rows.
std::size_t expert_workspace_bytes(const model::Dims& d, const fp8::Recipe& recipe) {
  const std::int64_t rows = d.experts.round_rows(d.tokens_local()), ffn = d.experts.ffn, local = d.experts.local();
  const auto bytes_of = [&](tensor::DType dtype, tensor::Scaling scaling, bool transposed) {
    const auto bytes = [&](std::int64_t inputs, std::int64_t outputs) {
      return d.device
                 ? kernels::cuda::grouped_gemm_memory_bytes(dtype, local, rows, inputs, outputs, scaling, transposed)
                 : kernels::grouped_gemm_workspace_bytes(dtype, local, rows, inputs, outputs, scaling, transposed);
    };
    return std::max(bytes(d.hidden, 2 * ffn), bytes(ffn, d.hidden));
  };
  const std::size_t plain = bytes_of(d.compute, tensor::Scaling::none, false);
  if (recipe.expert_layers() == 0) return plain;
  constexpr auto kRole = fp8::Role::input;
  const auto in_fp8 = [&](bool transposed) { return bytes_of(recipe.dtype(kRole), recipe.rowwise(kRole), transposed); };
  // What arrives cast is not transposed, what is cast here is.
  const std::size_t arrived = d.experts.sends_fp8 ? in_fp8(false) : 0;
  return std::max({plain, arrived, in_fp8(recipe.transposed(kRole, false))});
}

}  // namespace

std::size_t workspace_bytes(const Setup& setup) {
  Largest largest(setup.dims, setup.threads);
  const auto record_layer = [&](bool in_fp8, bool experts) {
    Setup one = setup;
    one.config.model.layers = 1;
    if (!experts) {
      one.config.model.moe = {};
      one.dims.experts = {};
      one.mesh.expert = 1;
      one.place = base::Place(one.mesh, setup.place.rank());
    } else {
      one.config.model.moe.dense_layers = one.dims.experts.dense_layers = 0;
      one.dims.experts.layers = 1;
    }
    one.config.model.recompute = deck::Recompute::none;
    one.layout.micro_batches = 1;
    if (in_fp8) {
      one.weights.recipe.first_layer = 0;
      one.weights.recipe.layers = 1;
      one.weights.recipe.dense_layers = experts ? 0 : 1;
      if (!experts) one.weights.recipe.experts = 0;
    } else {
      one.weights = {};
    }
    one.fsdp.place = one.place;
    one.units = model::make_units(one.config.model, one.place);
    record_step(one, {.first = true, .last = true}, [&](const Operation& operation) { largest.add(operation); });
  };
  const deck::ModelConfig& model = setup.config.model;
  if (model.expert_layers() < model.layers) {
    record_layer(false, false);
    if (setup.weights.recipe.on() && setup.weights.recipe.ffn_layers() > 0) record_layer(true, false);
  }
  if (model.expert_layers() == 0) return largest.bytes();
  const fp8::Recipe& recipe = setup.weights.recipe;
  if (recipe.expert_layers() < model.expert_layers()) record_layer(false, true);
  if (recipe.expert_layers() > 0) record_layer(true, true);
  return std::max(largest.bytes(), expert_workspace_bytes(setup.dims, recipe));
}

}  // namespace shard8::train
