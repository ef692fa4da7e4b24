// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "deck/checks.hpp"
#include "deck/fields.hpp"

namespace shard8::deck {
namespace {

constexpr std::string_view kShard = "mesh.shard", kBatch = "data.batch", kPerRank = "data.batch_per_rank";

// "start 4 or 8 ranks": the nearest numbers that `model_ranks` divides.
std::string nearest_ranks(std::int64_t ranks, std::int64_t model_ranks) {
  const std::int64_t below = ranks / model_ranks * model_ranks;
  return below == 0 ? fmt::format("start {}", base::count(model_ranks, "rank", "ranks"))
                    : fmt::format("start {} or {} ranks", below, below + model_ranks);
}

// The divisors of a number of ranks, as a list for a message; the first of them, if there are many.
std::string divisors(std::int64_t ranks) {
  constexpr std::int64_t kMostTried = 4096;
  constexpr std::size_t kMostSuggested = 12;
  std::vector<std::string> found;
  for (std::int64_t i = 1; i <= std::min(ranks, kMostTried) && found.size() < kMostSuggested; ++i)
    if (ranks % i == 0) found.push_back(std::to_string(i));
  const std::vector<std::string_view> names(found.begin(), found.end());
  return list_of(names);
}

void resolve_shard(Diagnostics& errors, Reading& reading, std::optional<std::int64_t> ranks) {
  MeshConfig& mesh = reading.config.mesh;
  if (!mesh.is_auto()) return;
  mesh.shard = 1;
  const Checker check(errors, reading);
  if (!check.sound({kShard, "mesh.replicate", "mesh.tensor"})) {
    reading.broken.emplace(kShard);
    return;
  }
  const std::int64_t model_ranks = mesh.replicate * mesh.tensor;
  if (!ranks) {
    if (check.sound({"mesh.expert"})) mesh.shard = mesh.expert / std::gcd(mesh.expert, mesh.tensor);
    errors.warning(reading.values.at(std::string(kShard)),
                   fmt::format("mesh.shard = auto is taken as {}, on {}: the number of ranks is not known here",
                               mesh.shard, base::count(mesh.ranks(), "rank", "ranks")),
                   "give it with --ranks=N");
    return;
  }
  const auto fail = [&](const std::string& message, const std::string& hint) {
    check.fail({kShard}, message, hint);
    reading.broken.emplace(kShard);
  };
  if (*ranks % model_ranks != 0) {
    fail(fmt::format("mesh.shard = auto: {} {} not divisible by mesh.replicate * mesh.tensor = {} * {}{}", *ranks,
                     *ranks == 1 ? "rank is" : "ranks are", mesh.replicate, mesh.tensor,
                     mesh.replicate > 1 && mesh.tensor > 1 ? fmt::format(" = {}", model_ranks) : ""),
         fmt::format("{}, or choose replicate * tensor = {}", nearest_ranks(*ranks, model_ranks), divisors(*ranks)));
    return;
  }
  const std::int64_t shard = *ranks / model_ranks;
  const Field& field = field_at(kShard);
  if (!field.bounds.hold(static_cast<double>(shard))) {
    fail(fmt::format("mesh.shard = auto would be {} / ({} * {}) = {}", *ranks, mesh.replicate, mesh.tensor, shard),
         "expected " + expected(field));
    return;
  }
  mesh.shard = shard;
}

void resolve_batch(Diagnostics& errors, Reading& reading) {
  DataConfig& data = reading.config.data;
  drop_replaced_batch(reading);
  const auto per_rank = reading.values.find(kPerRank), batch = reading.values.find(kBatch);
  if (per_rank == reading.values.end()) return;
  const Checker check(errors, reading);
  const auto give_up = [&] { reading.broken.emplace(kBatch); };
  if (!check.sound({kPerRank})) return give_up();
  if (data.batch_per_rank == 0) {
    if (batch != reading.values.end()) return;
    check.fail({kPerRank}, "data.batch_per_rank = 0 needs data.batch, which is not given", "give one of them");
    return give_up();
  }
  if (batch != reading.values.end()) {
    check.fail({kPerRank}, fmt::format("{} and {} are both given", check.shown(kBatch), check.shown(kPerRank)),
               "leave one out: batch counts the sequences of all ranks, batch_per_rank those of one data rank");
    return give_up();
  }
  if (!check.sound({"mesh.replicate", kShard})) return give_up();
  const std::int64_t data_ranks = reading.config.mesh.data_ranks();
  if (data_ranks > kMostInteger / data.batch_per_rank) {
    check.fail({kPerRank},
               fmt::format("{} sequences on each of {} data ranks are too many", data.batch_per_rank, data_ranks),
               fmt::format("at most {} in a step", kMostInteger));
    return give_up();
  }
  // From here on the deck is one with data.batch, given where batch_per_rank was.
  data.batch = data.batch_per_rank * data_ranks;
  data.batch_per_rank = 0;
  reading.values[std::string(kBatch)] = per_rank->second;
  reading.values.erase(per_rank);
}

}  // namespace

void drop_replaced_batch(Reading& reading) {
  const auto per_rank = reading.values.find(kPerRank), batch = reading.values.find(kBatch);
  if (per_rank == reading.values.end() || batch == reading.values.end()) return;
  const bool usable = reading.broken.find(kPerRank) == reading.broken.end();
  if (!usable || reading.config.data.batch_per_rank == 0) return;  // 0 stands for data.batch
  const bool batch_of_deck = batch->second.source == 0, per_rank_of_deck = per_rank->second.source == 0;
  if (batch_of_deck == per_rank_of_deck) return;
  if (batch_of_deck) {
    reading.values.erase(batch);
    reading.broken.erase(std::string(kBatch));
  } else {
    reading.values.erase(per_rank);
    reading.config.data.batch_per_rank = 0;
  }
}

void resolve_ranks(Diagnostics& errors, Reading& reading, std::optional<std::int64_t> ranks) {
  resolve_shard(errors, reading, ranks);
  resolve_batch(errors, reading);
}

}  // namespace shard8::deck
