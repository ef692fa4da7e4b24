// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "deck/config.hpp"
#include "io/io_thread.hpp"

namespace shard8::data {

/// Sequences first, first + stride, ... (count of them) of a step.
struct Slots {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t stride = 1;
};

/// What training reads: at step s, sequences 0 to batch-1 of seq+1 tokens. They depend on the data,
/// the step, batch, seq and seed alone. Calls are safe from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  std::int64_t batch() const { return sizes_.batch; }
  std::int64_t seq() const { return sizes_.seq; }
  std::int64_t vocab() const { return sizes_.vocab; }

  /// Different sequences there are; 0 when they never repeat.
  virtual std::int64_t samples() const = 0;

  /// Steps that the data is good for; none: any number.
  virtual std::optional<std::int64_t> steps_available() const { return std::nullopt; }

  /// One line for people: kind, path, sizes.
  virtual std::string description() const = 0;

  /// Reads sequences of a step: out (count, seq+1). Error(failed) on a token outside the
  /// vocabulary (with its value and position), a step past the last one, a fault of the file.
  virtual void read(std::span<std::int32_t> out, std::int64_t step, const Slots& slots) const = 0;

  /// How often each token (vocab) is in the whole data, which is read once, piece by piece. For
  /// synthetic data, 1 each.
  virtual std::vector<std::uint64_t> histogram() const = 0;

 protected:
  struct Sizes {
    std::int64_t batch, seq, vocab;
  };
  explicit Dataset(const Sizes& sizes) : sizes_(sizes) {}

  /// The buffer and slots of read(), checked.
  void require_slots(std::span<const std::int32_t> out, const Slots& slots) const;

  /// Error(failed) "where: token V ... ".
  [[noreturn]] void fail_vocabulary(const std::string& where, std::int64_t token) const;

  /// Index of the first token outside [0, vocab), or tokens.size().
  std::size_t first_outside(std::span<const std::int32_t> tokens) const;

 private:
  Sizes sizes_;
};

/// Opens what the deck's group data asks for, for sequences of seq tokens below vocab. Error(deck)
/// when data and deck do not go together: bytes with vocab < 256, fewer than seq+1 tokens, slabs of
/// another shape, no such file.
std::unique_ptr<Dataset> open_dataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab,
                                      io::IoThread& io);

}  // namespace shard8::data
