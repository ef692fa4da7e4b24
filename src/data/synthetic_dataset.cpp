// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "data/synthetic_dataset.hpp"

#include <fmt/format.h>

#include "data/permutation.hpp"

namespace shard8::data {

SyntheticDataset::SyntheticDataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab)
    : Dataset({config.batch, seq, vocab}), seed_(config.seed) {}

std::string SyntheticDataset::description() const { return fmt::format("synthetic: uniform over {} tokens", vocab()); }

void SyntheticDataset::read(std::span<std::int32_t> out, std::int64_t step, const Slots& slots) const {
  require_slots(out, slots);
  auto* token = out.data();
  for (std::int64_t k = 0; k < slots.count; ++k) {
    const auto sequence = static_cast<std::uint64_t>(step * batch() + slots.first + k * slots.stride);
    const std::uint64_t key = mix64(mix64(seed_) ^ sequence);
    for (std::int64_t t = 0; t <= seq(); ++t) {
      // The high bits choose: value · vocab / 2^32 (Lemire, 2019), uniform to 2^-32 · vocab.
      const std::uint64_t value = mix64(key ^ static_cast<std::uint64_t>(t)) >> 32;
      *token++ = static_cast<std::int32_t>((value * static_cast<std::uint64_t>(vocab())) >> 32);
    }
  }
}

std::vector<std::uint64_t> SyntheticDataset::histogram() const {
  return std::vector<std::uint64_t>(static_cast<std::size_t>(vocab()), 1);
}

}  // namespace shard8::data
