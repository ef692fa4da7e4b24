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

/// The algorithm chosen for a product, and what the choice saw. Plain bytes.
struct LtAlgorithm {
  LtGemmKey key;
  std::array<std::uint64_t, 8> bytes{};  ///< cublasLtMatmulAlgo_t
  std::uint64_t workspace_bytes = 0;
  float microseconds = 0;           ///< of the chosen one; 0: not timed, the heuristic's first guess that ran
  float first_microseconds = 0;     ///< of the heuristic's first guess; 0 where it does not run
  float searched_microseconds = 0;  ///< of the best of all of cuBLASLt's algorithms; 0: not searched
  std::int32_t index = 0;           ///< of the chosen one among the heuristic's guesses, before it was refined
  std::int32_t offered = 0;         ///< guesses
  std::int32_t refused = 0;         ///< of them did not run, although offered
};
static_assert(std::is_trivially_copyable_v<LtAlgorithm>);

/// Algorithms that hold for one version of cuBLASLt on one kind of device: what a plan file keeps,
/// and what ranks agree on, since each could time another one the fastest and sum in another order.
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

/// One line "cublaslt ..." of the machine, then a line "gemm ..." each.
std::string to_text(const LtAlgorithms& algorithms);
/// What to_text() gave; lines that begin otherwise are others', and passed over. A line that cannot be
/// read is a base::Error, which quotes it.
LtAlgorithms algorithms_of_text(std::string_view text);

}  // namespace shard8::kernels::cuda
