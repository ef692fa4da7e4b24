// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kokkos/quantize_panels_device.hpp"

namespace shard8::kernels {
namespace {

using tensor::Scaling;
constexpr auto kName = "quantize_blocks";

/// The pointers of an output for x. Throws Error(failed) for wrong counts or dtypes.
template <class Rule>
Quantized<typename Rule::Inverse> quantized(const tensor::Operand& out, const tensor::Tensor& x) {
  require_count(kName, "data", out.data, x.count());
  require_count(kName, "scale_inv", out.scale_inv, tensor::scale_shape(out.scaling, x.rows(), x.cols()).count());
  return {out.data.as<tensor::E4M3>(), out.scale_inv.as<typename Rule::Inverse>()};
}

/// `row` or `column` may be null.
template <class Rule, Blocks kBlocks>
void run(const Exec& exec, const tensor::Operand* row, const tensor::Operand* column, const tensor::Tensor& x,
         const CastOptions& options) {
  using Pointers = Quantized<typename Rule::Inverse>;
  const auto by_row = row != nullptr ? quantized<Rule>(*row, x) : Pointers{};
  const auto by_column = column != nullptr ? quantized<Rule>(*column, x) : Pointers{};
  if (x.count() == 0) return;
  dispatch_source(x, options.through_bf16, kName, [&](const auto& source) {
    quantize_panels<Rule, kBlocks>(exec, by_row, by_column, source, x.rows(), x.cols(), options);
  });
}

}  // namespace

void quantize_blocks(const Exec& exec, const tensor::Operand& out, const tensor::Tensor& x,
                     const CastOptions& options) {
  switch (out.scaling) {
    case Scaling::row_128:
      return run<WideBlocks, Blocks::row>(exec, &out, nullptr, x, options);
    case Scaling::column_128:
      return run<WideBlocks, Blocks::column>(exec, nullptr, &out, x, options);
    case Scaling::tile_128:
      return run<WideBlocks, Blocks::square>(exec, nullptr, &out, x, options);
    case Scaling::row_32:
      return run<NarrowBlocks, Blocks::row>(exec, &out, nullptr, x, options);
    case Scaling::column_32:
      return run<NarrowBlocks, Blocks::column>(exec, nullptr, &out, x, options);
    default:
      break;
  }
  base::fail(base::ExitCode::failed, "{}: scaling {}; allowed are 1x128, 128x1, 128x128, 1x32 and 32x1", kName,
             tensor::name_of(out.scaling));
}

void quantize_blocks(const Exec& exec, const tensor::Operand& row, const tensor::Operand& column,
                     const tensor::Tensor& x, const CastOptions& options) {
  if (row.scaling == Scaling::row_128 && column.scaling == Scaling::column_128) {
    return run<WideBlocks, Blocks::both>(exec, &row, &column, x, options);
  }
  if (row.scaling == Scaling::row_32 && column.scaling == Scaling::column_32) {
    return run<NarrowBlocks, Blocks::both>(exec, &row, &column, x, options);
  }
  base::fail(base::ExitCode::failed, "{}: {} with {}; allowed are 1x128 with 128x1 and 1x32 with 32x1", kName,
             tensor::name_of(row.scaling), tensor::name_of(column.scaling));
}

}  // namespace shard8::kernels
