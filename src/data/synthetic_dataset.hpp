// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/dataset.hpp"

namespace shard8::data {

/// Tokens drawn uniformly from the vocabulary by a counter-based generator: token t of sequence b
/// of step s is a function of (seed, s·batch + b, t) alone. No file; it never repeats, and no
/// model can learn more from it than ln(vocab).
class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab);

  std::int64_t samples() const override { return 0; }
  std::string description() const override;
  void read(std::span<std::int32_t> out, std::int64_t step, const Slots& slots) const override;
  std::vector<std::uint64_t> histogram() const override;

 private:
  std::uint64_t seed_;
};

}  // namespace shard8::data
