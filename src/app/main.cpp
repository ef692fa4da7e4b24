// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "app/commands.hpp"
#include "kernels/blas/blas_core.hpp"

int main(int argc, char** argv) {
  shard8::kernels::choose_blas_core();
  return shard8::app::main(argc, argv);
}
