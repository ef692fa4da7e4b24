// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/dataset.hpp"

namespace shard8::data {

/// A stream of L tokens cut into N = (L-1)/seq samples: sample i is tokens [i·seq, i·seq + seq],
/// seq inputs and their successors. Sequence b of step s is number g = s·batch + b of an endless
/// row of epochs: sample permutation(g mod N) of epoch g / N, each epoch in an order of its own.
class StreamDataset : public Dataset {
 public:
  std::int64_t samples() const final { return samples_; }
  void read(std::span<std::int32_t> out, std::int64_t step, const Slots& slots) const final;

 protected:
  /// `name` is what the stream was read from. Error(deck) when it is too short for one sample.
  StreamDataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, std::int64_t length,
                const std::string& name);

  std::int64_t length() const { return length_; }

  /// "N samples of S tokens".
  std::string samples_text() const;

 private:
  /// Tokens [first, first + out.size()) of the stream, each checked against the vocabulary.
  virtual void read_tokens(std::span<std::int32_t> out, std::int64_t first) const = 0;

  std::uint64_t seed_;
  std::int64_t length_;
  std::int64_t samples_;
};

}  // namespace shard8::data
