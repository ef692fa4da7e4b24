// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "data/batch.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace shard8::data {

namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

Loader::Loader(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, std::int64_t data_ranks,
               std::int64_t data_rank, io::IoThread& io, const std::string& listing, Part part)
    : io_(io),
      dataset_(open_dataset(config, seq, vocab, io, listing, part)),
      data_ranks_(data_ranks),
      data_rank_(data_rank) {
  SHARD8_REQUIRE(data_rank >= 0 && data_rank < data_ranks, "data rank {} of {}", data_rank, data_ranks);
  SHARD8_REQUIRE(config.micro_batch >= 0, "data.micro_batch = {}", config.micro_batch);
  const std::int64_t most = divide_up(config.batch, data_ranks);
  micro_batch_ = config.micro_batch > 0 ? config.micro_batch : most;
  micro_batches_ = divide_up(most, micro_batch_);
}

std::int64_t Loader::sequences_in(std::int64_t step) const {
  const auto available = dataset_->sequences();
  const std::int64_t batch = dataset_->batch();
  return available ? std::clamp<std::int64_t>(*available - sequences_before(step), 0, batch) : batch;
}

std::int64_t Loader::micro_batches_in(std::int64_t step) const {
  return divide_up(divide_up(sequences_in(step), data_ranks_), micro_batch_);
}

/// The numbers, within a step, of the sequences that this rank takes.
SequenceNumbers Loader::numbers_in(std::int64_t step) const {
  return {data_rank_, std::max<std::int64_t>(0, divide_up(sequences_in(step) - data_rank_, data_ranks_)), data_ranks_};
}

Loader::~Loader() {
  if (reading_) wait();
}

/// Reads a step into next_. The I/O thread runs it.
void Loader::load(std::int64_t step) {
  const auto seq = dataset_->seq();
  const SequenceNumbers numbers = numbers_in(step);
  sequences_.resize(static_cast<std::size_t>(numbers.count * (seq + 1)));
  dataset_->read(sequences_, sequences_before(step), numbers);

  const auto size = static_cast<std::size_t>(micro_batches_ * micro_batch_ * seq);
  next_.tokens.assign(size, 0);
  next_.targets.assign(size, 0);
  next_.weights.assign(size, 0);
  for (std::int64_t k = 0; k < numbers.count; ++k) {
    const auto* const from = sequences_.data() + k * (seq + 1);
    std::copy_n(from, seq, next_.tokens.data() + k * seq);
    std::copy_n(from + 1, seq, next_.targets.data() + k * seq);
  }
  std::fill_n(next_.weights.data(), numbers.count * seq, 1.0f);
}

/// The posted function captures one pointer, so that posting it allocates nothing.
void Loader::start(std::int64_t step) {
  next_.step = step;
  done_ = false;
  reading_ = true;
  io_.post([this] {
    try {
      load(next_.step);
    } catch (...) {
      error_ = std::current_exception();
    }
    const std::scoped_lock lock(mutex_);
    done_ = true;
    read_.notify_one();
  });
}

void Loader::wait() {
  std::unique_lock lock(mutex_);
  read_.wait(lock, [this] { return done_; });
  reading_ = false;
}

void Loader::read_ahead(std::int64_t step) {
  const auto available = dataset_->sequences();
  if (!available || sequences_before(step) < *available) start(step);
}

/// Waits for the read that is under way and forgets it and its error.
void Loader::drop_read_ahead() {
  if (reading_) wait();
  error_ = nullptr;
}

void Loader::advance_to(std::int64_t step) {
  if (reading_ && next_.step != step) drop_read_ahead();
  if (!reading_) start(step);
  wait();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  std::swap(current_, next_);
  read_ahead(step + 1);
}

void Loader::begin_at(std::int64_t step, std::int64_t sequences) {
  SHARD8_REQUIRE(step >= 0 && sequences >= 0, "data from step {} on, after {} sequences", step, sequences);
  drop_read_ahead();
  current_.step = -1;
  first_step_ = step;
  sequences_before_it_ = sequences;
}

std::int64_t Loader::sequences_before(std::int64_t step) const {
  SHARD8_REQUIRE(step >= first_step_, "step {} is before the step {} with which the data begins", step, first_step_);
  return sequences_before_it_ + (step - first_step_) * dataset_->batch();
}

MicroBatch Loader::get(std::int64_t step, std::int64_t j) {
  SHARD8_REQUIRE(step >= first_step_ && j >= 0 && j < micro_batches_,
                 "micro-batch {} of {} of step {}; the data begins with step {}", j, micro_batches_, step, first_step_);
  if (current_.step != step) advance_to(step);
  const auto size = static_cast<std::size_t>(micro_batch_ * dataset_->seq());
  const auto first = static_cast<std::size_t>(j) * size;
  const auto real = std::clamp<std::int64_t>(numbers_in(step).count - j * micro_batch_, 0, micro_batch_);
  return {std::span(current_.tokens).subspan(first, size), std::span(current_.targets).subspan(first, size),
          std::span(current_.weights).subspan(first, size), real};
}

}  // namespace shard8::data
