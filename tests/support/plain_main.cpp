// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/support/cases.hpp"

int main(int argc, char** argv) {
  if (!shard8::tests::init_cases(argc, argv)) return 1;
  return RUN_ALL_TESTS();
}
