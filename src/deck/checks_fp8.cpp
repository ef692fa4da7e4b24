// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <numeric>
#include <string>
#include <string_view>

#include "deck/checks.hpp"
#include "deck/choices.hpp"
#include "deck/layout.hpp"

namespace shard8::deck {
namespace {

// Whether the deck may choose this format with this recipe.
bool takes(Recipe recipe, Fp8Format format) {
  return format == format_of(recipe) || (recipe == Recipe::block && format == Fp8Format::hybrid);
}

void check_recipe(const Checker& check, const Config& config) {
  const Fp8Config& f = config.fp8;
  if (check.sound({"fp8.format"}) && !takes(f.recipe, f.format)) {
    check.fail({"fp8.format", "fp8.recipe"},
               fmt::format("{} is not that of {}", check.shown("fp8.format"), check.shown("fp8.recipe")),
               fmt::format("expected format auto or {}", to_string(format_of(f.recipe))));
  }
  if (!check.sound({"fp8.power_of_2_scales"})) return;
  const auto refuse_scales = [&](const char* hint) {
    check.fail({"fp8.power_of_2_scales", "fp8.recipe"},
               fmt::format("{} cannot be with {}", check.shown("fp8.power_of_2_scales"), check.shown("fp8.recipe")),
               hint);
  };
  if (f.recipe == Recipe::delayed && f.power_of_2_scales) {
    refuse_scales("scales from a history are not rounded: expected false, or recipe current");
  }
  if (f.recipe == Recipe::mxfp8 && !f.power_of_2_scales) {
    refuse_scales("E8M0 holds nothing but powers of two: expected true, or recipe block");
  }
}

void check_layers(const Checker& check, const Config& config) {
  constexpr std::string_view first = "fp8.first_layers_bf16", last = "fp8.last_layers_bf16";
  if (!check.sound({first, last, "model.layers"})) return;
  const Fp8Config& f = config.fp8;
  const std::int64_t sum = f.first_layers_bf16 + f.last_layers_bf16;
  if (sum < config.model.layers) return;
  const bool more_first = f.first_layers_bf16 >= f.last_layers_bf16;
  check.fail({more_first ? first : last, more_first ? last : first, "model.layers"},
             fmt::format("{} + {} = {} + {} = {} leaves none of {} in FP8", first, last, f.first_layers_bf16,
                         f.last_layers_bf16, sum, check.shown("model.layers")),
             "expected a sum less than model.layers, or recipe none");
}

void check_gather(const Checker& check, const Config& config) {
  if (!check.sound({"fsdp.gather", "fp8.weights", "precision.compute"})) return;
  const Gather gather = config.fsdp.gather;
  if (gather == Gather::fp8) return;
  if (config.fp8.weights == Fp8Weights::fp8) {
    check.fail({"fsdp.gather", "fp8.weights"},
               fmt::format("{} is not that of {}", check.shown("fsdp.gather"), check.shown("fp8.weights")),
               "weights kept in FP8 are communicated as they are: expected gather auto or fp8, or weights bf16");
  } else if (gather == Gather::fp32 && config.precision.compute == FloatType::bf16) {
    check.fail(
        {"fsdp.gather", "precision.compute"},
        fmt::format("{} is not that of {}", check.shown("fsdp.gather"), check.shown("precision.compute")),
        "with a recipe weights are communicated as fp8 or in the compute dtype: expected gather auto, fp8 or bf16");
  }
}

// The number of which the widths and token counts of FP8 products on a rank must be multiples.
std::int64_t block_of(Recipe recipe) {
  switch (recipe) {
    case Recipe::block:
      return 128;
    case Recipe::mxfp8:
      return 32;
    default:
      return 16;
  }
}

class BlockChecker {
 public:
  BlockChecker(const Checker& check, const Config& config)
      : check_(check), config_(config), block_(block_of(config.fp8.recipe)), tensor_(config.mesh.tensor) {}

  void check_attention() const {
    const ModelConfig& m = config_.model;
    if (!check_.sound({"model.hidden", "model.heads", "model.head_dim", "mesh.tensor"})) return;
    if (m.head_dim == 0 || m.heads % tensor_ != 0) return;
    if (m.hidden % block_ != 0) {
      check_.fail({"model.hidden", "fp8.recipe"}, failure(check_.shown("model.hidden")),
                  hint() + multiples("model.hidden", m.hidden));
      return;  // the tensor ranks' parts are then not multiples either
    }
    // The width of all query heads, and of one head, in terms of the keys that give them.
    const std::int64_t q = m.query_width();
    const bool divided = q == m.hidden;
    const std::string_view q_key = divided ? "model.hidden" : "model.head_dim";
    const std::string q_name = divided ? "model.hidden" : "model.heads * model.head_dim";
    const std::string q_numbers = divided ? std::to_string(q) : fmt::format("{} * {}", m.heads, m.head_dim);
    const std::string head_name = divided ? "model.hidden / model.heads" : "model.head_dim";
    const std::string head_numbers = divided ? fmt::format("{} / {}", m.hidden, m.heads) : std::to_string(m.head_dim);
    if (!check_local(q_key, q_name, q_numbers, q)) return;

    if (!check_.sound({"model.arch", "model.kv_heads"}) || m.kv_heads == m.heads || m.arch == Arch::gpt2) return;
    if (m.heads % m.kv_heads != 0 || m.kv_heads % tensor_ != 0) return;
    const std::int64_t kv = m.key_width();
    const std::string kv_name = "model.kv_heads * " + head_name;
    const std::string kv_numbers = fmt::format("{} * {}", m.kv_heads, head_numbers);
    if (block_ > 16) {  // recipes with block scales: q, k and v have blocks of their own
      check_local("model.kv_heads", kv_name, kv_numbers, kv);
    } else {
      const auto sum = [this](const std::string& text) { return tensor_ == 1 ? text : "(" + text + ")"; };
      check_local("model.kv_heads", sum(fmt::format("{} + 2 * {}", q_name, kv_name)),
                  sum(fmt::format("{} + 2 * {}", q_numbers, kv_numbers)), q + 2 * kv);
    }
  }

  void check_mlp() const {
    const ModelConfig& m = config_.model;
    if (!check_.sound({"model.layers", "fp8.first_layers_bf16", "fp8.last_layers_bf16"})) return;
    Fp8Config fp8 = config_.fp8;
    if (fp8.first_layers_bf16 + fp8.last_layers_bf16 >= m.layers)  // an error of its own; all layers count then
      fp8.first_layers_bf16 = fp8.last_layers_bf16 = 0;
    const bool layers_known = check_.sound({"moe.experts", "moe.dense_layers"});
    if (layers_known && fp8.layers_with_experts(m) > 0) {
      const std::int64_t ffn = m.moe.ffn;  // experts are not cut by tensor
      if (check_.sound({"moe.ffn"}) && ffn % block_ != 0)
        check_.fail({"moe.ffn", "fp8.recipe"}, failure(check_.shown("moe.ffn")),
                    hint() + nearest("moe.ffn", ffn, block_));
    }
    if (layers_known && fp8.layers_with_ffn(m) == 0) return;
    const std::int64_t ffn = m.ffn;
    if (!check_.sound({"model.ffn", "mesh.tensor"}) || ffn % tensor_ != 0) return;
    check_local("model.ffn", "model.ffn", std::to_string(ffn), ffn);
  }

  void check_tokens() const {
    if (!check_.sound({"model.seq", "data.batch", "data.micro_batch"})) return;
    if (!check_.sound({"mesh.replicate", "mesh.shard", "mesh.tensor"})) return;
    const std::int64_t micro = lay_out(config_).micro_batch, seq = config_.model.seq;
    if (micro * seq % tensor_ != 0) return;
    check_local(micro == config_.data.micro_batch ? "data.micro_batch" : "data.batch", "micro-batch * model.seq",
                fmt::format("{} * {}", micro, seq), micro * seq, micro_batch_note(config_));
  }

 private:
  // Checks total / mesh.tensor, the width on a tensor rank. A message shows `name` = `numbers` = total.
  bool check_local(std::string_view key, std::string_view name, const std::string& numbers, std::int64_t total,
                   const std::string& note = {}) const {
    const std::int64_t local = total / tensor_;
    if (local % block_ == 0) return true;
    const std::string number = std::to_string(local);
    if (tensor_ == 1) {
      const std::string steps = numbers == number ? "" : numbers + " = ";
      check_.fail({key, "fp8.recipe"}, failure(fmt::format("{} = {}{}", name, steps, number)) + note,
                  hint() + (name == key ? multiples(key, total) : ""));
    } else {
      check_.fail({key, "mesh.tensor", "fp8.recipe"},
                  failure(fmt::format("{} / mesh.tensor = {} / {} = {}", name, numbers, tensor_, number)) + note,
                  hint() + (name == key ? multiples(key, total) : ""));
    }
    return false;
  }

  std::string failure(const std::string& sum) const { return fmt::format("{} is not a multiple of {}", sum, block_); }

  // "; model.ffn could be 352 or 384": the nearest widths that the recipe and the mesh take.
  std::string multiples(std::string_view key, std::int64_t given) const {
    std::int64_t step = block_ * tensor_;
    if (key == "model.hidden") step = std::lcm(step, config_.model.heads * (config_.model.arch == Arch::llama ? 2 : 1));
    return nearest(key, given, step);
  }

  static std::string nearest(std::string_view key, std::int64_t given, std::int64_t step) {
    const std::int64_t below = given / step * step;
    return fmt::format("; {} could be {}{}", key, below > 0 ? fmt::format("{} or ", below) : "", below + step);
  }

  std::string hint() const {
    const Recipe recipe = config_.fp8.recipe;
    std::string text = fmt::format("fp8.recipe = {} needs multiples of {}", to_string(recipe), block_);
    if (recipe == Recipe::block) text += ", mxfp8 of 32";
    return text + (block_ > 16 ? ", delayed and current of 16" : "; recipe none takes any");
  }

  const Checker& check_;
  const Config& config_;
  std::int64_t block_;
  std::int64_t tensor_;
};

}  // namespace

void check_fp8(const Checker& check, const Config& config) {
  if (!check.sound({"fp8.recipe"})) return;
  if (!config.fp8.on()) {
    if (!check.sound({"fsdp.gather"}) || config.fsdp.gather != Gather::fp8) return;
    check.fail({"fsdp.gather", "fp8.recipe"},
               fmt::format("{} needs a recipe: {}", check.shown("fsdp.gather"), check.shown("fp8.recipe")),
               "expected gather auto, bf16 or fp32, or recipe delayed, current, block or mxfp8");
    return;
  }
  check_recipe(check, config);
  check_layers(check, config);
  check_gather(check, config);
  const BlockChecker blocks(check, config);
  blocks.check_attention();
  blocks.check_mlp();
  blocks.check_tokens();
}

Fp8Format format_of(Recipe recipe) {
  switch (recipe) {
    case Recipe::none:
      return Fp8Format::automatic;
    case Recipe::delayed:
    case Recipe::current:
      return Fp8Format::hybrid;
    default:
      return Fp8Format::e4m3;
  }
}

namespace {

/// The most experts of which some are drawn: kernels::kMostDrawnExperts.
constexpr std::int64_t kMostDrawn = 2048;

/// Keys with which layers with experts do not go.
void check_conflicts(const Checker& check, const Config& config) {
  if (check.sound({"model.arch"}) && config.model.arch == Arch::gpt2)
    check.fail({"moe.experts", "model.arch"},
               fmt::format("{} does not go with {}", check.shown("moe.experts"), check.shown("model.arch")),
               "gpt2 has no experts: leave experts out, or set arch to llama");
}

/// The numbers of experts and of layers with experts.
void check_numbers(const Checker& check, const Config& config) {
  const MoeConfig& moe = config.model.moe;
  if (check.sound({"moe.experts_per_token"}) && moe.experts_per_token > moe.experts)
    check.fail({"moe.experts_per_token", "moe.experts"},
               fmt::format("{} is more than {}", check.shown("moe.experts_per_token"), check.shown("moe.experts")),
               fmt::format("the experts of a token are different ones: expected at most {}", moe.experts));
  if (check.sound({"moe.routing"}) && moe.routing != MoeRouting::learned && moe.experts > kMostDrawn)
    check.fail(
        {"moe.experts", "moe.routing"},
        fmt::format("{} is more than can be drawn with {}", check.shown("moe.experts"), check.shown("moe.routing")),
        fmt::format("expected at most {}, or moe.routing learned", kMostDrawn));
  if (check.sound({"moe.dense_layers", "model.layers"}) && moe.dense_layers >= config.model.layers)
    check.fail(
        {"moe.dense_layers", "model.layers"},
        fmt::format("{} leaves none of {} with experts", check.shown("moe.dense_layers"), check.shown("model.layers")),
        "expected less than model.layers, or moe.experts 0");
}

/// How the experts of a layer are spread over ranks.
void check_ranks(const Checker& check, const Config& config) {
  const MeshConfig& mesh = config.mesh;
  check.divisible("moe.experts", "mesh.expert");
  if (!check.sound({"mesh.expert", "mesh.shard", "mesh.tensor"})) return;
  const std::int64_t ranks = mesh.shard * mesh.tensor;
  if (ranks % mesh.expert == 0) return;
  check.fail({"mesh.expert", "mesh.shard", "mesh.tensor"},
             fmt::format("mesh.shard * mesh.tensor = {} * {} = {} is not divisible by {}", mesh.shard, mesh.tensor,
                         ranks, check.shown("mesh.expert")),
             check.expert_ranks(ranks));
}

/// The dtype in which rows are sent.
void check_dispatch(const Checker& check, const Config& config) {
  if (!check.sound({"moe.dispatch", "fp8.recipe"}) || config.model.moe.dispatch != MoeDispatch::fp8) return;
  if (config.fp8.per_tensor()) return;
  check.fail({"moe.dispatch", "fp8.recipe"},
             fmt::format("{} does not go with {}", check.shown("moe.dispatch"), check.shown("fp8.recipe")),
             config.fp8.on() ? "rows with scales of blocks would be cast twice: leave dispatch out, or set recipe to "
                               "delayed or current"
                             : "leave dispatch out, or set recipe to delayed or current");
}

}  // namespace

void check_moe(const Checker& check, const Config& config) {
  if (!check.sound({"moe.experts"})) return;
  if (config.model.moe.on()) {
    check_conflicts(check, config);
    check_numbers(check, config);
    check_ranks(check, config);
    check_dispatch(check, config);
  } else if (check.sound({"mesh.expert"}) && config.mesh.expert > 1) {
    check.fail({"mesh.expert", "moe.experts"},
               fmt::format("{} needs experts: {}", check.shown("mesh.expert"), check.shown("moe.experts")),
               fmt::format("leave expert out, or set moe.experts to a multiple of {}", config.mesh.expert));
  }
}

}  // namespace shard8::deck
