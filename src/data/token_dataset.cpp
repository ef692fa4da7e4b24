// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "data/dataset_kinds.hpp"

namespace shard8::data {

namespace {

/// Counts blocks of tokens in which HDF5's fill value stands alone: files that were never written to their end have
/// many.
class FillCount {
 public:
  explicit FillCount(std::optional<std::int32_t> fill) : fill_(fill) {}

  void add(std::span<const std::int32_t> tokens) {
    while (!tokens.empty()) {
      const auto block = tokens.first(std::min(kBlock, tokens.size()));
      ++blocks_;
      if (std::all_of(block.begin(), block.end(), [this](std::int32_t token) { return token == fill_; })) ++filled_;
      tokens = tokens.subspan(block.size());
    }
  }

  std::vector<std::string> warnings(const std::string& spec) const {
    if (!fill_ || filled_ < 2 || filled_ * 100 <= blocks_) return {};
    return {
        fmt::format("'{}': {} of {} sampled blocks of 1,024 tokens hold only the fill value {}: was the file "
                    "written to its end?",
                    spec, filled_, blocks_, *fill_)};
  }

 private:
  static constexpr std::size_t kBlock = 1024;  // tokens in a block of io::fingerprint_of()

  std::optional<std::int32_t> fill_;
  std::int64_t blocks_ = 0, filled_ = 0;
};

/// Dataset::inspect() of all elements of a file. Calls check(tokens, first), which throws if one is outside the
/// vocabulary, with the index of the first token.
template <class Check>
Inspection inspect_tokens(const io::TokenFile& file, std::int64_t samples, Check&& check) {
  FillCount fill(file.fill_value());
  std::vector<std::int32_t> tokens;
  const auto read = [&](std::uint64_t offset, std::span<std::byte> out) {
    const auto first = static_cast<std::int64_t>(offset / sizeof(std::int32_t));
    tokens.resize(out.size() / sizeof(std::int32_t));
    file.read_flat(tokens, first);
    check(std::span<const std::int32_t>(tokens), first);
    fill.add(tokens);
    std::memcpy(out.data(), tokens.data(), out.size());
  };
  const auto bytes = static_cast<std::uint64_t>(file.elements()) * sizeof(std::int32_t);
  const auto print = io::fingerprint_of(bytes, read, {sizeof(std::int32_t), samples, {}});
  return {print, fill.warnings(file.spec())};
}

/// Dataset::histogram() of the first `elements` of the file. Calls outside(index, token), which must throw, for a token
/// outside the vocabulary.
template <class Outside>
std::vector<std::uint64_t> count_tokens(const io::TokenFile& file, std::int64_t elements, std::int64_t vocab,
                                        const GoesOn& goes_on, Outside&& outside) {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(vocab));
  std::vector<std::int32_t> tokens;
  for_counted(elements, goes_on, [&](std::int64_t first, std::int64_t count) {
    tokens.resize(static_cast<std::size_t>(count));
    file.read_flat(tokens, first);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < 0 || tokens[i] >= vocab) outside(first + static_cast<std::int64_t>(i), tokens[i]);
      ++counts[static_cast<std::size_t>(tokens[i])];
    }
  });
  return counts;
}

std::string stream_position(const io::TokenFile& file, std::int64_t position) {
  return fmt::format("'{}': position {}", file.spec(), position);
}

std::string slab_position(const io::TokenFile& file, std::int64_t slab, std::int64_t sequence, std::int64_t position) {
  return fmt::format("'{}': slab {}, sequence {}, position {}", file.spec(), slab, sequence, position);
}

}  // namespace

std::unique_ptr<Dataset> open_token_dataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab,
                                            Part part, io::IoThread& io) {
  auto file = std::make_unique<io::TokenFile>(io, config.path);
  const auto& shape = file->shape();
  if (shape.size() == 1) {
    return std::make_unique<TokenStream>(config, seq, vocab, part, std::move(file));
  }
  if (shape.size() == 3) return std::make_unique<TokenSlabs>(config, seq, vocab, part, std::move(file));
  base::fail(base::ExitCode::deck,
             "'{}': has {} dimensions (shape ({})); allowed are one (a stream of tokens) and three "
             "(steps, data.batch, model.seq + 1)",
             config.path, shape.size(), fmt::join(shape, ", "));
}

TokenStream::TokenStream(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, Part part,
                         std::unique_ptr<io::TokenFile> file)
    : StreamDataset(config, seq, vocab, part, file->elements()), file_(std::move(file)) {}

std::string TokenStream::description() const {
  return fmt::format("tokens of '{}': a stream of {}, {}", file_->spec(), length(), samples_text());
}

void TokenStream::read_tokens(std::span<std::int32_t> out, std::int64_t first) const {
  const io::Range range{first, static_cast<std::int64_t>(out.size()), 1};
  file_->read(out, std::span(&range, 1));
  const auto bad = first_outside(out);
  if (bad < out.size()) {
    fail_vocabulary(stream_position(*file_, first + static_cast<std::int64_t>(bad)), out[bad]);
  }
}

Inspection TokenStream::inspect() const {
  return inspect_tokens(*file_, samples(), [this](std::span<const std::int32_t> tokens, std::int64_t first) {
    const auto bad = first_outside(tokens);
    if (bad < tokens.size())
      fail_vocabulary(stream_position(*file_, first + static_cast<std::int64_t>(bad)), tokens[bad]);
  });
}

std::vector<std::uint64_t> TokenStream::histogram(const GoesOn& goes_on) const {
  return count_tokens(*file_, countable(), vocab(), goes_on, [this](std::int64_t index, std::int32_t token) {
    fail_vocabulary(stream_position(*file_, index), token);
  });
}

TokenSlabs::TokenSlabs(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, Part part,
                       std::unique_ptr<io::TokenFile> file)
    : Dataset({config.batch, seq, vocab}), part_(part), file_(std::move(file)) {
  const auto& shape = file_->shape();
  if (shape[1] != config.batch || shape[2] != seq + 1) {
    base::fail(base::ExitCode::deck,
               "'{}': has shape ({}), slabs of {} sequences of {} tokens, but data.batch = {} and "
               "model.seq + 1 = {}; set data.batch = {} and model.seq = {}",
               file_->spec(), fmt::join(shape, ", "), shape[1], shape[2], config.batch, seq + 1, shape[1],
               shape[2] - 1);
  }
  if (steps() == 0)
    base::fail(base::ExitCode::deck, "'{}': holds no tokens (shape ({})); give other data in {}", file_->spec(),
               fmt::join(shape, ", "), path_key(config, part));
  division_ = divide_for_training(steps(), config, file_->spec(), "slabs");
}

std::string TokenSlabs::description() const {
  return fmt::format("tokens of '{}': {} slabs of {} sequences of {} + 1 tokens{}", file_->spec(), own(), batch(),
                     seq(), validation_text(division_, part_));
}

void TokenSlabs::read(std::span<std::int32_t> out, std::int64_t first_sequence, const SequenceNumbers& numbers) const {
  require_sequences(out, first_sequence, numbers);
  if (first_sequence % batch() != 0) {
    base::fail(base::ExitCode::failed,
               "'{}': a step begins with sequence {} of the training, which is inside a slab of {} sequences; steps "
               "before it had another data.batch: go on with that one, or give the tokens as a stream (one dimension)",
               file_->spec(), first_sequence, batch());
  }
  const std::int64_t number = first_sequence / batch();
  if (number >= own()) {
    base::fail(base::ExitCode::failed,
               "'{}': a step needs slab {} (counted from 0), but there are {} slabs{}; lower run.steps", file_->spec(),
               number, own(), validation_text(division_, part_));
  }
  const std::int64_t slab = number + (part_ == Part::validation ? division_.training : 0);
  const std::array<io::Range, 3> ranges = {
      {{slab, 1, 1}, {numbers.first, numbers.count, numbers.stride}, {0, seq() + 1, 1}}};
  file_->read(out, ranges);
  const auto bad = first_outside(out);
  if (bad < out.size()) {
    const auto at = static_cast<std::int64_t>(bad);
    const auto sequence = numbers.first + at / (seq() + 1) * numbers.stride;
    fail_vocabulary(slab_position(*file_, slab, sequence, at % (seq() + 1)), out[bad]);
  }
}

/// The place of an element of the file, counted in row-major order, for messages.
std::string TokenSlabs::position_of(std::int64_t index) const {
  const auto width = seq() + 1;
  return slab_position(*file_, index / (batch() * width), index / width % batch(), index % width);
}

Inspection TokenSlabs::inspect() const {
  return inspect_tokens(*file_, steps() * batch(), [this](std::span<const std::int32_t> tokens, std::int64_t first) {
    const auto bad = first_outside(tokens);
    if (bad < tokens.size()) fail_vocabulary(position_of(first + static_cast<std::int64_t>(bad)), tokens[bad]);
  });
}

std::vector<std::uint64_t> TokenSlabs::histogram(const GoesOn& goes_on) const {
  return count_tokens(*file_, countable(), vocab(), goes_on,
                      [this](std::int64_t index, std::int32_t token) { fail_vocabulary(position_of(index), token); });
}

}  // namespace shard8::data
