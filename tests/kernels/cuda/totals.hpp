// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/cuda/lt_gemm.hpp"
#include "tests/kernels/cuda/numbers.hpp"

namespace shard8::test {

/// What the parts of this program found.
struct Totals {
  int passed = 0, failed = 0, unsupported = 0;
  std::array<double, kSums> random_eps{}, positive_eps{};  ///< largest |error| / Σ|a||b|
  std::vector<std::string> products, speeds;               ///< rows of the tables

  void expect(bool good, const std::string& what) {
    ++(good ? passed : failed);
    if (!good) std::printf("WRONG  %s\n", what.c_str());
  }
};

/// The shapes of a Llama of hidden 4096, ffn 14336, 32 heads (8 kv), vocab 32768, cut over `tensor`
/// ranks, at 8192 tokens.
struct LinearShape {
  const char* name;
  std::int64_t tokens, inputs, outputs;
  bool float8;  ///< of a layer; the head is not
};
std::vector<LinearShape> llama_shapes(int tensor);

struct EngineOptions {
  bool small = false, large = false;
  std::vector<int> tensor = {1, 2, 4};  ///< of the large ones
  double search_seconds = 0;            ///< for each large product, compared with all algorithms
};
/// LtGemm: every dtype and scaling, small, long and (timed) large.
void check_engine(cudaStream_t stream, const EngineOptions& options, Totals& totals);
/// The linear layer's products of operands as training has them.
void check_linear(cudaStream_t stream, Totals& totals);
/// The kernels that prepare operands, and their speed.
void check_kernels(cudaStream_t stream, bool timed, Totals& totals);

}  // namespace shard8::test
