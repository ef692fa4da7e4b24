// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/peak_flops.hpp"

#include <gtest/gtest.h>

namespace shard8::profile {
namespace {

TEST(PeakFlops, of_devices_by_their_names) {
  EXPECT_EQ(peak_flops("NVIDIA H200", Products::fp8), 1978.9e12);
  EXPECT_EQ(peak_flops("NVIDIA H200", Products::bf16), 989.4e12);
  EXPECT_EQ(peak_flops("NVIDIA H200", Products::fp32), 67e12);
  EXPECT_EQ(peak_flops("NVIDIA H200 NVL", Products::bf16), 835.5e12);
  EXPECT_EQ(peak_flops("NVIDIA H100 80GB HBM3", Products::bf16), 989.4e12);
  EXPECT_EQ(peak_flops("NVIDIA H100 PCIe", Products::bf16), 756e12);
  EXPECT_EQ(peak_flops("NVIDIA GH200 480GB", Products::fp8), 1978.9e12);
  EXPECT_EQ(peak_flops("NVIDIA A100-SXM4-80GB", Products::bf16), 312e12);
  EXPECT_EQ(peak_flops("NVIDIA A100-SXM4-80GB", Products::fp8), 0);
}

TEST(PeakFlops, of_others_are_not_guessed) {
  for (const char* device : {"", "NVIDIA H100", "NVIDIA RTX A1000", "NVIDIA H20", "NVIDIA H2000"})
    EXPECT_EQ(peak_flops(device, Products::bf16), 0) << device;
}

}  // namespace
}  // namespace shard8::profile
