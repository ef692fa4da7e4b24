// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/blas/blas_core.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace shard8::kernels {

VectorUnits vector_units() {
  VectorUnits units;
#if defined(__x86_64__)
  __builtin_cpu_init();
  units.avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  units.avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512cd") != 0 &&
                 __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                 __builtin_cpu_supports("avx512vl") != 0;
  units.amd = __builtin_cpu_is("amd") != 0;
#endif
  return units;
}

std::string better_blas_core(std::string_view chosen, const VectorUnits& units) {
  // OpenBLAS's names of kernels without AVX2 and FMA (dynamic.c of OpenBLAS, corename).
  constexpr std::array<std::string_view, 18> kOld = {
      "Katmai",  "Coppermine",  "Northwood", "Prescott",     "Banias",    "Atom",   "Core2", "Penryn",    "Dunnington",
      "Nehalem", "Sandybridge", "Opteron",   "Opteron_SSE3", "Barcelona", "Bobcat", "Nano",  "Bulldozer", "Athlon"};
  if (!units.avx2 || std::find(kOld.begin(), kOld.end(), chosen) == kOld.end()) return {};
  if (units.avx512) return "SkylakeX";
  return units.amd ? "Zen" : "Haswell";
}

void choose_blas_core() {
  constexpr const char* kVariable = "OPENBLAS_CORETYPE";
  auto* const core = openblas_function<char*()>("openblas_get_corename");
  // What OpenBLAS's own constructor calls (dynamic.c). A build with one set of kernels has neither.
  auto* const forget = openblas_function<void()>("gotoblas_dynamic_quit");
  auto* const choose = openblas_function<void()>("gotoblas_dynamic_init");
  if (core == nullptr || forget == nullptr || choose == nullptr || std::getenv(kVariable) != nullptr) return;
  const std::string better = better_blas_core(core(), vector_units());
  if (better.empty()) return;
  ::setenv(kVariable, better.c_str(), 1);
  forget();
  choose();
  ::unsetenv(kVariable);
}

}  // namespace shard8::kernels
