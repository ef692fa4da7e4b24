// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "deck/checks.hpp"

namespace shard8::deck {
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
