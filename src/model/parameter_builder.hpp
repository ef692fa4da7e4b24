// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/parameters.hpp"

namespace shard8::model {

/// Cuts the parameters of Hugging Face tensors for one tensor rank.
struct ParameterBuilder {
  int tensor = 1, rank = 0;
  bool stored_transposed = false;  ///< GPT-2 keeps its projections (in, out)
  double standard_deviation = 0.02;

  /// Parts of a column-parallel weight: each (out, in) cut on its rows, stacked.
  struct Part {
    std::string name;
    std::int64_t out = 0;         ///< rows of this part over all ranks
    std::int64_t first = 0;       ///< its first row inside the tensor `name`
    std::int64_t global_out = 0;  ///< rows of the tensor `name`
  };
  ParameterSpec column_parallel(std::string name, const std::vector<Part>& parts, std::int64_t in) const;
  ParameterSpec column_parallel_bias(std::string name, const std::vector<Part>& parts) const;
  /// (out, in) cut on its columns.
  ParameterSpec row_parallel(std::string name, const std::string& source, std::int64_t out, std::int64_t in) const;
  /// (vocab, hidden) cut on its rows, the last rank's padded.
  ParameterSpec vocabulary(std::string name, const std::string& source, std::int64_t vocab, std::int64_t hidden) const;
  /// A vector that every tensor rank holds.
  ParameterSpec replicated_vector(std::string name, const std::string& source, std::int64_t size,
                                  Initial initial) const;
  /// A matrix that every tensor rank holds.
  ParameterSpec replicated_matrix(std::string name, const std::string& source, std::int64_t rows,
                                  std::int64_t cols) const;
};

UnitSpec llama_layer(const deck::ModelConfig& model, const ParameterBuilder& build, std::int64_t layer);
UnitSpec gpt2_layer(const deck::ModelConfig& model, const ParameterBuilder& build, std::int64_t layer);

}  // namespace shard8::model
