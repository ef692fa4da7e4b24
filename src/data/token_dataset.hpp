// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/dataset.hpp"
#include "data/stream_dataset.hpp"
#include "io/token_file.hpp"

namespace shard8::data {

/// A dataset of one dimension (a stream) or of three (slabs), as its shape says; Error(deck) for
/// any other.
std::unique_ptr<Dataset> open_token_dataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab,
                                            io::IoThread& io);

/// Tokens (L) as one stream.
class TokenStream final : public StreamDataset {
 public:
  TokenStream(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab,
              std::unique_ptr<io::TokenFile> file);

  std::string description() const override;
  std::vector<std::uint64_t> histogram() const override;

 private:
  void read_tokens(std::span<std::int32_t> out, std::int64_t first) const override;

  std::unique_ptr<io::TokenFile> file_;
};

/// Tokens (steps, batch, seq+1), consumed as they are: step s is slab s.
class TokenSlabs final : public Dataset {
 public:
  /// Error(deck) unless the slabs are (config.batch, seq+1).
  TokenSlabs(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, std::unique_ptr<io::TokenFile> file);

  std::int64_t samples() const override { return steps() * batch(); }
  std::optional<std::int64_t> steps_available() const override { return steps(); }
  std::string description() const override;
  void read(std::span<std::int32_t> out, std::int64_t step, const Slots& slots) const override;
  std::vector<std::uint64_t> histogram() const override;

 private:
  std::int64_t steps() const { return file_->shape()[0]; }

  std::unique_ptr<io::TokenFile> file_;
};

}  // namespace shard8::data
