// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/blas/blas_core.hpp"

#include <gtest/gtest.h>

#include "kernels/libraries.hpp"

namespace shard8::kernels {
namespace {

TEST(BlasCore, IsMadeForWhatTheProcessorOffers) {
  constexpr VectorUnits kNone{}, kAvx2{.avx2 = true}, kAmd{.avx2 = true, .amd = true},
      kAvx512{.avx2 = true, .avx512 = true}, kAmd512{.avx2 = true, .avx512 = true, .amd = true};
  for (const char* old : {"Prescott", "Nehalem", "Sandybridge", "Barcelona"}) {
    SCOPED_TRACE(old);
    EXPECT_EQ(better_blas_core(old, kNone), "");
    EXPECT_EQ(better_blas_core(old, kAvx2), "Haswell");
    EXPECT_EQ(better_blas_core(old, kAmd), "Zen");
    EXPECT_EQ(better_blas_core(old, kAvx512), "SkylakeX");
    EXPECT_EQ(better_blas_core(old, kAmd512), "SkylakeX");
  }
  for (const char* made : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids", "Zen7", "", "armv8"})
    EXPECT_EQ(better_blas_core(made, kAvx512), "") << made;
}

// The test's main function has called choose_blas_core(), as the program's does.
TEST(BlasCore, OfThisProcessIsTheBetterOne) {
  const std::string blas = blas_description();
  if (blas.find("DYNAMIC_ARCH") == std::string::npos) GTEST_SKIP() << "one set of kernels: " << blas;
  const VectorUnits units = vector_units();
  for (const char* old : {"Prescott", "Nehalem", "Sandybridge"})
    EXPECT_TRUE(better_blas_core(old, units).empty() || blas.find(old) == std::string::npos) << blas;
}

}  // namespace
}  // namespace shard8::kernels
