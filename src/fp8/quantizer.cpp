// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fp8/quantizer.hpp"

namespace shard8::fp8 {

using profile::Part;
using tensor::Tensor;

namespace {

/// Casts x with one scale. With `both` the transposed bytes are written in the same pass, if `out` has them.
void quantize(const tensor::Exec& exec, const Operands& out, const Tensor& amax, const Tensor& x, const Tensor& scale,
              const kernels::CastOptions& options, bool both) {
  if (both && out.by_columns.transposed)
    kernels::quantize_transpose(exec, out.by_rows, out.by_columns.data, amax, x, scale, options);
  else
    kernels::quantize(exec, out.by_rows, amax, x, scale, options);
}

}  // namespace

kernels::Outputs Quantizer::recomputed_outputs(const Site& site, const Operands& out) const {
  SHARD8_REQUIRE(recipe().per_tensor(), "block scales are found in every cast; a recomputed cast finds them again");
  kernels::Outputs outputs;
  outputs.quantized = out.by_rows;
  outputs.transposed = out.transposed();
  outputs.transposed_alone = !outputs.transposed.empty();
  outputs.scale = state_.scale(site);
  return outputs;
}

void Quantizer::cast(const Site& site, const Operands& out, const Tensor& x, Tokens tokens, Purpose purpose) const {
  if (recipe().per_tensor()) {
    auto part = timer_.part(Part::elementwise, "quantize");
    if (purpose == Purpose::recomputed) {
      kernels::CastOptions options = recipe().cast_options(nullptr);
      options.transposed_alone = true;
      return quantize(exec_, out, {}, x, state_.scale(site), options, true);
    }
    const kernels::CastOptions options = recipe().cast_options(state_.counts(site));
    if (!state_.scaled_by_own_amax(site)) {
      quantize(exec_, out, state_.amax(site), x, state_.scale(site), options, purpose == Purpose::both_passes);
      state_.count_elements(site, x.count());
      return;
    }
    kernels::amax(exec_, state_.amax(site), x, options);
  }
  cast_known(site, out, x, tokens, purpose);
}

void Quantizer::cast_known(const Site& site, const Operands& out, const Tensor& x, Tokens tokens,
                           Purpose purpose) const {
  if (!recipe().per_tensor()) return cast_blocks(site, out, x, purpose);
  if (tokens == Tokens::part && tensor_group_.size() > 1) {
    auto part = timer_.part(Part::tensor_comm, "amax");
    const Tensor amax = state_.amax(site);
    tensor_group_.all_reduce({&amax, 1}, comm::Communicator::Reduce::max).wait();
  }
  auto part = timer_.part(Part::elementwise, "quantize");
  state_.count_elements(site, x.count());
  state_.scale_of(exec_, site);
  quantize(exec_, out, {}, x, state_.scale(site), recipe().cast_options(state_.counts(site)),
           purpose == Purpose::both_passes);
}

void Quantizer::cast_blocks(const Site& site, const Operands& out, const Tensor& x, Purpose purpose) const {
  auto part = timer_.part(Part::elementwise, "quantize_blocks");
  const kernels::CastOptions options = recipe().cast_options(state_.counts(site));
  if (purpose == Purpose::both_passes) {
    state_.count_elements(site, out.one() ? x.count() : 2 * x.count());
    kernels::quantize_blocks(exec_, out.by_rows, out.by_columns, x, options);
    return;
  }
  state_.count_elements(site, x.count());
  kernels::quantize_blocks(exec_, purpose == Purpose::forward_pass ? out.by_rows : out.by_columns, x, options);
}

}  // namespace shard8::fp8
