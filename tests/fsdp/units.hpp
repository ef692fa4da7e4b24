// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/axes.hpp"
#include "fsdp/gather_schedule.hpp"
#include "fsdp/unit_shape.hpp"

namespace shard8::tests {

inline constexpr int kLayers = 4;
inline constexpr int kEmbedding = 0;
inline constexpr int kRoot = kLayers + 1;

/// The first rank of a mesh of so many shards and replicas.
inline base::Place first_of(int shards, int replicas = 1) { return {{replicas, shards, 1}, 0}; }

/// An embedding, equal layers and a root. Most numbers of rows are not divisible by the number of ranks; some are
/// smaller.
inline std::vector<fsdp::UnitShape> small_units() {
  std::vector<fsdp::UnitShape> units;
  units.push_back({"embedding", {{"table", 11, 6, 1, false, false}}, false});
  for (int l = 0; l < kLayers; ++l)
    units.push_back({"layer",
                     {{"norm", 7, 1, 1, false, true}, {"fc1", 13, 6, 1, true, false}, {"narrow", 2, 9, 1, true, false}},
                     true});
  units.push_back({"root", {{"norm", 1, 1, 1, false, true}, {"head", 10, 6, 1, true, false}}, false});
  return units;
}

/// As small_units(), but every rank holds the second layer and the root whole.
inline std::vector<fsdp::UnitShape> units_of_two_kinds() {
  auto units = small_units();
  for (const int unit : {2, kRoot})
    for (fsdp::ParameterShape& p : units[static_cast<std::size_t>(unit)].parameters) p.sharing.sharded = {};
  return units;
}

/// An embedding, layers and a root whose parameters have pieces of every kind. Their 12 rows in blocks of 4 give short
/// and empty shards. The first layer has plain rows without blocks. `stored`: parameters with pieces to transfer keep
/// them as shards.
inline std::vector<fsdp::UnitShape> piece_units(bool stored) {
  using fsdp::Copies;
  using fsdp::Piece;
  using tensor::DType;
  const Copies tiles{{Piece{DType::e4m3, 1, 6}, Piece{DType::fp32, 4, 2}}, {}};
  const Copies rows_columns{{Piece{DType::e4m3, 1, 6}, Piece{DType::e8m0, 1, 3}},
                            {Piece{DType::e4m3, 1, 6}, Piece{DType::e8m0, 4, 6}}};
  const Copies one_and_two{{Piece{DType::e5m2, 1, 10}}, {Piece{DType::e4m3, 1, 10}, Piece{DType::fp32, 2, 1}}};
  const auto parameter = [](const char* name, std::int64_t cols, const Copies& travel, const Copies& compute,
                            bool keep) {
    return fsdp::ParameterShape{name, 12, cols, 4, true, false, travel, compute, keep};
  };
  const auto norm = [](std::int64_t rows) { return fsdp::ParameterShape{"norm", rows, 1, 1, false, true}; };
  const auto plain = [](const char* name, std::int64_t cols) {
    return fsdp::ParameterShape{name, 12, cols, 1, true, false};
  };
  std::vector<fsdp::UnitShape> units;
  units.push_back({"embedding", {{"table", 11, 6, 1, false, false}}, false});
  units.push_back({"first", {norm(7), plain("qkv", 6), plain("fc1", 6), plain("fc2", 10), plain("proj", 6)}, true});
  for (int l = 1; l < kLayers; ++l)
    units.push_back(
        {"layer",
         {norm(7), parameter("qkv", 6, tiles, {}, stored),  // one copy, not converted
          parameter("fc1", 6, rows_columns, {}, stored),    // two copies
          parameter("fc2", 10, {}, one_and_two, false),     // plain rows, converted into two copies
          parameter("proj", 6, tiles, Copies{{Piece{DType::bf16, 1, 6}}, {}}, stored)},  // one copy, converted
         true});
  units.push_back({"root", {norm(1), parameter("head", 6, rows_columns, {}, stored)}, false});
  return units;
}

/// The visits of a step. `tied`: the root has the embedding's table. `recompute`: each layer's forward is recomputed
/// before its backward.
inline std::vector<fsdp::Visit> visits(int micro_batches, bool tied = false, bool recompute = false) {
  using fsdp::Pass;
  std::vector<fsdp::Visit> order;
  for (int m = 0; m < micro_batches; ++m) {
    order.push_back({tied ? kRoot : kEmbedding, Pass::forward});
    for (int l = 1; l <= kLayers; ++l) order.push_back({l, Pass::forward});
    if (!tied) order.push_back({kRoot, Pass::forward});
    for (int l = kLayers; l >= 1; --l) {
      if (recompute) order.push_back({l, Pass::forward});
      order.push_back({l, Pass::backward});
    }
  }
  return order;
}

/// How many slots in [0, rotating_slots) hold a copy. No slot is emptied in a step, so after a step this is the largest
/// number of slots that held a copy at once. `copies`: how many copies there are.
inline int rotating_slots_used(const fsdp::GatherSchedule& schedule, int copies, int rotating_slots) {
  int used = 0;
  for (int copy = 0; copy < copies; ++copy)
    if (const int slot = schedule.slot_of(copy); slot >= 0 && slot < rotating_slots) ++used;
  return used;
}

}  // namespace shard8::tests
