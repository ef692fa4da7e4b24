// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "deck/config.hpp"

namespace shard8::model {

/// What a parameter is in its unit. Matrices are (out, in).
enum class Slot : std::uint8_t {
  table,      ///< embedding unit: rows of the vocabulary; a tied table is the root's head
  positions,  ///< embedding unit, gpt2
  norm1_weight,
  norm1_bias,
  qkv_weight,
  qkv_bias,
  proj_weight,
  proj_bias,
  norm2_weight,
  norm2_bias,
  fc1_weight,
  fc1_bias,
  fc2_weight,
  fc2_bias,
  norm_weight,  ///< root unit: the final norm
  norm_bias,
  head,  ///< root unit: rows of the vocabulary
};

namespace slots {
inline constexpr std::array kTable{Slot::table};
inline constexpr std::array kPositions{Slot::positions};
inline constexpr std::array kTableAndPositions{Slot::table, Slot::positions};
inline constexpr std::array kLlamaLayer{Slot::norm1_weight, Slot::qkv_weight, Slot::proj_weight,
                                        Slot::norm2_weight, Slot::fc1_weight, Slot::fc2_weight};
inline constexpr std::array kGpt2Layer{Slot::norm1_weight, Slot::norm1_bias, Slot::qkv_weight,   Slot::qkv_bias,
                                       Slot::proj_weight,  Slot::proj_bias,  Slot::norm2_weight, Slot::norm2_bias,
                                       Slot::fc1_weight,   Slot::fc1_bias,   Slot::fc2_weight,   Slot::fc2_bias};
inline constexpr std::array kLlamaRoot{Slot::norm_weight, Slot::head};
inline constexpr std::array kGpt2Root{Slot::norm_weight, Slot::norm_bias, Slot::head};
}  // namespace slots

/// The parameters of each kind of unit, in the order in which the unit keeps them.
constexpr std::span<const Slot> embedding_slots(const deck::ModelConfig& model) {
  const bool gpt2 = model.arch == deck::Arch::gpt2;
  if (model.tie_embeddings) return gpt2 ? std::span<const Slot>(slots::kPositions) : std::span<const Slot>();
  return gpt2 ? std::span<const Slot>(slots::kTableAndPositions) : std::span<const Slot>(slots::kTable);
}
constexpr std::span<const Slot> layer_slots(deck::Arch arch) {
  return arch == deck::Arch::gpt2 ? std::span<const Slot>(slots::kGpt2Layer)
                                  : std::span<const Slot>(slots::kLlamaLayer);
}
constexpr std::span<const Slot> root_slots(deck::Arch arch) {
  return arch == deck::Arch::gpt2 ? std::span<const Slot>(slots::kGpt2Root) : std::span<const Slot>(slots::kLlamaRoot);
}

/// Finds the entry of a slot in a list with one entry for each parameter of a unit: its weights or gradients. Both
/// spans must outlive it.
template <class T>
class BySlot {
 public:
  /// Throws Error(failed) unless there is one entry for each slot.
  BySlot(std::span<const Slot> slots, std::span<const T> entries) : slots_(slots), entries_(entries) {
    SHARD8_REQUIRE(slots.size() == entries.size(), "a unit of {} parameters has {} entries", slots.size(),
                   entries.size());
  }
  /// T{} if the unit has no such parameter.
  T operator[](Slot slot) const {
    const auto found = std::find(slots_.begin(), slots_.end(), slot);
    return found == slots_.end() ? T{} : entries_[static_cast<std::size_t>(found - slots_.begin())];
  }

 private:
  std::span<const Slot> slots_;
  std::span<const T> entries_;
};

}  // namespace shard8::model
