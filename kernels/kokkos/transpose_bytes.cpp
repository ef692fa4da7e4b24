// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/portable.hpp"
#include "kernels/kokkos/transpose_tile.hpp"
#include "kernels/quantize.hpp"

namespace shard8::kernels {

void transpose_bytes(const Exec& exec, const tensor::Tensor& out, const tensor::Tensor& in) {
  require_count("transpose_bytes", "out", out, in.count());
  SHARD8_REQUIRE(tensor::size_of(in.dtype) == 1 && tensor::size_of(out.dtype) == 1,
                 "transpose_bytes: {} of {}; elements of one byte are needed", tensor::name_of(out.dtype),
                 tensor::name_of(in.dtype));
  transpose_tiles(exec, "shard8::kernels::transpose_bytes", out, in);
}

void transpose_cast(const Exec& exec, const char* operator_name, const tensor::Tensor& transposed,
                    const tensor::Tensor& cast) {
  transpose_tiles(exec, label_of("shard8::kernels::", operator_name, "_transpose").c_str(), transposed, cast);
}

}  // namespace shard8::kernels
