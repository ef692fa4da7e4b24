// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/parameter_builder.hpp"

#include "model/dims.hpp"

namespace shard8::model {

ParameterSpec ParameterBuilder::column_parallel(std::string name, const std::vector<Part>& parts,
                                                std::int64_t in) const {
  ParameterSpec p;
  p.name = std::move(name);
  p.cols = in;
  p.gradient_overwritten = true;
  p.standard_deviation = standard_deviation;
  for (const Part& part : parts) {
    const std::int64_t rows = part.out / tensor;
    p.boxes.push_back(
        {part.name, p.rows, rows, part.first + rank * rows, 0, in, part.global_out, in, stored_transposed});
    p.rows += rows;
  }
  return p;
}

ParameterSpec ParameterBuilder::column_parallel_bias(std::string name, const std::vector<Part>& parts) const {
  ParameterSpec p;
  p.name = std::move(name);
  p.vector = true;
  p.initial = Initial::zeros;
  for (const Part& part : parts) {
    const std::int64_t rows = part.out / tensor;
    p.boxes.push_back({part.name, p.rows, rows, part.first + rank * rows, 0, 1, part.global_out, 1, false});
    p.rows += rows;
  }
  return p;
}

ParameterSpec ParameterBuilder::row_parallel(std::string name, const std::string& source, std::int64_t out,
                                             std::int64_t in) const {
  ParameterSpec p;
  p.name = std::move(name);
  p.rows = out;
  p.cols = in / tensor;
  p.gradient_overwritten = true;
  p.standard_deviation = standard_deviation;
  p.boxes.push_back({source, 0, out, 0, rank * p.cols, p.cols, out, in, stored_transposed});
  return p;
}

ParameterSpec ParameterBuilder::vocabulary(std::string name, const std::string& source, std::int64_t vocab,
                                           std::int64_t hidden) const {
  const VocabRange range = vocab_range(vocab, tensor, rank);
  ParameterSpec p;
  p.name = std::move(name);
  p.rows = (vocab + tensor - 1) / tensor;
  p.cols = hidden;
  p.standard_deviation = standard_deviation;
  if (range.valid > 0) p.boxes.push_back({source, 0, range.valid, range.first, 0, hidden, vocab, hidden, false});
  return p;
}

ParameterSpec ParameterBuilder::replicated_vector(std::string name, const std::string& source, std::int64_t size,
                                                  Initial initial) const {
  ParameterSpec p;
  p.name = std::move(name);
  p.rows = size;
  p.vector = true;
  p.tensor_sharded = false;
  p.initial = initial;
  p.boxes.push_back({source, 0, size, 0, 0, 1, size, 1, false});
  return p;
}

ParameterSpec ParameterBuilder::replicated_matrix(std::string name, const std::string& source, std::int64_t rows,
                                                  std::int64_t cols) const {
  ParameterSpec p;
  p.name = std::move(name);
  p.rows = rows;
  p.cols = cols;
  p.tensor_sharded = false;
  p.standard_deviation = standard_deviation;
  p.boxes.push_back({source, 0, rows, 0, 0, cols, rows, cols, false});
  return p;
}

}  // namespace shard8::model
