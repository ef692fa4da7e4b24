// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "deck/config.hpp"
#include "io/digest.hpp"
#include "io/io_thread.hpp"

namespace shard8::data {

/// Numbers of `count` sequences in their step: first, first + stride, first + 2·stride, ...
struct SequenceNumbers {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t stride = 1;
};

/// Which sequences of the data a Dataset has (deck keys data.validation and data.validation_path).
enum class Part : std::uint8_t {
  training,    ///< all but the last share data.validation
  validation,  ///< the last share, or with data.validation_path all of the data there
};

/// How a stream of samples or slabs is divided.
struct Division {
  std::int64_t training = 0;    ///< [0, training) are trained
  std::int64_t validation = 0;  ///< [training, training + validation) are validated
};
/// The last V of `total` are kept for validation: V = ceil(validation·total), so at least 1 if validation > 0. A
/// product that misses an integer only by the rounding of doubles counts as this integer: 0.07·100 is 7. The caller
/// guarantees that validation is in [0, 1].
Division divide(std::int64_t total, double validation);

/// What a look at a part of the data tells of it.
struct Inspection {
  std::optional<io::Fingerprint> fingerprint;  ///< nothing for synthetic data
  std::vector<std::string> warnings;           ///< whole sentences that name the data
};

/// A function that is called during a long task and ends the task by returning false. Empty: the task goes on.
using GoesOn = std::function<bool()>;

/// The data of a training, or of its validation: a row of sequences of seq+1 tokens, numbered from 0. A step takes
/// `batch` of them. Sequence g depends on the data, its division, g, seq and seed alone. All functions may be called
/// from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  std::int64_t batch() const { return sizes_.batch; }
  std::int64_t seq() const { return sizes_.seq; }
  std::int64_t vocab() const { return sizes_.vocab; }

  /// The number of sequences that the data has; nothing if the data never ends.
  virtual std::optional<std::int64_t> sequences() const { return std::nullopt; }
  /// The number of steps of `batch` sequences that the data has, of which the last may be short; nothing if the data
  /// never ends.
  std::optional<std::int64_t> steps_available() const;

  /// One line for people: kind, path, sizes.
  virtual std::string description() const = 0;

  /// Reads the sequences `numbers` of a step into out (numbers.count, seq+1). `first_sequence` is the number in the
  /// training of the step's first sequence: sequence b of the step is sequence first_sequence + b. Error(failed) on a
  /// token outside the vocabulary (with its value and position), a negative first_sequence, a slab past the last one,
  /// slabs that are read from anywhere but the start of a slab, a file that cannot be read, numbers outside the batch,
  /// or an `out` of another size.
  virtual void read(std::span<std::int32_t> out, std::int64_t first_sequence, const SequenceNumbers& numbers) const = 0;

  /// Reads a sample of the content, at most 4 MiB of tokens or bytes (io::fingerprint_of), and checks its tokens
  /// against the vocabulary. Fingerprint::length counts bytes of text, or tokens; tokens of any integer type count as
  /// int32. Equal contents have equal digests, in any file or files of one kind. Warns if many blocks of tokens hold
  /// nothing but the HDF5 fill value. Call it on one rank. Errors are those of read().
  virtual Inspection inspect() const { return {}; }

  /// What this rank found out about many files when it opened them, for other ranks (open_dataset()). Empty for data
  /// that every rank opens.
  virtual std::string listing() const { return {}; }

  /// inspect().fingerprint.
  std::optional<io::Fingerprint> fingerprint() const { return inspect().fingerprint; }

  /// How many tokens there are of which histogram() counts all or a sample. Tokens that data.validation keeps out of a
  /// training are not counted among the training's. Synthetic data have one of each token.
  virtual std::int64_t countable() const = 0;
  /// Counts how often each token occurs among the countable() ones, or in for_counted()'s sample of them; the shape of
  /// the result is (vocab). Error(failed) on a token outside the vocabulary or a file that cannot be read. Calls
  /// `goes_on` between pieces; if it returns false, the result counts the pieces before.
  virtual std::vector<std::uint64_t> histogram(const GoesOn& goes_on = {}) const = 0;

 protected:
  struct Sizes {
    std::int64_t batch, seq, vocab;
  };
  explicit Dataset(const Sizes& sizes) : sizes_(sizes) {}

  /// Checks the arguments of read(). Error(failed) unless first_sequence >= 0, the numbers are in the batch and out has
  /// their size.
  void require_sequences(std::span<const std::int32_t> out, std::int64_t first_sequence,
                         const SequenceNumbers& numbers) const;

  /// Throws Error(failed) "where: token V is outside the vocabulary ...".
  [[noreturn]] void fail_vocabulary(const std::string& where, std::int64_t token) const;

  /// The index of the first token outside [0, vocab), or tokens.size() if there is none.
  std::size_t first_outside(std::span<const std::int32_t> tokens) const;

 private:
  Sizes sizes_;
};

/// Opens the data of the deck's group `data`, for sequences of seq tokens below vocab. `io` must outlive the dataset.
/// `listing` is that of another rank's dataset of this deck and part; empty: this rank looks itself.
/// Error(deck) when the data do not fit the deck (bytes with vocab < 256, fewer than seq+1 tokens, slabs of another
/// shape, data.validation leaves nothing to train), and when they are missing, cannot be opened or have another format:
/// input_fault() is around all of it. Error(failed) when a size is below 1.
std::unique_ptr<Dataset> open_dataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab,
                                      io::IoThread& io, const std::string& listing = {}, Part part = Part::training);

/// Runs `action` and throws its Error(failed) as Error(deck) with the same words: before the first step, what is wrong
/// with data is a fault of the input. Other errors pass.
void input_fault(const std::function<void()>& action);

/// If there are more tokens than this, histogram() counts a sample of as many. Chosen: so many tokens are 64 MiB of
/// text, and 512 MiB of integers of 64 bits.
inline constexpr std::int64_t kMostCounted = std::int64_t{64} << 20;

/// Calls visit(first, count) for pieces of the tokens [0, total): up to kMostCounted for all of them, else for a piece
/// of 256 Ki tokens at a random place of each of 256 equal strata, the same places at every call. Ends early once
/// `goes_on` returns false.
void for_counted(std::int64_t total, const GoesOn& goes_on,
                 const std::function<void(std::int64_t first, std::int64_t count)>& visit);

/// The entropy in nats of the distribution with these counts: ln(n) - sum(c·ln(c))/n with n = sum(c). The entropy is
/// the loss of the best model that ignores the context. 0 if all counts are 0.
double entropy_nats(std::span<const std::uint64_t> counts);

/// The unigram entropy, in nats, of the tokens that histogram() counts; where `goes_on` ends the reading, of those that
/// were read before. To be called on one rank.
double unigram_entropy(const Dataset& dataset, const GoesOn& goes_on = {});

}  // namespace shard8::data
