// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "data/dataset_kinds.hpp"

namespace shard8::data {

void Dataset::require_sequences(std::span<const std::int32_t> out, std::int64_t first_sequence,
                                const SequenceNumbers& numbers) const {
  SHARD8_REQUIRE(first_sequence >= 0, "a step from sequence {} on", first_sequence);
  const auto& [first, count, stride] = numbers;
  SHARD8_REQUIRE(first >= 0 && count >= 0 && stride >= 1 && (count == 0 || first + (count - 1) * stride < sizes_.batch),
                 "{} sequences from {} in steps of {}, of a batch of {}", count, first, stride, sizes_.batch);
  SHARD8_REQUIRE(static_cast<std::int64_t>(out.size()) == count * (sizes_.seq + 1),
                 "{} sequences of {} tokens into a buffer of {}", count, sizes_.seq + 1, out.size());
}

std::optional<std::int64_t> Dataset::steps_available() const {
  const auto available = sequences();
  if (!available) return std::nullopt;
  return (*available + batch() - 1) / batch();
}

Division divide(std::int64_t total, double validation) {
  constexpr double kRounding = 4 * std::numeric_limits<double>::epsilon();
  const double share = validation * static_cast<double>(total);
  const auto kept = static_cast<std::int64_t>(std::ceil(share * (1 - kRounding)));
  return {total - kept, kept};
}

std::string_view path_key(const deck::DataConfig& config, Part part) {
  return part == Part::validation && !config.validation_path.empty() ? "data.validation_path" : "data.path";
}

std::string validation_text(const Division& division, Part part) {
  if (part == Part::validation) return division.training > 0 ? ", the last of the data" : "";
  return division.validation > 0 ? fmt::format(", and {} more for validation", division.validation) : "";
}

Division divide_for_training(std::int64_t total, const deck::DataConfig& config, std::string_view name,
                             std::string_view noun) {
  const Division division = divide(total, config.validation);
  if (division.training > 0 || config.validation >= 1) return division;
  const double most = std::floor(1e6 * static_cast<double>(total - 1) / static_cast<double>(total)) / 1e6;
  const auto remedy =
      total > 1 ? fmt::format("set data.validation to at most {:.6g}", most) : std::string("set data.validation to 0");
  base::fail(base::ExitCode::deck,
             "'{}': data.validation = {} keeps ceil({} * {}) = {} of {} {} for validation, and none is left for "
             "training; {}, or give more data in data.path",
             name, config.validation, config.validation, total, division.validation, total, noun, remedy);
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
                                   io::IoThread& io, const std::string& listing, Part part) {
  switch (config.kind) {
    case deck::DataKind::bytes:
      return std::make_unique<BytesDataset>(config, seq, vocab, part, listing);
    case deck::DataKind::tokens:
      return open_token_dataset(config, seq, vocab, part, io);
    case deck::DataKind::synthetic:
      break;
  }
  return std::make_unique<SyntheticDataset>(config, seq, vocab, part);
}

/// The deck's data as the part reads it: data of a path of its own are validated as a whole.
deck::DataConfig config_of(deck::DataConfig config, Part part) {
  if (part == Part::training || config.validation_path.empty()) return config;
  config.path = config.validation_path;
  config.validation = 1;
  return config;
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab,
                                      io::IoThread& io, const std::string& listing, Part part) {
  SHARD8_REQUIRE(config.batch >= 1 && seq >= 1 && vocab >= 1,
                 "data.batch = {}, model.seq = {}, model.vocab = {}: all must be at least 1", config.batch, seq, vocab);
  std::unique_ptr<Dataset> out;
  input_fault([&] { out = open_kind(config_of(config, part), seq, vocab, io, listing, part); });
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

void for_counted(std::int64_t total, const GoesOn& goes_on,
                 const std::function<void(std::int64_t first, std::int64_t count)>& visit) {
  constexpr std::int64_t kPieces = 256;
  const bool all = total <= kMostCounted;
  const std::int64_t most = all ? std::int64_t{4} << 20 : kMostCounted / kPieces;  // chosen: bounds memory
  const std::int64_t pieces = all ? (total + most - 1) / most : kPieces;
  for (std::int64_t i = 0; i < pieces; ++i) {
    std::int64_t first = i * most;
    if (!all) {
      const std::int64_t rest = total % kPieces;  // the first ones of the strata have a token more
      const std::int64_t length = total / kPieces + (i < rest ? 1 : 0);
      const auto places = static_cast<std::uint64_t>(length - most + 1);
      first = total / kPieces * i + std::min(i, rest) +
              static_cast<std::int64_t>(base::mix64(static_cast<std::uint64_t>(i)) % places);
    }
    visit(first, std::min(most, total - first));
    if (goes_on && !goes_on()) return;
  }
}

double unigram_entropy(const Dataset& dataset, const GoesOn& goes_on) {
  return entropy_nats(dataset.histogram(goes_on));
}

Permutation::Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(static_cast<std::uint64_t>(size)) {
  SHARD8_REQUIRE(size >= 1, "a permutation of {} elements", size);
  const int bits = std::bit_width(size_ - 1);
  low_bits_ = (bits + 1) / 2;
  low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
  high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
  std::uint64_t key = base::mix64(base::mix64(seed) ^ epoch);
  for (auto& round : keys_) {
    key = base::mix64(key);
    round = key;
  }
}

std::uint64_t Permutation::shuffle(std::uint64_t x) const {
  std::uint64_t low = x & low_mask_;
  std::uint64_t high = x >> low_bits_;
  // Each half in turn is xored with a function of the other half. The same xor reverts a round, so the rounds together
  // are a bijection.
  for (int round = 0; round < kRounds; round += 2) {
    low ^= base::mix64(high ^ keys_[static_cast<std::size_t>(round)]) & low_mask_;
    high ^= base::mix64(low ^ keys_[static_cast<std::size_t>(round) + 1]) & high_mask_;
  }
  return (high << low_bits_) | low;
}

std::int64_t Permutation::operator()(std::int64_t i) const {
  SHARD8_REQUIRE(i >= 0 && static_cast<std::uint64_t>(i) < size_, "element {} of {}", i, size_);
  auto x = static_cast<std::uint64_t>(i);
  do {
    x = shuffle(x);
  } while (x >= size_);
  return static_cast<std::int64_t>(x);
}

StreamDataset::StreamDataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, Part part,
                             std::int64_t length)
    : Dataset({config.batch, seq, vocab}),
      part_(part),
      seed_(config.seed),
      length_(length),
      samples_(length > 0 ? (length - 1) / seq : 0) {
  if (samples_ == 0) {
    base::fail(base::ExitCode::deck,
               "'{}': holds {} tokens, but {} needs at least seq+1 = {} (model.seq = {}); "
               "give more data in {} or a smaller model.seq",
               config.path, length, part == Part::validation ? "validation" : "training", seq + 1, seq,
               path_key(config, part));
  }
  division_ = divide_for_training(samples_, config, config.path, "samples");
}

std::optional<std::int64_t> StreamDataset::sequences() const {
  return part_ == Part::validation ? std::optional(division_.validation) : std::nullopt;
}

std::int64_t StreamDataset::countable() const {
  const bool shared = part_ == Part::training && division_.validation > 0;
  return shared ? division_.training * seq() + 1 : length_;
}

std::string StreamDataset::samples_text() const {
  const std::int64_t own = part_ == Part::validation ? division_.validation : division_.training;
  return fmt::format("{} samples of {} tokens{}", own, seq(), validation_text(division_, part_));
}

/// Where sequence `number` of the part lies in the stream, as the number of a sample.
std::int64_t StreamDataset::sample_of(std::int64_t number) const {
  if (part_ == Part::validation) {
    SHARD8_REQUIRE(number < division_.validation, "sequence {} of {} for validation", number, division_.validation);
    return division_.training + number;
  }
  const Permutation order(division_.training, seed_, static_cast<std::uint64_t>(number / division_.training));
  return order(number % division_.training);
}

void StreamDataset::read(std::span<std::int32_t> out, std::int64_t first_sequence,
                         const SequenceNumbers& numbers) const {
  require_sequences(out, first_sequence, numbers);
  const auto width = static_cast<std::size_t>(seq() + 1);
  for (std::int64_t k = 0; k < numbers.count; ++k) {
    const std::int64_t sample = sample_of(first_sequence + numbers.first + k * numbers.stride);
    read_tokens(out.subspan(static_cast<std::size_t>(k) * width, width), sample * seq());
  }
}

SyntheticDataset::SyntheticDataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, Part part)
    : Dataset({config.batch, seq, vocab}),
      seed_(config.seed),
      first_(part == Part::validation ? std::uint64_t{1} << 63 : 0) {}

std::string SyntheticDataset::description() const { return fmt::format("synthetic: uniform over {} tokens", vocab()); }

void SyntheticDataset::read(std::span<std::int32_t> out, std::int64_t first_sequence,
                            const SequenceNumbers& numbers) const {
  require_sequences(out, first_sequence, numbers);
  auto* token = out.data();
  for (std::int64_t k = 0; k < numbers.count; ++k) {
    const auto sequence = first_ + static_cast<std::uint64_t>(first_sequence + numbers.first + k * numbers.stride);
    const std::uint64_t key = base::mix64(base::mix64(seed_) ^ sequence);
    for (std::int64_t t = 0; t <= seq(); ++t) {
      // The token is floor(value · vocab / 2^32), value from the high 32 bits (Lemire, 2019); uniform to 2^-32 · vocab.
      const std::uint64_t value = base::mix64(key ^ static_cast<std::uint64_t>(t)) >> 32;
      *token++ = static_cast<std::int32_t>((value * static_cast<std::uint64_t>(vocab())) >> 32);
    }
  }
}

std::vector<std::uint64_t> SyntheticDataset::histogram(const GoesOn& /*goes_on*/) const {
  return std::vector<std::uint64_t>(static_cast<std::size_t>(vocab()), 1);
}

}  // namespace shard8::data
