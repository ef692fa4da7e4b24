// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "data/dataset.hpp"
#include "deck/config.hpp"
#include "io/io_thread.hpp"

namespace shard8::data {

/// The sequences that a data rank computes at once: mb sequences of seq tokens, each array (mb, seq) row-major.
/// Sequences that the batch does not fill are padding, with token 0, target 0 and weight 0; they come last.
struct MicroBatch {
  std::span<const std::int32_t> tokens;
  std::span<const std::int32_t> targets;  ///< the token after each token
  std::span<const float> weights;         ///< the weight of each token in the loss: 1, and 0 in padding
  std::int64_t sequences = 0;             ///< the number of sequences that are not padding
};

/// Loads the sequences of one data rank, one step ahead on the I/O thread. Data rank p of P takes sequences p, p+P, ...
/// of each step in order. Every rank has the same number of micro-batches in a step. One thread may use it. A
/// loader of data for validation calls the batches of a validation steps; its last step may have fewer sequences.
class Loader {
 public:
  /// Opens the data, and reads none of it yet. config.micro_batch = 0 means all sequences of the rank. `io` must
  /// outlive the loader. `listing` and `part` as for open_dataset(). Errors are those of open_dataset(), and
  /// Error(failed) unless 0 <= data_rank < data_ranks.
  Loader(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, std::int64_t data_ranks,
         std::int64_t data_rank, io::IoThread& io, const std::string& listing = {}, Part part = Part::training);
  /// Waits for the end of the read that is under way.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Dataset& dataset() const { return *dataset_; }

  /// Sequences in a micro-batch, padding included.
  std::int64_t micro_batch() const { return micro_batch_; }
  /// Micro-batches in a step: ceil(batch / (P·micro_batch)).
  std::int64_t micro_batches() const { return micro_batches_; }
  /// Real sequences of a step over all data ranks: fewer than the batch only where the data ends within it.
  std::int64_t sequences_in(std::int64_t step) const;
  /// The first micro-batches of a step, the same number on every rank; those behind them are padding on all ranks.
  std::int64_t micro_batches_in(std::int64_t step) const;
  /// Real tokens in a step of training over all data ranks: batch·seq.
  std::int64_t tokens_per_step() const { return dataset_->batch() * dataset_->seq(); }

  /// Sets the origin of the data cursor: before step `step` the training has used `sequences` sequences. Without a call
  /// the origin is (0, 0). A restarted run calls it before its first get(). The call drops what was loaded or read
  /// ahead. Error(failed) if one of the two is negative.
  void begin_at(std::int64_t step, std::int64_t sequences);

  /// The sequences that the training has used before a step: sequences + (step - origin)·batch. The result is the
  /// number of the step's first sequence. Error(failed) for a step before the origin, where another batch may have been
  /// in use.
  std::int64_t sequences_before(std::int64_t step) const;

  /// Micro-batch j of step s; j is from 0, s from the origin of begin_at(). The first call for a step waits for the
  /// step's data and starts to read step s+1, if the data has it. Steps may be requested in any order, but only the
  /// step after the last one is read ahead. The spans are valid until the next call for another step or of begin_at().
  /// Errors of reading step s are thrown here, those of Dataset::read().
  MicroBatch get(std::int64_t step, std::int64_t j);

 private:
  struct Step {
    std::int64_t step = -1;
    std::vector<std::int32_t> tokens, targets;  // (micro_batches, mb, seq)
    std::vector<float> weights;
  };

  SequenceNumbers numbers_in(std::int64_t step) const;
  void load(std::int64_t step);
  void advance_to(std::int64_t step);
  void drop_read_ahead();
  void read_ahead(std::int64_t step);
  void start(std::int64_t step);
  void wait();

  io::IoThread& io_;
  std::unique_ptr<Dataset> dataset_;
  std::int64_t data_ranks_ = 1, data_rank_ = 0;
  std::int64_t micro_batch_ = 0;
  std::int64_t micro_batches_ = 0;
  std::int64_t first_step_ = 0;           // the origin of the data cursor,
  std::int64_t sequences_before_it_ = 0;  // see begin_at()
  Step current_, next_;                   // both keep their memory from step to step
  std::vector<std::int32_t> sequences_;   // (count, seq+1), as they are read
  // From start() until wait() the I/O thread alone uses next_, sequences_ and error_.
  bool reading_ = false;
  std::exception_ptr error_;
  std::mutex mutex_;
  std::condition_variable read_;
  bool done_ = false;  // guarded by mutex_
};

}  // namespace shard8::data
