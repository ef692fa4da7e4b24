// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/tensor/cuda/trap.hpp"

namespace shard8::test {
namespace {

__global__ void trap() { __trap(); }

}  // namespace

void launch_trap() { trap<<<1, 1>>>(); }

}  // namespace shard8::test
