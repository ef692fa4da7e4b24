// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/transformer.hpp"

#include <functional>
#include <optional>
#include <utility>

#include "kernels/attention.hpp"
#include "kernels/elementwise.hpp"

namespace shard8::model {

using fsdp::Pass;
using profile::Phase;
using tensor::Tensor;

bool has_embedding_unit(const deck::ModelConfig& model) { return !embedding_parameters(model).empty(); }

bool recomputes_in_a_visit(const deck::ModelConfig& model, const fp8::Recipe& recipe, std::int64_t layer) {
  if (model.recompute != deck::Recompute::full) return false;
  if (model.has_experts(layer)) return true;
  return recipe.two_copies(fp8::Role::weight) && recipe.site(layer, fp8::Linear::qkv).on();
}

Transformer::Transformer(const deck::ModelConfig& model, const fp8::Recipe& recipe, const Dims& dims, int tensor_rank,
                         Activations activations, int expert_rank)
    : model_(model),
      recipe_(recipe),
      dims_(dims),
      activations_(std::move(activations)),
      embedding_(dims, tensor_rank),
      layer_(dims, tensor_rank, expert_rank),
      head_(dims, tensor_rank),
      embedding_has_parameters_(has_embedding_unit(model)) {}

void Transformer::prepare(const tensor::Exec& exec) {
  if (!activations_.rope_table.empty())
    kernels::rope_table(exec, activations_.rope_table, static_cast<float>(model_.rope_theta));
}

namespace {

void add_forward(std::vector<fsdp::Visit>& order, const deck::ModelConfig& model) {
  const int root = root_unit(model.layers);
  if (model.tie_embeddings) order.push_back({root});
  if (has_embedding_unit(model)) order.push_back({embedding_unit()});
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    order.push_back({layer_unit(layer)});
    if (model.has_experts(layer)) order.push_back({experts_unit(model, layer)});
  }
  if (!model.tie_embeddings) order.push_back({root});
}

}  // namespace

std::vector<fsdp::Visit> forward_visits(const deck::ModelConfig& model, std::int64_t micro_batches) {
  std::vector<fsdp::Visit> order;
  for (std::int64_t m = 0; m < micro_batches; ++m) add_forward(order, model);
  return order;
}

std::vector<fsdp::Visit> visits(const deck::ModelConfig& model, const fp8::Recipe& recipe, std::int64_t micro_batches) {
  std::vector<fsdp::Visit> order;
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    add_forward(order, model);
    for (std::int64_t layer = model.layers; layer-- > 0;) {
      if (recomputes_in_a_visit(model, recipe, layer)) order.push_back({layer_unit(layer), Pass::forward});
      if (model.has_experts(layer)) order.push_back({experts_unit(model, layer), Pass::backward});
      order.push_back({layer_unit(layer), Pass::backward});
    }
  }
  return order;
}

std::vector<int> reductions(const deck::ModelConfig& model) {
  std::vector<int> order;
  const int root = root_unit(model.layers);
  if (!model.tie_embeddings) order.push_back(root);
  for (std::int64_t layer = model.layers; layer-- > 0;) {
    if (model.has_experts(layer)) order.push_back(experts_unit(model, layer));
    order.push_back(layer_unit(layer));
  }
  if (model.tie_embeddings) order.push_back(root);
  if (has_embedding_unit(model)) order.push_back(embedding_unit());
  return order;
}

void Transformer::forward_backward(const Context& context, fsdp::WeightStore& weights, fsdp::GradientStore& gradients,
                                   const MicroBatch& micro_batch) {
  HeldSum x = [&] {
    auto phase = context.timer().phase(Phase::forward);
    forward_embedding(context, weights);
    return forward_layers(context, weights, micro_batch, true);
  }();
  head(context, weights, gradients, micro_batch, std::move(x));
  auto phase = context.timer().phase(Phase::backward);
  std::optional<Gathering> begun = backward_layers(context, weights, gradients, micro_batch);
  backward_embedding(context, std::move(begun), gradients, micro_batch);
}

void Transformer::forward(const Context& context, fsdp::WeightStore& weights, const MicroBatch& micro_batch) {
  auto phase = context.timer().phase(Phase::forward);
  forward_embedding(context, weights);
  HeldSum x = forward_layers(context, weights, micro_batch, false);
  const int root = root_unit(model_.layers);
  const At at(context.executor, root);
  head_.forward(context, activations_.loss, std::move(x), {activations_.targets, activations_.token_weights},
                head_weights(weights), activations_.head_scratch);
  weights.release(root);
}

void Transformer::forward_embedding(const Context& context, fsdp::WeightStore& weights) {
  const At at(context.executor, table_unit());
  Embedding::Weights w;
  if (model_.tie_embeddings) {
    const ByParameter<Weight> root(root_parameters(dims_.arch),
                                   weights.acquire(root_unit(model_.layers), Pass::forward));
    w.table = root[Parameter::head].plain();
  }
  if (embedding_has_parameters_) {
    const ByParameter<Weight> unit(embedding_parameters(model_), weights.acquire(embedding_unit(), Pass::forward));
    if (!model_.tie_embeddings) w.table = unit[Parameter::table].plain();
    w.positions = unit[Parameter::positions].plain();
  }
  embedding_.forward(context, activations_.residual.front(), activations_.tokens, w, activations_.embedding_scratch);
  if (embedding_has_parameters_) weights.release(embedding_unit());
}

/// The result of the last layer, which may be partial sums. With Recompute::full the sum is written: its residual lies
/// in memory of the layers that the head uses, too.
HeldSum Transformer::forward_layers(const Context& context, fsdp::WeightStore& weights, const MicroBatch& micro_batch,
                                    bool counted) {
  HeldSum x = activations_.residual.front();
  for (std::int64_t l = 0; l < model_.layers; ++l) {
    const auto i = static_cast<std::size_t>(l);
    if (model_.has_experts(l)) {
      x = forward_layer_with_experts(context, weights, l, std::move(x), routed(l, micro_batch, counted));
      continue;
    }
    const At at(context.executor, layer_unit(l));
    const auto w = TransformerLayer::bind(model_, weights.acquire(layer_unit(l), Pass::forward));
    const auto issue = context.timer().issue(profile::Issue::layer_forward);
    x = layer_.forward(context, activations_.residual[i + 1], activations_.layers[i], std::move(x), w,
                       activations_.layer_scratch);
    weights.release(layer_unit(l));
  }
  if (model_.recompute != deck::Recompute::full || x.made()) return x;
  const Tensor& sum = x.sum.sum;
  context.issue(
      operation::Kernel{"make_sum", sum.rows(), sum.cols(), sum.dtype, sum.dtype}.reads(x.sum.partial_sums).writes(sum),
      [&](const tensor::Exec& exec) { kernels::make_sum(exec, x.sum); });
  return x.read();
}

MoeMlp::Routed Transformer::routed(std::int64_t layer, const MicroBatch& micro_batch, bool counted) const {
  MoeMlp::Routed routed{.token_weights = activations_.token_weights,
                        .step = micro_batch.step,
                        .layer = layer,
                        .first_sequence = micro_batch.first_sequence,
                        .sequence_stride = micro_batch.sequence_stride};
  if (!counted) return routed;
  const Tensor& sums = activations_.expert_rows;
  routed.counts = sums.slice(layer - model_.moe.dense_layers, 1).reshaped({sums.cols()});
  routed.balance = activations_.balance;
  return routed;
}

HeldSum Transformer::forward_layer_with_experts(const Context& context, fsdp::WeightStore& weights, std::int64_t layer,
                                                HeldSum x, const MoeMlp::Routed& routed) {
  const auto i = static_cast<std::size_t>(layer);
  {
    const At at(context.executor, layer_unit(layer));
    const auto w = TransformerLayer::bind(model_, weights.acquire(layer_unit(layer), Pass::forward), true);
    const auto issue = context.timer().issue(profile::Issue::layer_forward);
    layer_.route(context, activations_.layers[i], std::move(x), w, activations_.layer_scratch, routed);
    weights.release(layer_unit(layer));
  }
  const int unit = experts_unit(model_, layer);
  const At at(context.executor, unit);
  const auto w = TransformerLayer::bind_experts(weights.acquire(unit, Pass::forward));
  HeldSum y = layer_.forward_experts(context, activations_.residual[i + 1], activations_.layers[i], w,
                                     activations_.layer_scratch);
  weights.release(unit);
  return y;
}

/// A tied table is part of the root, which was acquired for the embedding and is still in use.
LossHead::Weights Transformer::head_weights(fsdp::WeightStore& weights) const {
  const int root = root_unit(model_.layers);
  const ByParameter<Weight> unit(root_parameters(dims_.arch),
                                 model_.tie_embeddings ? weights.in_use(root) : weights.acquire(root, Pass::forward));
  return {{unit[Parameter::norm_weight].plain(), unit[Parameter::norm_bias].plain()}, unit[Parameter::head].plain()};
}

void Transformer::head(const Context& context, fsdp::WeightStore& weights, fsdp::GradientStore& gradients,
                       const MicroBatch& micro_batch, HeldSum x) {
  const int root = root_unit(model_.layers);
  const At at(context.executor, root);
  const LossHead::Weights w = head_weights(weights);
  const auto sums = gradients.begin(root);
  const ByParameter<Tensor> sum(root_parameters(dims_.arch), sums.whole);
  const Affine dnorm{sum[Parameter::norm_weight], sum[Parameter::norm_bias]};
  head_.forward_backward(
      context, activations_.loss, activations_.dresidual, {dnorm, sum[Parameter::head], sums.accumulate}, std::move(x),
      {activations_.targets, activations_.token_weights}, w, activations_.head_scratch, micro_batch.scale);
  weights.release(root);
  if (!model_.tie_embeddings) gradients.reduce(root, micro_batch.last);
}

void Transformer::recompute_layer(const Context& context, fsdp::WeightStore& weights, std::int64_t layer) {
  const auto i = static_cast<std::size_t>(layer);
  const auto w = TransformerLayer::bind(model_, weights.acquire(layer_unit(layer), Pass::forward));
  layer_.recompute(context, activations_.layers[i], activations_.residual[i], w, activations_.layer_scratch);
  weights.release(layer_unit(layer));
}

/// The backward of a layer's experts, before that of the layer. A layer that is recomputed is recomputed here.
void Transformer::backward_experts(const Context& context, fsdp::WeightStore& weights, fsdp::GradientStore& gradients,
                                   const MicroBatch& micro_batch, std::int64_t layer) {
  const auto i = static_cast<std::size_t>(layer);
  const auto& saved = activations_.layers[i];
  const bool recomputes = model_.recompute == deck::Recompute::full;
  if (recomputes) {
    const auto w = TransformerLayer::bind(model_, weights.acquire(layer_unit(layer), Pass::forward), true);
    layer_.route(context, saved, activations_.residual[i], w, activations_.layer_scratch,
                 routed(layer, micro_batch, false), true);
    weights.release(layer_unit(layer));
  }
  const int unit = experts_unit(model_, layer);
  const At at(context.executor, unit);
  const auto w = TransformerLayer::bind_experts(weights.acquire(unit, Pass::backward));
  if (recomputes) layer_.recompute_experts(context, saved, w, activations_.layer_scratch);
  const auto sums = gradients.begin(unit);
  const auto dw = TransformerLayer::bind_expert_gradients(sums.whole, sums.accumulate);
  layer_.backward_experts(context, activations_.dresidual, dw, saved, w, activations_.layer_scratch);
  weights.release(unit);
  gradients.reduce(unit, micro_batch.last);
}

/// Returns the gather of dx that the embedding's backward reads, if it is already overlapped with the last wgrad of the
/// first layer; otherwise nothing, and the gather has not begun.
std::optional<Gathering> Transformer::backward_layers(const Context& context, fsdp::WeightStore& weights,
                                                      fsdp::GradientStore& gradients, const MicroBatch& micro_batch) {
  const bool early = dims_.overlap.fc2().gather.hidden();
  std::optional<RowBackward> begun;  // of this layer; if `early`, overlapped with the last wgrad of the layer above
  std::optional<Gathering> embedding;
  const Tensor& dx = activations_.dresidual;
  const auto begin_layer = [&](std::size_t i) {
    const At at(context.executor, layer_unit(static_cast<std::int64_t>(i)));
    begun = layer_.begin_backward(context, dx, activations_.layers[i], activations_.layer_scratch);
  };
  for (std::int64_t l = model_.layers; l-- > 0;) {
    const auto i = static_cast<std::size_t>(l);
    const int unit = layer_unit(l);
    const bool experts = model_.has_experts(l), in_a_visit = recomputes_in_a_visit(model_, recipe_, l);
    const At at(context.executor, unit);
    if (experts) backward_experts(context, weights, gradients, micro_batch, l);
    if (!experts && in_a_visit) recompute_layer(context, weights, l);
    const auto w = TransformerLayer::bind(model_, weights.acquire(unit, Pass::backward), experts);
    const Tensor& x = activations_.residual[i];
    const auto& saved = activations_.layers[i];
    if (model_.recompute == deck::Recompute::full && !in_a_visit)
      layer_.recompute(context, saved, x, w, activations_.layer_scratch);
    const auto sums = gradients.begin(unit);
    const auto issue = context.timer().issue(profile::Issue::layer_backward);
    const auto dw = TransformerLayer::bind_gradients(model_, sums.whole, sums.accumulate, experts);
    const auto next = [&] {
      if (early && i > 0 && !model_.has_experts(l - 1)) begin_layer(i - 1);
      if (!early || i > 0) return;
      const At at_embedding(context.executor, table_unit());
      embedding = embedding_.begin_backward(context, dx, activations_.embedding_scratch);
    };
    if (experts) {
      layer_.backward_routed(context, dx, dw, x, saved, w, activations_.layer_scratch, routed(l, micro_batch, false),
                             micro_batch.scale * static_cast<float>(dims_.seq), std::cref(next));
    } else {
      if (!begun) begin_layer(i);
      RowBackward fc2 = std::move(*begun);
      begun.reset();
      layer_.backward(context, std::move(fc2), dx, dw, x, saved, w, activations_.layer_scratch,
                      std::cref(next));  // by reference: a copy would take host memory
    }
    weights.release(unit);
    gradients.reduce(unit, micro_batch.last);
  }
  return embedding;
}

void Transformer::backward_embedding(const Context& context, std::optional<Gathering> begun,
                                     fsdp::GradientStore& gradients, const MicroBatch& micro_batch) {
  const int root = root_unit(model_.layers);
  const At at(context.executor, table_unit());
  Embedding::Weights dw;
  if (model_.tie_embeddings)
    dw.table = ByParameter<Tensor>(root_parameters(dims_.arch), gradients.begin(root).whole)[Parameter::head];
  if (embedding_has_parameters_) {
    const ByParameter<Tensor> unit(embedding_parameters(model_), gradients.begin(embedding_unit()).whole);
    if (!model_.tie_embeddings) dw.table = unit[Parameter::table];
    dw.positions = unit[Parameter::positions];
  }
  embedding_.backward(context, dw, activations_.dresidual, activations_.tokens, activations_.embedding_scratch,
                      std::move(begun));
  if (model_.tie_embeddings) gradients.reduce(root, micro_batch.last);
  if (embedding_has_parameters_) gradients.reduce(embedding_unit(), micro_batch.last);
}

}  // namespace shard8::model
