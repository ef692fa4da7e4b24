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

/// The results of the parts of this program.
struct Totals {
  int passed = 0, failed = 0, unsupported = 0;
  std::array<double, kSums> random_eps{}, positive_eps{};  ///< largest |error| / Σ|a||b|
  std::vector<std::string> products, speeds;               ///< rows of the tables

  void expect(bool good, const std::string& what) {
    ++(good ? passed : failed);
    if (!good) std::printf("WRONG  %s\n", what.c_str());
  }
};

/// Shapes of a Llama of hidden 4096, ffn 14336, 32 heads (8 kv), vocab 32768, at 8192 tokens, cut over `tensor` ranks.
struct LinearShape {
  const char* name;
  std::int64_t tokens, inputs, outputs;
  bool float8;  ///< whether it is also computed in FP8: layers are, the head is not
};
std::vector<LinearShape> llama_shapes(int tensor);

struct EngineOptions {
  bool small = false, large = false, cutlass = false;
  std::vector<int> tensor = {1, 2, 4};  ///< tensor ranks of the large shapes
  double search_seconds = 0;            ///< seconds for comparing each large product with all algorithms; 0: no search
};
/// Checks LtGemm: every dtype and scaling, small, long and (timed) large; and CUTLASS's kernels, whether or not they
/// are the fastest.
void check_engine(cudaStream_t stream, const EngineOptions& options, Totals& totals);
/// Checks the products of a linear layer, with operands as training has them.
void check_linear(cudaStream_t stream, Totals& totals);
/// Checks the kernels that prepare operands, and times them if `timed`.
void check_kernels(cudaStream_t stream, bool timed, Totals& totals);

}  // namespace shard8::test
