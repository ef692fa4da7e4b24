// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/cuda/lt_key.hpp"

namespace shard8::kernels::cuda {

/// The algorithm chosen for a product, and what was measured for the choice. Plain bytes, so that ranks can send it.
/// Times are of one run.
struct LtAlgorithm {
  LtGemmKey key;
  std::array<std::uint64_t, 8> bytes{};  ///< cublasLtMatmulAlgo_t
  std::uint64_t workspace_bytes = 0;
  float microseconds = 0;        ///< of the chosen algorithm; 0: not timed, it is the heuristic's first guess that ran
  float first_microseconds = 0;  ///< of the heuristic's first guess; 0 if that does not run
  float searched_microseconds = 0;  ///< of the best algorithm of the exhaustive search; 0: no search
  std::int32_t index = 0;    ///< the number of the chosen guess among the heuristic's guesses, before it was refined
  std::int32_t offered = 0;  ///< how many guesses the heuristic offered
  std::int32_t refused = 0;  ///< how many of the guesses did not run, although offered
};
static_assert(std::is_trivially_copyable_v<LtAlgorithm>);

/// Algorithms for one version of cuBLASLt on one kind of device. A plan file keeps them. All ranks must use the same
/// ones: each rank could time another algorithm as the fastest, and would then sum in another order.
struct LtAlgorithms {
  std::uint64_t library = 0;  ///< cublasLtGetVersion()
  std::int32_t compute_capability = 0;
  std::int32_t multiprocessors = 0;
  std::vector<LtAlgorithm> list;

  bool same_machine(const LtAlgorithms& other) const {
    return library == other.library && compute_capability == other.compute_capability &&
           multiprocessors == other.multiprocessors;
  }
};

/// The algorithms as text: a line "cublaslt ..." that names library and device, then one line "gemm ..." for each
/// algorithm.
std::string to_text(const LtAlgorithms& algorithms);
/// The algorithms of a text of to_text(). Lines that begin with another word are skipped. Throws base::Error, which
/// quotes the line, if a line is malformed.
LtAlgorithms algorithms_of_text(std::string_view text);

}  // namespace shard8::kernels::cuda
