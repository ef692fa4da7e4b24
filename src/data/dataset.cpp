// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "data/dataset_kinds.hpp"

namespace shard8::data {

void Dataset::require_slots(std::span<const std::int32_t> out, std::int64_t first_sequence, const Slots& slots) const {
  SHARD8_REQUIRE(first_sequence >= 0, "a step from sequence {} on", first_sequence);
  const auto& [first, count, stride] = slots;
  SHARD8_REQUIRE(first >= 0 && count >= 0 && stride >= 1 && (count == 0 || first + (count - 1) * stride < sizes_.batch),
                 "{} sequences from {} in steps of {}, of a batch of {}", count, first, stride, sizes_.batch);
  SHARD8_REQUIRE(static_cast<std::int64_t>(out.size()) == count * (sizes_.seq + 1),
                 "{} sequences of {} tokens into a buffer of {}", count, sizes_.seq + 1, out.size());
}

std::size_t Dataset::first_outside(std::span<const std::int32_t> tokens) const {
  const auto found = std::find_if(tokens.begin(), tokens.end(),
                                  [this](std::int32_t token) { return token < 0 || token >= sizes_.vocab; });
  return static_cast<std::size_t>(found - tokens.begin());
}

void Dataset::fail_vocabulary(const std::string& where, std::int64_t token) const {
  base::fail(base::ExitCode::failed,
             "{}: token {} is outside the vocabulary, which is 0 to {} (model.vocab = {}); set "
             "model.vocab to that of the tokenizer that made the data",
             where, token, sizes_.vocab - 1, sizes_.vocab);
}

void input_fault(const std::function<void()>& action) {
  try {
    action();
  } catch (const base::Error& error) {
    if (error.code() != base::ExitCode::failed) throw;
    throw base::Error(base::ExitCode::deck, error.what());
  }
}

namespace {

std::unique_ptr<Dataset> open_kind(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab,
                                   io::IoThread& io, const std::string& listing) {
  switch (config.kind) {
    case deck::DataKind::bytes:
      return std::make_unique<BytesDataset>(config, seq, vocab, listing);
    case deck::DataKind::tokens:
      return open_token_dataset(config, seq, vocab, io);
    case deck::DataKind::synthetic:
      break;
  }
  return std::make_unique<SyntheticDataset>(config, seq, vocab);
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab,
                                      io::IoThread& io, const std::string& listing) {
  SHARD8_REQUIRE(config.batch >= 1 && seq >= 1 && vocab >= 1,
                 "data.batch = {}, model.seq = {}, model.vocab = {}: all must be at least 1", config.batch, seq, vocab);
  std::unique_ptr<Dataset> out;
  input_fault([&] { out = open_kind(config, seq, vocab, io, listing); });
  return out;
}

double entropy_nats(std::span<const std::uint64_t> counts) {
  // The two terms nearly cancel if many tokens are about equally frequent, so the sums are in long double.
  long double total = 0.0L;
  long double weighted = 0.0L;
  for (const auto count : counts) {
    if (count == 0) continue;
    const auto c = static_cast<long double>(count);
    total += c;
    weighted += c * std::log(c);
  }
  return total > 0.0L ? static_cast<double>(std::log(total) - weighted / total) : 0.0;
}

double unigram_entropy(const Dataset& dataset) { return entropy_nats(dataset.histogram()); }

}  // namespace shard8::data
