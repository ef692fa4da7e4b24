// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "deck/choices.hpp"
#include "deck/layout.hpp"
#include "deck/overlap.hpp"
#include "tensor/runtime.hpp"
#include "tests/random/random_deck.hpp"

// A generator for each key of the deck. Sizes are small, so that a deck takes about a second. Wherever the checks allow
// it, they do not divide by the number of ranks.

namespace shard8::test {
namespace {

using deck::Config;
using deck::FloatType;
using deck::Fp8Weights;
using deck::Gather;
using deck::Recipe;
using profile::Exchange;
using profile::ExchangeMethod;

bool is_llama(const Config& c) { return c.model.arch == deck::Arch::llama; }

/// Draws the number of tensor ranks. It is smaller for recipes with large multiples, which would make models large.
void draw_tensor(RandomDeck& d, Draw& draw) {
  switch (d.config.fp8.recipe) {
    case Recipe::none:
      d.config.mesh.tensor = draw.one_of({1, 1, 1, 1, 2, 2, 3, 4, 5, 7, 9});
      break;
    case Recipe::block:
      d.config.mesh.tensor = draw.one_of({1, 1, 2});
      break;
    default:
      d.config.mesh.tensor = draw.one_of({1, 1, 2, 3, 4});
  }
  if (d.config.mesh.tensor > d.most_ranks) d.config.mesh.tensor = draw.between(1, d.most_ranks);
}

/// Draws the number of shards such that all meshes of at most most_ranks ranks with this number of tensor ranks are
/// equally likely.
void draw_shard(RandomDeck& d, Draw& draw) {
  const std::int64_t most = d.most_ranks / d.config.mesh.tensor;
  std::vector<std::int64_t> shards;
  for (std::int64_t shard = 1; shard <= most; ++shard)
    for (std::int64_t replicate = 1; replicate * shard <= most; ++replicate) shards.push_back(shard);
  d.config.mesh.shard = draw.one_of(std::span<const std::int64_t>(shards));
}

void draw_replicate(RandomDeck& d, Draw& draw) {
  d.config.mesh.replicate = draw.between(1, d.most_ranks / (d.config.mesh.tensor * d.config.mesh.shard));
}

void draw_heads(RandomDeck& d, Draw& draw) {
  const std::int64_t local = d.config.fp8.recipe == Recipe::block ? draw.one_of({1, 2, 4}) : draw.between(1, 4);
  d.config.model.heads = local * d.config.mesh.tensor;
}

void draw_kv_heads(RandomDeck& d, Draw& draw) {
  const std::int64_t tensor = d.config.mesh.tensor, local = d.config.model.heads / tensor;
  std::vector<std::int64_t> divisors;
  for (std::int64_t i = 1; i <= local; ++i)
    if (local % i == 0) divisors.push_back(i * tensor);
  const bool grouped = is_llama(d.config) && (d.config.fp8.recipe != Recipe::block || local == 2);
  d.config.model.kv_heads = grouped ? draw.one_of(std::span<const std::int64_t>(divisors)) : d.config.model.heads;
}

/// Draws the width of a head such that the widths of all heads of a tensor rank are the multiples that the recipe
/// needs.
std::int64_t draw_width(const Config& c, Draw& draw) {
  const deck::ModelConfig& m = c.model;
  const std::int64_t tensor = c.mesh.tensor, g = multiple(c);
  const std::int64_t heads = m.heads / tensor, kv_heads = m.kv_heads / tensor;
  const auto fits = [&](std::int64_t width) {
    if (is_llama(c) && width % 2 != 0) return false;
    if (heads * width % g != 0) return false;
    return g > 16 ? kv_heads * width % g == 0 : 2 * kv_heads * width % g == 0;
  };
  std::int64_t least = 1;
  while (!fits(least)) ++least;
  const std::int64_t most = std::max<std::int64_t>(1, 72 / (least * m.heads));
  return least * draw.between(1, std::min<std::int64_t>(most, 8));
}

void draw_hidden(RandomDeck& d, Draw& draw) {
  deck::ModelConfig& m = d.config.model;
  m.hidden = m.heads * draw_width(d.config, draw);
  while (m.hidden < kLeastNormed) m.hidden *= 2;
}

/// Draws a width of heads at times, and then at times another model.hidden, which need not be a multiple of heads.
void draw_head_dim(RandomDeck& d, Draw& draw) {
  if (!is_llama(d.config) || draw.chance(0.6)) return;
  d.config.model.head_dim = draw_width(d.config, draw);
  const std::int64_t g = multiple(d.config);
  if (draw.chance(0.5))
    d.config.model.hidden = g * draw.between((kLeastNormed + g - 1) / g, std::max<std::int64_t>(1, 72 / g));
}

void draw_qk_norm(RandomDeck& d, Draw& draw) {
  d.config.model.qk_norm = is_llama(d.config) && d.config.model.head_width() >= kLeastNormed && draw.chance(0.5);
}

void draw_ffn(RandomDeck& d, Draw& draw) {
  const std::int64_t unit = d.config.mesh.tensor * multiple(d.config);
  d.config.model.ffn = unit * draw.between(1, std::max<std::int64_t>(1, 96 / unit));
}

void draw_vocab(RandomDeck& d, Draw& draw) {
  if (d.config.data.kind == deck::DataKind::bytes) {
    d.config.model.vocab = 256 + draw.between(0, 40);
  } else {  // at times fewer entries than tensor ranks
    d.config.model.vocab = draw.chance(0.2) ? draw.between(2, 9) : draw.between(10, 150);
  }
}

/// Draws seq such that the tokens of a micro-batch on a tensor rank are the multiple that the recipe needs.
void draw_seq(RandomDeck& d, Draw& draw) {
  const std::int64_t unit = d.config.mesh.tensor * multiple(d.config);
  const std::int64_t step = unit / std::gcd(unit, deck::lay_out(d.config).micro_batch);
  d.config.model.seq = step * draw.between(1, std::max<std::int64_t>(1, 20 / step));
}

std::vector<Gather> allowed_gathers(const Config& c, Fp8Weights weights) {
  const bool bf16 = c.precision.compute == FloatType::bf16;
  const Gather compute = bf16 ? Gather::bf16 : Gather::fp32;
  if (c.fp8.on() && weights == Fp8Weights::fp8) return {Gather::automatic, Gather::fp8};
  if (c.fp8.on()) return {Gather::automatic, Gather::fp8, compute};
  if (bf16 && c.optimizer.master == deck::Master::fp32) return {Gather::automatic, Gather::bf16, Gather::fp32};
  return {Gather::automatic, compute};
}

Gather draw_gather(const Config& c, Fp8Weights weights, Draw& draw) {
  const std::vector<Gather> allowed = allowed_gathers(c, weights);
  return draw.one_of(std::span<const Gather>(allowed));
}

deck::Recompute draw_recompute(Draw& draw) {
  return draw.one_of({deck::Recompute::none, deck::Recompute::selective, deck::Recompute::full});
}

/// A method of an exchange: auto, off or one that its key has. Devices have no ring, which is the last one.
ExchangeMethod draw_method(Exchange exchange, Draw& draw) {
  const auto methods = deck::methods_of(exchange);
  const bool no_ring = tensor::kDevice && methods.back() == ExchangeMethod::ring;
  return methods[static_cast<std::size_t>(draw.between(0, std::ssize(methods) - (no_ring ? 2 : 1)))];
}
template <Exchange exchange>
void draw_key(RandomDeck& d, Draw& draw) {
  d.config.overlap.methods[exchange] = draw_method(exchange, draw);
}

std::int64_t draw_splits(const Config& c, Draw& draw) { return draw.between(0, c.mesh.tensor - 1); }
std::int64_t draw_chunks(Draw& draw) { return draw.between(0, 3); }

/// Often 0, else between most and least of what the products of such small models have.
double draw_min_gflop(Draw& draw) {
  return draw.chance(0.6) ? 0.0 : std::pow(10.0, static_cast<double>(draw.between(-6, -2)));
}

Fp8Weights draw_weights(Draw& draw) { return draw.one_of({Fp8Weights::fp8, Fp8Weights::fp8, Fp8Weights::bf16}); }

/// The prefetch. It is often all layers, so that all units are gathered at the beginning of a step.
std::int64_t draw_prefetch(const Config& c, Draw& draw) {
  return draw.chance(0.35) ? c.model.layers : draw.between(0, c.model.layers);
}

std::uint64_t draw_seed(Draw& draw) {
  if (draw.chance(0.1)) return draw.chance(0.5) ? 0 : std::numeric_limits<std::uint64_t>::max();
  return draw.bits();
}

FloatType draw_type(Draw& draw) { return draw.one_of({FloatType::fp32, FloatType::bf16}); }

constexpr Generator kGenerators[] = {
    {"fp8.recipe",
     [](RandomDeck& d, Draw& draw) {
       constexpr Recipe kRecipes[] = {Recipe::none,    Recipe::none,    Recipe::none,  Recipe::none, Recipe::none,
                                      Recipe::delayed, Recipe::current, Recipe::block, Recipe::mxfp8};
       d.config.fp8.recipe = draw.one_of(kRecipes);
     }},
    {"mesh.tensor", draw_tensor},
    {"mesh.shard", draw_shard},
    {"mesh.replicate", draw_replicate},
    {"mesh.backend",
     [](RandomDeck& d, Draw& draw) {
       d.config.mesh.backend = draw.one_of({deck::Backend::automatic, deck::Backend::mpi});
     }},
    {"mesh.device",
     [](RandomDeck& d, Draw& draw) {
       d.config.mesh.device = draw.one_of({deck::Device::automatic, deck::Device::host});
     }},
    {"precision.compute", [](RandomDeck& d, Draw& draw) { d.config.precision.compute = draw_type(draw); }},
    {"precision.peak_tflops",
     [](RandomDeck& d, Draw& draw) { d.config.precision.peak_tflops = draw.chance(0.8) ? 0 : draw.real(1, 2000); }},
    {"precision.reduce",
     [](RandomDeck& d, Draw& draw) {
       d.config.precision.reduce = draw.chance(0.7) ? FloatType::fp32 : FloatType::bf16;
     }},
    {"precision.deterministic", [](RandomDeck& d, Draw& draw) { d.config.precision.deterministic = draw.chance(0.8); }},
    {"model.arch",
     [](RandomDeck& d, Draw& draw) {
       d.config.model.arch = draw.one_of({deck::Arch::llama, deck::Arch::gpt2});
     }},
    {"model.heads", draw_heads},
    {"model.kv_heads", draw_kv_heads},
    {"model.hidden", draw_hidden},
    {"model.head_dim", draw_head_dim},
    {"model.qk_norm", draw_qk_norm},
    {"model.ffn", draw_ffn},
    {"model.layers",
     [](RandomDeck& d, Draw& draw) {
       d.config.model.layers = draw.between(1, d.config.fp8.recipe == Recipe::block ? 2 : 4);
     }},
    {"moe.experts", draw_experts},
    {"mesh.expert", draw_expert},
    {"moe.experts_per_token", draw_experts_per_token},
    {"moe.ffn", draw_experts_ffn},
    {"moe.balance", draw_balance},
    {"moe.routing", draw_routing},
    {"moe.skew", draw_skew},
    {"moe.capacity", draw_capacity},
    {"moe.dispatch", draw_dispatch},
    {"moe.dense_layers", draw_dense_layers},
    {"data.kind",
     [](RandomDeck& d, Draw& draw) {
       d.config.data.kind = draw.one_of({deck::DataKind::synthetic, deck::DataKind::bytes, deck::DataKind::tokens});
     }},
    {"data.path",  // set later, when all sizes are known and the file is written
     [](RandomDeck& d, Draw& draw) {
       using Form = DataSource::Form;
       if (d.config.data.kind == deck::DataKind::bytes)
         d.source.form = draw.one_of({Form::text_file, Form::text_folder});
       if (d.config.data.kind == deck::DataKind::tokens)
         d.source.form = draw.one_of({Form::token_stream, Form::token_slabs});
       d.source.samples = draw.chance(0.3) ? draw.between(1, 5) : draw.between(6, 60);
     }},
    {"data.batch",
     [](RandomDeck& d, Draw& draw) {  // at times fewer sequences than data ranks
       d.config.data.batch = draw.between(1, d.config.fp8.recipe == Recipe::block ? 4 : 11);
     }},
    {"data.batch_per_rank",
     [](RandomDeck& d, Draw& draw) {  // at times in place of data.batch, and not so large that the model would be
       const std::int64_t data_ranks = d.config.mesh.data_ranks();
       const std::int64_t most = (d.config.fp8.recipe == Recipe::block ? 4 : 11) / data_ranks;
       if (most == 0 || draw.chance(0.7)) return;
       d.config.data.batch_per_rank = draw.between(1, most);
       d.config.data.batch = d.config.data.batch_per_rank * data_ranks;
     }},
    {"data.micro_batch",
     [](RandomDeck& d, Draw& draw) {  // at times more than a rank has
       const std::int64_t most = deck::lay_out(d.config).rank_batch;
       d.config.data.micro_batch = draw.chance(0.3) ? 0 : draw.between(1, most + 1);
     }},
    {"data.seed", [](RandomDeck& d, Draw& draw) { d.config.data.seed = draw_seed(draw); }},
    {"data.validation",
     [](RandomDeck& d, Draw& draw) {  // at times so much that one sample is left for training
       const bool stream = d.source.form != DataSource::Form::none && d.source.form != DataSource::Form::token_slabs;
       if (draw.chance(0.6) || (stream && d.source.samples < 2)) return;
       d.config.data.validation =
           stream ? draw.real(0.01, 1 - 1.5 / static_cast<double>(d.source.samples)) : draw.real(0.01, 0.6);
     }},
    {"model.seq", draw_seq},
    {"model.vocab", draw_vocab},
    {"model.norm_eps", [](RandomDeck& d, Draw& draw) { d.config.model.norm_eps = draw.log_real(1e-7, 1e-3); }},
    {"model.rope_theta", [](RandomDeck& d, Draw& draw) { d.config.model.rope_theta = draw.log_real(10, 1e6); }},
    {"model.tie_embeddings", [](RandomDeck& d, Draw& draw) { d.config.model.tie_embeddings = draw.chance(0.6); }},
    {"model.init_seed", [](RandomDeck& d, Draw& draw) { d.config.model.init_seed = draw_seed(draw); }},
    {"model.init_std",
     [](RandomDeck& d, Draw& draw) { d.config.model.init_std = draw.chance(0.03) ? 0 : draw.log_real(0.01, 0.1); }},
    {"model.recompute", [](RandomDeck& d, Draw& draw) { d.config.model.recompute = draw_recompute(draw); }},
    {"run.steps",
     [](RandomDeck& d, Draw& draw) {
       // With delayed scaling so many that the short histories are full, and their entries overwritten.
       const bool delayed = d.config.fp8.recipe == Recipe::delayed;
       d.config.run.steps = d.config.fp8.recipe == Recipe::block ? 3 : draw.between(3, delayed ? 9 : 5);
     }},
    {"run.validate_every",
     [](RandomDeck& d, Draw& draw) {
       d.config.run.validate_every = d.config.data.validation > 0 ? draw.between(0, d.config.run.steps + 1) : 0;
     }},
    {"run.validate_batches",
     [](RandomDeck& d, Draw& draw) {
       if (d.config.run.validate_every == 0) return;
       d.config.run.validate_batches =
           d.source.form == DataSource::Form::none ? draw.between(1, 3) : draw.between(0, 1);
     }},
    {"run.stop_after",
     [](RandomDeck& d, Draw& draw) {
       d.config.run.stop_after = draw.chance(1.0 / 3) ? draw.between(1, d.config.run.steps - 1) : 0;
     }},
    {"checkpoint.every",  // at times never, or only after the last step
     [](RandomDeck& d, Draw& draw) {
       d.config.checkpoint.every = draw.chance(0.3) ? 0 : draw.between(1, d.config.run.steps + 1);
     }},
    {"checkpoint.keep", [](RandomDeck& d, Draw& draw) { d.config.checkpoint.keep = draw.between(1, 3); }},
    {"checkpoint.async", [](RandomDeck& d, Draw& draw) { d.config.checkpoint.async = draw.chance(0.6); }},
    {"checkpoint.files",
     [](RandomDeck& d, Draw& draw) {
       d.config.checkpoint.files = draw.one_of({deck::CheckpointFiles::rank, deck::CheckpointFiles::node});
     }},
    {"optimizer.lr", [](RandomDeck& d, Draw& draw) { d.config.optimizer.lr = draw.log_real(1e-4, 3e-3); }},
    {"optimizer.min_lr",
     [](RandomDeck& d, Draw& draw) {
       d.config.optimizer.min_lr = draw.chance(0.4) ? 0 : draw.real(0, d.config.optimizer.lr);
     }},
    {"optimizer.warmup", [](RandomDeck& d, Draw& draw) { d.config.optimizer.warmup = draw.between(0, 3); }},
    {"optimizer.decay_steps",
     [](RandomDeck& d, Draw& draw) {
       d.config.optimizer.decay_steps = d.config.optimizer.warmup + draw.between(1, 10);
     }},
    {"optimizer.beta1",
     [](RandomDeck& d, Draw& draw) { d.config.optimizer.beta1 = draw.chance(0.15) ? 0 : draw.real(0.5, 0.94); }},
    {"optimizer.beta2",  // with beta2 = 0 an update is bounded only if beta1 is 0, too
     [](RandomDeck& d, Draw& draw) {
       const bool zero = d.config.optimizer.beta1 == 0 && draw.chance(0.5);
       d.config.optimizer.beta2 = zero ? 0 : draw.real(0.9, 0.999);
     }},
    {"optimizer.eps", [](RandomDeck& d, Draw& draw) { d.config.optimizer.eps = draw.log_real(1e-9, 1e-4); }},
    {"optimizer.weight_decay",
     [](RandomDeck& d, Draw& draw) { d.config.optimizer.weight_decay = draw.chance(0.2) ? 0 : draw.real(0, 0.5); }},
    {"optimizer.clip",
     [](RandomDeck& d, Draw& draw) {
       d.config.optimizer.clip = draw.chance(0.45)  ? 0
                                 : draw.chance(0.5) ? draw.log_real(0.01, 1)
                                                    : draw.log_real(1, 1e3);
     }},
    {"optimizer.moments",
     [](RandomDeck& d, Draw& draw) {
       d.config.optimizer.moments = draw.chance(0.7) ? FloatType::fp32 : FloatType::bf16;
     }},
    {"optimizer.master",
     [](RandomDeck& d, Draw& draw) {
       const bool bf16 = d.config.precision.compute == FloatType::bf16;
       d.config.optimizer.master = bf16 && draw.chance(0.4) ? deck::Master::bf16_remainder : deck::Master::fp32;
     }},
    {"fp8.format",
     [](RandomDeck& d, Draw& draw) {
       const Recipe recipe = d.config.fp8.recipe;
       const bool hybrid =
           recipe == Recipe::delayed || recipe == Recipe::current || (recipe == Recipe::block && draw.chance(0.5));
       const deck::Fp8Format own = hybrid ? deck::Fp8Format::hybrid : deck::Fp8Format::e4m3;
       d.config.fp8.format = d.config.fp8.on() && draw.chance(0.5) ? own : deck::Fp8Format::automatic;
     }},
    {"fp8.amax_history",
     [](RandomDeck& d, Draw& draw) { d.config.fp8.amax_history = draw.chance(0.3) ? 1024 : draw.between(1, 4); }},
    {"fp8.amax_algo",
     [](RandomDeck& d, Draw& draw) {
       d.config.fp8.amax_algo = draw.one_of({deck::AmaxAlgo::max, deck::AmaxAlgo::most_recent});
     }},
    {"fp8.margin", [](RandomDeck& d, Draw& draw) { d.config.fp8.margin = draw.chance(0.5) ? 0 : draw.between(-1, 4); }},
    {"fp8.power_of_2_scales",
     [](RandomDeck& d, Draw& draw) {
       const Recipe recipe = d.config.fp8.recipe;
       const bool free = recipe == Recipe::current || recipe == Recipe::block;
       d.config.fp8.power_of_2_scales = free ? draw.chance(0.5) : recipe == Recipe::mxfp8;
     }},
    {"fp8.weights", [](RandomDeck& d, Draw& draw) { d.config.fp8.weights = draw_weights(draw); }},
    {"fp8.first_layers_bf16",
     [](RandomDeck& d, Draw& draw) {
       const std::int64_t most = d.config.fp8.on() ? d.config.model.layers - 1 : 3;
       d.config.fp8.first_layers_bf16 = draw.chance(0.6) ? 0 : draw.between(0, most);
     }},
    {"fp8.last_layers_bf16",
     [](RandomDeck& d, Draw& draw) {
       const std::int64_t most = d.config.fp8.on() ? d.config.model.layers - 1 - d.config.fp8.first_layers_bf16 : 3;
       d.config.fp8.last_layers_bf16 = draw.chance(0.6) ? 0 : draw.between(0, most);
     }},
    {"fsdp.reshard_after_forward",
     [](RandomDeck& d, Draw& draw) { d.config.fsdp.reshard_after_forward = draw.chance(0.6); }},
    {"fsdp.prefetch", [](RandomDeck& d, Draw& draw) { d.config.fsdp.prefetch = draw_prefetch(d.config, draw); }},
    {"fsdp.accumulate",
     [](RandomDeck& d, Draw& draw) {
       d.config.fsdp.accumulate = draw.one_of({deck::Accumulate::full, deck::Accumulate::sharded});
     }},
    {"fsdp.gather",
     [](RandomDeck& d, Draw& draw) { d.config.fsdp.gather = draw_gather(d.config, d.config.fp8.weights, draw); }},
    {"output.trace", [](RandomDeck& d, Draw& draw) { d.config.output.trace = draw.chance(0.3) ? "trace.json" : ""; }},
    {"output.trace_steps",  // of any step, also of those that a stopped training does not reach
     [](RandomDeck& d, Draw& draw) {
       if (d.config.output.trace.empty()) return;
       const std::int64_t first = draw.between(0, d.config.run.steps - 1);
       d.config.output.trace_steps = fmt::format("{}:{}", first, draw.between(first, d.config.run.steps - 1));
     }},
    {"overlap.enable", [](RandomDeck& d, Draw& draw) { d.config.overlap.enable = draw.chance(0.7); }},
    {"overlap.qkv_fprop", draw_key<Exchange::qkv_fprop>},
    {"overlap.proj_fprop", draw_key<Exchange::proj_fprop>},
    {"overlap.fc1_fprop", draw_key<Exchange::fc1_fprop>},
    {"overlap.fc2_fprop", draw_key<Exchange::fc2_fprop>},
    {"overlap.qkv_dgrad", draw_key<Exchange::qkv_dgrad>},
    {"overlap.proj_dgrad", draw_key<Exchange::proj_dgrad>},
    {"overlap.fc1_dgrad", draw_key<Exchange::fc1_dgrad>},
    {"overlap.fc2_dgrad", draw_key<Exchange::fc2_dgrad>},
    {"overlap.qkv_wgrad", draw_key<Exchange::qkv_wgrad>},
    {"overlap.fc1_wgrad", draw_key<Exchange::fc1_wgrad>},
    {"overlap.head_fprop", draw_key<Exchange::head_fprop>},
    {"overlap.head_dgrad", draw_key<Exchange::head_dgrad>},
    {"overlap.dispatch", draw_key<Exchange::dispatch>},
    {"overlap.combine", draw_key<Exchange::combine>},
    {"overlap.splits", [](RandomDeck& d, Draw& draw) { d.config.overlap.splits = draw_splits(d.config, draw); }},
    {"overlap.chunks", [](RandomDeck& d, Draw& draw) { d.config.overlap.chunks = draw_chunks(draw); }},
    {"overlap.min_gflop", [](RandomDeck& d, Draw& draw) { d.config.overlap.min_gflop = draw_min_gflop(draw); }},
};

}  // namespace

Schedule draw_second(const Config& c, Draw& draw) {
  Schedule s;
  s.recompute = draw_recompute(draw);
  s.validate_every = draw.chance(0.5) ? c.run.validate_every : 0;
  s.reshard_after_forward = draw.chance(0.6);
  s.prefetch = draw_prefetch(c, draw);
  s.weights = c.fp8.recipe == Recipe::delayed || !c.fp8.on() ? c.fp8.weights : draw_weights(draw);
  s.gather = draw_gather(c, s.weights, draw);
  s.deterministic = draw.chance(0.8);
  s.overlap.enable = draw.chance(0.5);
  for (const Exchange exchange : profile::kOverlapKeys) s.overlap.methods[exchange] = draw_method(exchange, draw);
  s.overlap.splits = draw_splits(c, draw);
  s.overlap.chunks = draw_chunks(draw);
  s.overlap.min_gflop = draw_min_gflop(draw);
  return s;
}

Restart draw_restart(const Config& c, std::int64_t most_ranks, Draw& draw) {
  constexpr int kMostMeshes = 20;  // that are tried: few meshes fit the sizes of an FP8 deck
  Restart restart;
  restart.schedule = draw_second(c, draw);
  restart.schedule.weights = c.fp8.weights;
  restart.async = draw.chance(0.6);
  restart.files = draw.one_of({deck::CheckpointFiles::rank, deck::CheckpointFiles::node});
  restart.same_mesh = draw.chance(0.35);
  const auto fits = [&] {
    restart.schedule.gather = draw_gather(c, c.fp8.weights, draw);
    try {
      loaded(restarted({.config = c, .source = {}, .second = {}, .restarts = {restart}}, 0));
      return true;
    } catch (const base::Error&) {
      return false;
    }
  };
  for (int i = 0; i < kMostMeshes && !restart.same_mesh; ++i) {
    RandomDeck d{.config = c, .source = {}, .second = {}};
    d.most_ranks = most_ranks;
    draw_tensor(d, draw);
    draw_shard(d, draw);
    draw_replicate(d, draw);
    draw_expert(d, draw);
    restart.mesh = d.config.mesh;
    restart.micro_batch = draw.chance(0.5) ? c.data.micro_batch : draw.between(0, deck::lay_out(d.config).rank_batch);
    if (fits()) return restart;
  }
  restart.same_mesh = true;
  SHARD8_REQUIRE(fits(), "a deck that the checks accept is rejected with another schedule");
  return restart;
}

std::span<const Generator> generators() { return kGenerators; }

}  // namespace shard8::test
