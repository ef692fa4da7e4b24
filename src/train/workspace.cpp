// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/workspace.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "kernels/attention.hpp"
#include "kernels/embedding.hpp"
#include "kernels/gemm.hpp"
#include "kernels/norm.hpp"
#include "kernels/planned/device_memory.hpp"
#include "train/record.hpp"

namespace shard8::train {

using operation::Format;
using operation::Operation;

namespace {

/// The most bytes that any operation needs of the memory of a kernels::Workspace.
class Largest {
 public:
  Largest(const model::Dims& dims, int threads) : dims_(dims), threads_(threads) {}

  void add(const Operation& operation) {
    if (const auto* p = operation.product()) take(product(operation.site.linear, *p));
    if (const auto* a = operation.attention()) take(attention(a->shape));
    if (const auto* k = operation.kernel()) take(kernel(*k));
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void take(std::size_t bytes) { bytes_ = std::max(bytes_, bytes); }

  /// Bytes that the three products of a linear need. They are counted at its wgrad: fprop has shown how inputs are
  /// scaled, and wgrad shows which matrices are transposed. 0 for fprop and dgrad.
  std::size_t product(std::optional<fp8::Linear> linear, const operation::Product& p) {
    if (p.kind == operation::Product::Kind::fprop) inputs_[linear] = p.left;
    if (p.kind != operation::Product::Kind::wgrad) return 0;
    const Format& x = inputs_.at(linear);
    const bool transposed = p.left.transposed && p.right.transposed;
    if (dims_.device) return kernels::cuda::gemm_memory_bytes(x.dtype, p.inner, p.cols, p.rows, x.scaling, transposed);
    return kernels::gemm_workspace_bytes(x.dtype, p.inner, p.cols, p.rows, x.scaling, transposed);
  }

  std::size_t attention(const kernels::AttentionShape& shape) const {
    return dims_.device ? kernels::cuda::sdpa_workspace_bytes(shape)
                        : kernels::attention_workspace_bytes(shape, threads_);
  }

  std::size_t kernel(const operation::Kernel& k) const {
    if (k.name == "bias_gradient" || k.name == "rmsnorm_backward" || k.name == "layernorm_backward")
      return kernels::norm_workspace_bytes(k.rows, k.cols);
    if (k.name == "embedding_backward")
      return kernels::embedding_workspace_bytes(k.rows, dims_.vocab_local, dims_.device);
    return 0;
  }

  const model::Dims& dims_;
  int threads_;
  std::map<std::optional<fp8::Linear>, Format> inputs_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::size_t workspace_bytes(const Setup& setup) {
  Largest largest(setup.dims, setup.threads);
  const auto record_layer = [&](bool in_fp8) {
    Setup one = setup;
    one.config.model.layers = 1;
    one.config.model.recompute = deck::Recompute::none;
    one.layout.micro_batches = 1;
    if (in_fp8) {
      one.weights.recipe.first_layer = 0;
      one.weights.recipe.layers = 1;
    } else {
      one.weights = {};
    }
    one.units = model::make_units(one.config.model, setup.place);
    record_step(one, {.first = true, .last = true}, [&](const Operation& operation) { largest.add(operation); });
  };
  record_layer(false);
  if (setup.weights.recipe.on() && setup.weights.recipe.layers > 0) record_layer(true);
  return largest.bytes();
}

}  // namespace shard8::train
