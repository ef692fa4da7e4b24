// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/fields.hpp"

namespace shard8::deck {
namespace {

constexpr double kMostRanks = 1048576;  // of one dimension of the mesh; chosen: the product of three fits 64 bits

constexpr double kMostLayers = 100000;  // chosen: each layer has lists of its own

constexpr double kMostExperts = 65536;  // of a layer; chosen: each expert has counts of its own on every rank

constexpr double kMostPerToken = 64;  // kernels::kMostExpertsPerToken

constexpr double kMostCapacity = 1024;  // chosen: on so many expert ranks a single round holds any routing

constexpr double kMostSkew = 60;  // chosen: kMostExperts to this power fits FP64

constexpr double kWidestHead = 65536;  // chosen: widths of all heads, and their sums, fit 64 bits

template <auto member>
constexpr FieldAccess model() {
  return access<&Config::model, member>();
}
template <auto member>
constexpr FieldAccess moe() {
  return access<&Config::model, &ModelConfig::moe, member>();
}
template <auto member>
constexpr FieldAccess mesh() {
  return access<&Config::mesh, member>();
}

constexpr Field kModel[] = {
    {.key = "arch",
     .access = model<&ModelConfig::arch>(),
     .help = "llama: RMSNorm, rotary positions, grouped queries, SwiGLU, no biases; gpt2: LayerNorm, learned "
             "positions, biases, GELU"},
    {.key = "hidden",
     .access = model<&ModelConfig::hidden>(),
     .bounds = at_least(1),
     .required = true,
     .unit = "channels",
     .help = "width of the residual stream; a multiple of heads unless head_dim is given"},
    {.key = "ffn",
     .access = model<&ModelConfig::ffn>(),
     .bounds = at_least(1),
     .required = true,
     .unit = "channels",
     .help = "width inside the feed-forward block, a multiple of mesh.tensor"},
    {.key = "layers",
     .access = model<&ModelConfig::layers>(),
     .bounds = from_to(1, kMostLayers),
     .required = true,
     .unit = "layers",
     .help = "transformer layers"},
    {.key = "heads",
     .access = model<&ModelConfig::heads>(),
     .bounds = at_least(1),
     .required = true,
     .unit = "heads",
     .help = "query heads, a multiple of kv_heads and mesh.tensor"},
    {.key = "kv_heads",
     .access = model<&ModelConfig::kv_heads>(),
     .bounds = at_least(1),
     .default_note = "model.heads",
     .unit = "heads",
     .help = "key and value heads, a multiple of mesh.tensor; gpt2: equal to heads"},
    {.key = "head_dim",
     .access = model<&ModelConfig::head_dim>(),
     .bounds = from_to(0, kWidestHead),
     .default_note = "model.hidden / model.heads",
     .unit = "channels",
     .help = "width of a head, even for llama; 0: hidden / heads, which gpt2 always has"},
    {.key = "qk_norm",
     .access = model<&ModelConfig::qk_norm>(),
     .help = "RMSNorm of each head's queries and keys before the rotary embedding, as in Qwen3; llama only"},
    {.key = "vocab",
     .access = model<&ModelConfig::vocab>(),
     .bounds = at_least(2),
     .required = true,
     .unit = "tokens",
     .help = "vocabulary size; mesh.tensor need not divide it"},
    {.key = "seq",
     .access = model<&ModelConfig::seq>(),
     .bounds = at_least(1),
     .required = true,
     .unit = "tokens",
     .help = "sequence length; gpt2: also the number of learned positions"},
    {.key = "norm_eps",
     .access = model<&ModelConfig::norm_eps>(),
     .bounds = positive_float(),
     .help = "added to the variance in norms"},
    {.key = "rope_theta",
     .access = model<&ModelConfig::rope_theta>(),
     .bounds = positive_float(),
     .help = "base of the rotary frequencies, llama only"},
    {.key = "tie_embeddings",
     .access = model<&ModelConfig::tie_embeddings>(),
     .default_note = "false for llama, true for gpt2",
     .help = "the head is the embedding table"},
    {.key = "init_seed", .access = model<&ModelConfig::init_seed>(), .help = "seed of random initial weights"},
    {.key = "init_std",
     .access = model<&ModelConfig::init_std>(),
     .bounds = float_from(0),
     .help = "standard deviation of random initial weights"},
    {.key = "init_file",
     .access = model<&ModelConfig::init_file>(),
     .help = "initial weights: 'file.h5:/group', safetensors file, index or folder, or checkpoints; empty: random"},
    {.key = "recompute",
     .access = model<&ModelConfig::recompute>(),
     .help = "recomputed in backward; selective: norms, activations, softmax; full: all but each layer's input"},
};

constexpr Field kMoe[] = {
    {.key = "experts",
     .access = moe<&MoeConfig::experts>(),
     .bounds = from_to(0, kMostExperts),
     .unit = "experts",
     .help = "experts of a layer, a multiple of mesh.expert, llama only; 0: no layer has any"},
    {.key = "experts_per_token",
     .access = moe<&MoeConfig::experts_per_token>(),
     .bounds = from_to(1, kMostPerToken),
     .unit = "experts",
     .help = "experts of a token: those of the largest router probabilities"},
    {.key = "ffn",
     .access = moe<&MoeConfig::ffn>(),
     .bounds = at_least(0),
     .default_note = "model.ffn",
     .unit = "channels",
     .help = "width inside an expert; 0: model.ffn"},
    {.key = "balance",
     .access = moe<&MoeConfig::balance>(),
     .bounds = float_from(0),
     .help = "coefficient of the balance loss"},
    {.key = "routing",
     .access = moe<&MoeConfig::routing>(),
     .help = "learned: the router chooses; balanced, zipf: experts are drawn, evenly or with skew"},
    {.key = "skew",
     .access = moe<&MoeConfig::skew>(),
     .bounds = from_to(0, kMostSkew),
     .help = "with zipf the i-th expert of a layer, in an order of its own, is drawn in proportion to 1 / i^skew; at "
             "most 60"},
    {.key = "capacity",
     .access = moe<&MoeConfig::capacity>(),
     .bounds = from_to(1, kMostCapacity),
     .help = "rows of a round of dispatch / mean rows of a rank"},
    {.key = "dispatch",
     .access = moe<&MoeConfig::dispatch>(),
     .help = "rows are sent to experts in the compute dtype (bf16), or cast before (fp8: needs recipe delayed or "
             "current); auto: fp8 with these recipes"},
    {.key = "dense_layers",
     .access = moe<&MoeConfig::dense_layers>(),
     .bounds = from_to(0, kMostLayers),
     .unit = "layers",
     .help = "first layers without experts"},
};

constexpr Field kMesh[] = {
    {.key = "replicate",
     .access = mesh<&MeshConfig::replicate>(),
     .bounds = from_to(1, kMostRanks),
     .unit = "ranks",
     .help = "replicas of the sharded weights; slowest over ranks"},
    {.key = "shard",
     .access = mesh<&MeshConfig::shard>(),
     .bounds = from_to(1, kMostRanks),
     .automatic = true,
     .unit = "ranks",
     .help = "ranks that share the weights (FSDP); auto: started ranks / (replicate * tensor)"},
    {.key = "tensor",
     .access = mesh<&MeshConfig::tensor>(),
     .bounds = from_to(1, kMostRanks),
     .unit = "ranks",
     .help = "ranks that share each product and its tokens; fastest over ranks"},
    {.key = "expert",
     .access = mesh<&MeshConfig::expert>(),
     .bounds = from_to(1, kMostRanks),
     .unit = "ranks",
     .help = "ranks that share a layer's experts; a divisor of shard * tensor"},
    {.key = "backend",
     .access = mesh<&MeshConfig::backend>(),
     .help = "communication library: MPI for host memory, NCCL for devices"},
    {.key = "device", .access = mesh<&MeshConfig::device>(), .help = "where kernels run; auto: what the build is for"},
    {.key = "share_devices",
     .access = mesh<&MeshConfig::share_devices>(),
     .help = "allow more ranks than devices on a node, to try meshes, not to measure"},
};

constexpr Field kPrecision[] = {
    {.key = "compute",
     .access = access<&Config::precision, &PrecisionConfig::compute>(),
     .help = "activations, residual stream, products; softmax, norms' statistics, logits and loss are always FP32"},
    {.key = "reduce",
     .access = access<&Config::precision, &PrecisionConfig::reduce>(),
     .help = "communication dtype of gradients"},
    {.key = "deterministic",
     .access = access<&Config::precision, &PrecisionConfig::deterministic>(),
     .help = "equal bits from run to run (same mesh, libraries, threads, ranks a host)"},
    {.key = "peak_tflops",
     .access = access<&Config::precision, &PrecisionConfig::peak_tflops>(),
     .bounds = at_least(0),
     .unit = "TFLOP/s",
     .help = "peak of a rank in its products' format, for MFU; 0: the device's, if known"},
};

template <auto member>
constexpr FieldAccess fp8() {
  return access<&Config::fp8, member>();
}

constexpr double kMostMargin = 16;  // E4M3 spans 18 powers of two: with a larger margin hardly any value would be left

constexpr Field kFp8[] = {
    {.key = "recipe",
     .access = fp8<&Fp8Config::recipe>(),
     .help = "scaling: delayed: a matrix, from earlier steps; current: a matrix, from its values; block: 1x128 and "
             "128x128; mxfp8: 1x32, E8M0 scales; none: no FP8"},
    {.key = "format",
     .access = fp8<&Fp8Config::format>(),
     .default_note = "auto: hybrid for delayed and current, e4m3 for block and mxfp8",
     .help = "hybrid: E4M3, gradients E5M2; e4m3: all E4M3; block takes both, other recipes their default"},
    {.key = "amax_history",
     .access = fp8<&Fp8Config::amax_history>(),
     .bounds = at_least(1),
     .unit = "steps",
     .help = "steps of amaxes kept, delayed only"},
    {.key = "amax_algo", .access = fp8<&Fp8Config::amax_algo>(), .help = "amax that makes the scale, delayed only"},
    {.key = "margin",
     .access = fp8<&Fp8Config::margin>(),
     .bounds = from_to(-kMostMargin, kMostMargin),
     .unit = "powers of two",
     .help = "scales are divided by 2^margin, delayed only"},
    {.key = "power_of_2_scales",
     .access = fp8<&Fp8Config::power_of_2_scales>(),
     .default_note = "true for block and mxfp8, else false",
     .help = "round scales down to powers of two; never with delayed, always with mxfp8"},
    {.key = "weights",
     .access = fp8<&Fp8Config::weights>(),
     .help = "storage of FP8 linears' weights; bf16: the master alone, cast at each gather"},
    {.key = "first_layers_bf16",
     .access = fp8<&Fp8Config::first_layers_bf16>(),
     .bounds = at_least(0),
     .unit = "layers",
     .help = "first layers kept in precision.compute"},
    {.key = "last_layers_bf16",
     .access = fp8<&Fp8Config::last_layers_bf16>(),
     .bounds = at_least(0),
     .unit = "layers",
     .help = "last layers kept in precision.compute; at least one layer must remain in FP8"},
};

}  // namespace

std::span<const Field> model_fields() { return kModel; }
std::span<const Field> moe_fields() { return kMoe; }
std::span<const Field> mesh_fields() { return kMesh; }
std::span<const Field> precision_fields() { return kPrecision; }

std::span<const Field> fp8_fields() { return kFp8; }

}  // namespace shard8::deck
