// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/axes.hpp"
#include "profile/phase.hpp"

namespace shard8::deck {

enum class Arch { llama, gpt2 };
enum class Recompute { none, selective, full };
/// How a token's experts are chosen: by the router; by counters, evenly; by counters, after a Zipf distribution.
enum class MoeRouting { learned, balanced, zipf };
enum class MoeDispatch { automatic, bf16, fp8 };  ///< see MoeConfig::dispatch
enum class Backend { automatic, mpi, nccl };
enum class Device { automatic, host, cuda };
enum class FloatType { fp32, bf16 };
enum class Gather { automatic, fp8, bf16, fp32 };
enum class Accumulate { full, sharded };
enum class Recipe { none, delayed, current, block, mxfp8 };
enum class Fp8Format { automatic, hybrid, e4m3 };
enum class AmaxAlgo { max, most_recent };
enum class Fp8Weights { fp8, bf16 };
enum class Master { fp32, bf16_remainder };
enum class DataKind { synthetic, bytes, tokens };
/// What a skeleton run keeps of a step: all collectives, and waits in place of computations; or all computations, and
/// no collectives.
enum class Skeleton : std::uint8_t { none, communication, computation };
enum class CheckpointFiles { rank, node };

// The initialisers below are the deck's defaults. If a default depends on other keys, the initialiser is a placeholder
// that load() replaces; the member's comment then says "loaded". A number that every deck must give is 0 here.

/// The mixture of experts that takes the place of a layer's feed-forward block: each token is computed by
/// experts_per_token of the layer's experts.
struct MoeConfig {
  std::int64_t experts = 0;                  ///< experts of a layer; 0: no layer has experts
  std::int64_t experts_per_token = 2;        ///< experts that compute a token, at most `experts`
  std::int64_t ffn = 0;                      ///< width inside an expert; loaded, with experts: by default model.ffn
  double balance = 0.0;                      ///< coefficient of the balance loss
  MoeRouting routing = MoeRouting::learned;  ///< how a token's experts are chosen
  double skew = 1.0;                         ///< exponent of the Zipf distribution (zipf)
  double capacity = 2.0;                     ///< rows of a round of dispatch / mean rows of a rank, at least 1
  /// The dtype in which rows are sent to their experts. Loaded, with experts and an FP8 recipe: by default FP8 if a
  /// matrix has one scale.
  MoeDispatch dispatch = MoeDispatch::automatic;
  std::int64_t dense_layers = 0;  ///< first layers without experts

  bool on() const { return experts > 0; }
};

/// The transformer, as in Hugging Face configurations.
struct ModelConfig {
  Arch arch = Arch::llama;         ///< llama: RMSNorm, rotary, SwiGLU; gpt2: LayerNorm, GELU
  std::int64_t hidden = 0;         ///< width of the residual stream
  std::int64_t ffn = 0;            ///< width inside the feed-forward block
  std::int64_t layers = 0;         ///< transformer layers
  std::int64_t heads = 0;          ///< query heads
  std::int64_t kv_heads = 0;       ///< key and value heads; loaded default: heads
  std::int64_t head_dim = 0;       ///< width of a head; loaded default: hidden / heads. See head_width()
  bool qk_norm = false;            ///< RMSNorm over head_dim of each head's queries and keys, before RoPE (llama)
  std::int64_t vocab = 0;          ///< entries of the vocabulary, without any padding
  std::int64_t seq = 0;            ///< tokens in a sequence
  double norm_eps = 1e-5;          ///< added to the variance (RMSNorm: the mean square) in norms
  double rope_theta = 10000.0;     ///< base of the rotary frequencies (llama)
  bool tie_embeddings = false;     ///< head = embedding; loaded default: true for gpt2
  std::uint64_t init_seed = 1234;  ///< seed of the initial weights
  double init_std = 0.02;          ///< standard deviation of the initial weights
  std::string init_file;           ///< "file.h5:/group", ".safetensors" or checkpoints; empty: random
  Recompute recompute = Recompute::none;  ///< what backward recomputes
  MoeConfig moe;                          ///< the group moe: experts in place of feed-forward blocks

  /// The width of a head: head_dim, or hidden / heads if head_dim is 0, which load() replaces. heads must be positive.
  std::int64_t head_width() const { return head_dim > 0 ? head_dim : hidden / heads; }
  /// The width of all query heads together: of attention's result, and of the input of its projection.
  std::int64_t query_width() const { return heads * head_width(); }
  /// The width of all key heads together, which is that of all value heads.
  std::int64_t key_width() const { return kv_heads * head_width(); }
  /// Whether a layer, counted from 0, has experts in place of the feed-forward block.
  bool has_experts(std::int64_t layer) const { return moe.on() && layer >= moe.dense_layers; }
  /// Whether any layer has a feed-forward block, and so reads ffn.
  bool has_dense_layers() const { return !moe.on() || moe.dense_layers > 0; }
  /// The number of layers with experts. moe.dense_layers must not be more than layers.
  std::int64_t expert_layers() const { return moe.on() ? layers - moe.dense_layers : 0; }
};

/// Ranks = replicate * shard * tensor; tensor varies fastest, replicate slowest.
struct MeshConfig {
  static constexpr std::int64_t kAuto = 0;  ///< stands for the word auto

  std::int64_t replicate = 1;            ///< copies of the weights, each sharded
  std::int64_t shard = 1;                ///< ranks over which a copy is sharded; kAuto only until load() resolves it
  std::int64_t tensor = 1;               ///< ranks that share one matrix product
  std::int64_t expert = 1;               ///< consecutive ranks of shard * tensor that share a layer's experts
  Backend backend = Backend::automatic;  ///< which library moves data between ranks
  Device device = Device::automatic;     ///< where kernels run
  bool share_devices = false;            ///< ranks of a node may have the same device

  std::int64_t ranks() const { return replicate * shard * tensor; }
  /// Whether `shard` is open until load() resolves it.
  bool is_auto() const { return shard == kAuto; }
  /// Whether ranks share matrix products, and exchange tokens for that.
  bool exchanges() const { return tensor > 1; }
  /// The extents of the mesh of a config that load() returned.
  base::Extents extents() const {
    return base::Extents(static_cast<int>(replicate), static_cast<int>(shard), static_cast<int>(tensor))
        .with_experts(static_cast<int>(expert));
  }
  /// P: the number of ranks that read different samples.
  std::int64_t data_ranks() const { return replicate * shard; }
};

struct PrecisionConfig {
  FloatType compute = FloatType::bf16;  ///< activations, residual stream, matrix products
  FloatType reduce = FloatType::fp32;   ///< type in which gradients are reduced over ranks
  bool deterministic = true;            ///< two runs give the same bits
  double peak_tflops = 0.0;             ///< TFLOP/s of a rank, for MFU; 0: from the device's data sheet
};

/// FP8 in the layers' linears: how values are scaled and how weights are kept.
struct Fp8Config {
  Recipe recipe = Recipe::none;             ///< scaling of weights, activations and gradients
  Fp8Format format = Fp8Format::automatic;  ///< loaded: hybrid (gradients of outputs E5M2) or e4m3
  std::int64_t amax_history = 1024;         ///< steps whose amaxes are kept (delayed)
  AmaxAlgo amax_algo = AmaxAlgo::max;       ///< which amax of the history sets the scale (delayed)
  std::int64_t margin = 0;                  ///< scales are divided by 2^margin (delayed)
  bool power_of_2_scales = false;           ///< loaded default: true for block and mxfp8
  Fp8Weights weights = Fp8Weights::fp8;     ///< fp8: FP8 shards are kept with the master; bf16: only the master
  std::int64_t first_layers_bf16 = 0;       ///< first layers that stay in the compute type
  std::int64_t last_layers_bf16 = 0;        ///< last layers that stay in the compute type

  bool on() const { return recipe != Recipe::none; }
  /// The number of the model's layers in FP8 that have experts, and of those that have a feed-forward block.
  std::int64_t layers_with_experts(const ModelConfig& model) const {
    if (!on() || !model.moe.on()) return 0;
    const std::int64_t first = std::max(first_layers_bf16, model.moe.dense_layers);
    return std::max(model.layers - last_layers_bf16 - first, std::int64_t{0});
  }
  std::int64_t layers_with_ffn(const ModelConfig& model) const {
    if (!on()) return 0;
    const std::int64_t all = std::max(model.layers - last_layers_bf16 - first_layers_bf16, std::int64_t{0});
    return all - layers_with_experts(model);
  }
  /// Whether a matrix has one scale.
  bool per_tensor() const { return recipe == Recipe::delayed || recipe == Recipe::current; }
};

struct FsdpConfig {
  bool reshard_after_forward = true;  ///< free gathered layers between forward and backward
  std::int64_t prefetch = 1;          ///< units gathered ahead of the one that computes
  /// Where gradients of several micro-batches are summed. full: unsharded, and reduced after the last micro-batch;
  /// sharded: in the gradient shards, reduced after each.
  Accumulate accumulate = Accumulate::full;
  /// The type in which weights are gathered. With fp32 and compute bf16 each receiver rounds. With an FP8 recipe this
  /// is the type of the FP8 linears' weights; all other weights are gathered in the compute type. Loaded default: fp8
  /// with a recipe, else the type of precision.compute.
  Gather gather = Gather::automatic;
};

/// How exchanges of tokens are overlapped with matrix products.
struct OverlapConfig {
  bool enable = false;  ///< false: no exchange is overlapped, whatever the members below are
  /// Each exchange that has a key is automatic, or has one of its methods (deck/overlap.hpp). The others are off.
  profile::ExchangeMethods methods = [] {
    profile::ExchangeMethods all{};
    for (const profile::Exchange key : profile::kOverlapKeys) all[key] = profile::ExchangeMethod::automatic;
    return all;
  }();
  /// On devices, of a direct gather: the products in which the other ranks' tokens are multiplied; 0: one for each
  /// rank.
  std::int64_t splits = 0;
  /// On devices, of a pipeline: the products in which the tokens of each other rank are multiplied, or the rows of a
  /// rank's experts; 0: see pipeline_chunks() and expert_chunks().
  std::int64_t chunks = 0;
  double min_gflop = 0.0;  ///< an exchange whose product has fewer GFLOP on a rank is not overlapped
};

/// AdamW. Learning rate at step s (from 0), N = decay_steps:
/// lr (s+1)/warmup while s < warmup, then min_lr + (lr-min_lr)/2 (1+cos(pi (s-warmup)/(N-warmup))), min_lr from N on.
struct OptimizerConfig {
  double lr = 0.0;                      ///< peak learning rate
  double min_lr = 0.0;                  ///< learning rate at the end of the decay
  std::int64_t warmup = 0;              ///< steps of linear warm-up
  std::int64_t decay_steps = 0;         ///< step at which min_lr is reached; loaded default: run.steps or more
  double beta1 = 0.9;                   ///< decay of the first moment
  double beta2 = 0.95;                  ///< decay of the second moment
  double eps = 1e-8;                    ///< added to the root of the second moment
  double weight_decay = 0.1;            ///< decoupled, on parameters of two dimensions or more
  double clip = 1.0;                    ///< largest global gradient norm; 0: off
  FloatType moments = FloatType::fp32;  ///< type in which both moments are kept
  Master master = Master::fp32;         ///< fp32, or bf16 weights and a 16-bit remainder
};

struct DataConfig {
  DataKind kind = DataKind::synthetic;  ///< every deck must give it
  /// Text file or folder (bytes), "file.h5:/dataset" (tokens); not read for synthetic. A relative path is looked
  /// for in the working directory, then in the deck's folder; load() stores where it was found.
  std::string path;
  std::int64_t batch = 0;           ///< sequences in a step, over all ranks
  std::int64_t batch_per_rank = 0;  ///< sequences of a data rank in a step; loaded: 0, and batch is set
  std::int64_t micro_batch = 0;     ///< sequences that a data rank computes at once; 0: all that it has
  std::uint64_t seed = 1234;        ///< seed of the order of samples, and of synthetic tokens
  double validation = 0.0;          ///< the last share of samples or slabs, which is kept out of training
  /// As path: data for validation, all of it, in place of a share of path. Empty: none.
  std::string validation_path;

  /// Whether there are data for validation.
  bool validates() const { return validation > 0 || !validation_path.empty(); }
};

struct RunConfig {
  std::int64_t steps = 0;             ///< optimizer steps
  std::int64_t stop_after = 0;        ///< steps of this run after which it stops; 0: never
  double time_limit_min = 0.0;        ///< minutes from the begin of the process; 0: none
  double margin_s = 0.0;              ///< left of a time limit when a run stops; 0: from the times of steps and writes
  std::int64_t log_every = 10;        ///< steps between two lines of progress
  std::int64_t timing_skip = 5;       ///< first steps left out of the figures; loaded default: at most steps - 1
  std::int64_t hang_limit_s = 600;    ///< seconds; a rank that waits or stands still longer ends the job
  std::int64_t validate_every = 0;    ///< steps between validations, the last one behind the last step; 0: none
  std::int64_t validate_batches = 0;  ///< batches of a validation; 0: all that the data have
  Skeleton skeleton = Skeleton::none;
  /// A machine file, or the output.dir or summary of a run: what the computations of a skeleton take. Empty: nothing. A
  /// relative path is looked for as data.path is; load() stores where it was found.
  std::string skeleton_times{};
  double skeleton_load = 0.0;  ///< GB/s of memory that a rank reads while it waits
};

/// What a run saves, and what it goes on from.
struct CheckpointConfig {
  static constexpr const char* kDefaultDir = "checkpoints";  ///< in output.dir
  static constexpr const char* kAutoRestart = "auto";
  static constexpr const char* kNoRestart = "none";

  std::string dir;         ///< folder, created if missing; loaded: empty only if every and run.stop_after are 0
  std::int64_t every = 0;  ///< steps from one checkpoint to the next; 0: none on the way
  std::int64_t keep = 2;   ///< checkpoints of a run that stay, those written last
  bool async = true;       ///< written while training goes on
  CheckpointFiles files = CheckpointFiles::rank;  ///< one a rank, or one a node
  /// kAutoRestart, kNoRestart, or the folder of one checkpoint or of several. A relative path is looked for as
  /// data.path is; load() stores where it was found.
  std::string restart = kAutoRestart;
  bool allow_changes = false;  ///< of keys that change the training

  bool restarts_from_path() const { return restart != kAutoRestart && restart != kNoRestart; }
};

/// Checks of a run's result. If none is set, the run reports VERIFICATION: NOT CONFIGURED.
struct VerifyConfig {
  double final_loss_max = 0.0;       ///< nats; 0: not checked
  double final_loss_min = 0.0;       ///< nats; 0: not checked
  double unigram_ratio_max = 0.0;    ///< final loss / unigram entropy of the data; 0: not checked
  double validation_loss_max = 0.0;  ///< nats; 0: not checked
  std::int64_t min_steps = 1;        ///< the limits above hold for runs of at least this many steps
  std::string gold;                  ///< file with the losses expected; empty: none
  double tolerance = 0.0;            ///< largest relative difference from gold; 0: bit for bit

  bool limits_training_loss() const { return final_loss_max > 0.0 || final_loss_min > 0.0 || unigram_ratio_max > 0.0; }
  bool limits_final_loss() const { return limits_training_loss() || validation_loss_max > 0.0; }
  bool configured() const { return limits_final_loss() || !gold.empty(); }
};

struct OutputConfig {
  static constexpr const char* kAlgorithms = "algorithms.txt";  ///< in dir, on devices: see docs/gpu.md
  static constexpr const char* kOverlap = "overlap.json";       ///< in dir, with overlap: auto: see docs/overlap.md

  static constexpr const char* kRanks = "ranks.csv";  ///< in dir: mean seconds of each phase on each rank

  std::string dir = "out";                ///< folder, created if missing
  bool replace = false;                   ///< move the files of another training aside
  std::string metrics = "metrics.jsonl";  ///< in dir: one JSON object a step
  std::string timing = "timing.csv";      ///< in dir: seconds of each phase of each step, summarised over the ranks
  std::string timing_ranks;               ///< in dir: seconds of each phase of each step on each rank; empty: none
  std::string summary = "summary.json";   ///< in dir: the whole report
  std::string trace;                      ///< in dir: spans of trace_steps, one file a rank; empty: no trace
  std::string trace_steps;                ///< see parse_trace_steps; empty: the first steps that figures count
};

/// All keys of a deck. A Config that load() returned is checked and complete. Each part of the program gets a copy of
/// the structs that it needs.
struct Config {
  /// Whether layers in FP8 cast the rows of experts before they are sent.
  bool sends_rows_in_fp8() const {
    return model.moe.dispatch == MoeDispatch::fp8 && fp8.layers_with_experts(model) > 0;
  }

  ModelConfig model;
  MeshConfig mesh;
  PrecisionConfig precision;
  Fp8Config fp8;
  FsdpConfig fsdp;
  OverlapConfig overlap;
  OptimizerConfig optimizer;
  DataConfig data;
  RunConfig run;
  CheckpointConfig checkpoint;
  VerifyConfig verify;
  OutputConfig output;
};

}  // namespace shard8::deck
