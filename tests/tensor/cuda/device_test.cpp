// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/device.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace shard8::tensor::cuda {
namespace {

TEST(SeparateStreams, LeavesWhatTheEnvironmentSays) {
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  separate_streams();
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
  separate_streams();
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "8");
}

}  // namespace
}  // namespace shard8::tensor::cuda
