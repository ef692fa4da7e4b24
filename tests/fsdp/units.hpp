// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fsdp/gather_schedule.hpp"
#include "fsdp/unit_shape.hpp"

namespace shard8::tests {

inline constexpr int kLayers = 4;
inline constexpr int kEmbedding = 0;
inline constexpr int kRoot = kLayers + 1;

/// An embedding, equal layers, a root: vectors and matrices whose rows divide by nothing, fewer
/// than ranks too.
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

/// The same kind of units with parameters of several pieces, in every manner. Their 12 rows in blocks
/// of 4 leave short and empty shards. The first layer consists of plain rows, cut anywhere; `stored`
/// says whether what travels in pieces is kept as shards.
inline std::vector<fsdp::UnitShape> piece_units(bool stored) {
  using fsdp::Copies;
  using fsdp::Piece;
  using tensor::DType;
  const Copies tiles{{Piece{DType::e4m3, 1, 6}, Piece{DType::fp32, 4, 2}}, {}};
  const Copies rows_columns{{Piece{DType::e4m3, 1, 6}, Piece{DType::e8m0, 1, 3}},
                            {Piece{DType::e4m3, 1, 6}, Piece{DType::e8m0, 4, 6}}};
  const Copies one_and_two{{Piece{DType::e5m2, 1, 10}}, {Piece{DType::e4m3, 1, 10}, Piece{DType::fp32, 2, 1}}};
  const auto parameter = [](const char* name, std::int64_t cols, const Copies& travel, const Copies& compute,
                            bool kept) {
    return fsdp::ParameterShape{name, 12, cols, 4, true, false, travel, compute, kept};
  };
  const auto norm = [](std::int64_t rows) { return fsdp::ParameterShape{"norm", rows, 1, 1, false, true}; };
  const auto plain = [](const char* name, std::int64_t cols) {
    return fsdp::ParameterShape{name, 12, cols, 1, true, false};
  };
  std::vector<fsdp::UnitShape> units;
  units.push_back({"embedding", {{"table", 11, 6, 1, false, false}}, false});
  units.push_back({"first", {norm(7), plain("qkv", 6), plain("fc1", 6), plain("fc2", 10), plain("proj", 6)}, true});
  for (int l = 1; l < kLayers; ++l)
    units.push_back({"layer",
                     {norm(7), parameter("qkv", 6, tiles, {}, stored),  // one copy, computed with as it travels
                      parameter("fc1", 6, rows_columns, {}, stored),    // two copies
                      parameter("fc2", 10, {}, one_and_two, false),     // plain rows travel, two copies are made
                      parameter("proj", 6, tiles, Copies{{Piece{DType::bf16, 1, 6}}, {}}, stored)},  // another is made
                     true});
  units.push_back({"root", {norm(1), parameter("head", 6, rows_columns, {}, stored)}, false});
  return units;
}

/// Uses of units in a step, as a model with an embedding of its own makes them. With `again` layers
/// are run forward again before each goes backward (full recomputation).
inline std::vector<fsdp::Visit> visits(int micro_batches, bool tied = false, bool again = false) {
  using fsdp::Pass;
  std::vector<fsdp::Visit> order;
  for (int m = 0; m < micro_batches; ++m) {
    order.push_back({tied ? kRoot : kEmbedding, Pass::forward});
    for (int l = 1; l <= kLayers; ++l) order.push_back({l, Pass::forward});
    if (!tied) order.push_back({kRoot, Pass::forward});
    for (int l = kLayers; l >= 1; --l) {
      if (again) order.push_back({l, Pass::forward});
      order.push_back({l, Pass::backward});
    }
  }
  return order;
}

/// Buffers in [0, rotating_slots) that hold one of `copies` copies. No buffer is emptied in a step, so after a
/// step this is the largest number that held one at once.
inline int rotating_buffers_used(const fsdp::GatherSchedule& schedule, int copies, int rotating_slots) {
  int used = 0;
  for (int copy = 0; copy < copies; ++copy)
    if (const int slot = schedule.slot_of(copy); slot >= 0 && slot < rotating_slots) ++used;
  return used;
}

}  // namespace shard8::tests
