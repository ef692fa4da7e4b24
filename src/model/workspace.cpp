// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/workspace.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "kernels/attention.hpp"
#include "kernels/embedding.hpp"
#include "kernels/gemm.hpp"
#include "kernels/norm.hpp"
#include "model/module_operations.hpp"
#include "tensor/exec.hpp"

namespace shard8::model {

namespace {

/// The most bytes that any operation needs of the memory of a kernels::Workspace.
class Largest {
 public:
  Largest(const Dims& dims, int threads) : dims_(dims), threads_(threads) {}

  void add(const Operation& operation) {
    if (const auto* p = operation.product()) take(product(operation.site.linear, *p));
    if (const auto* a = operation.attention()) take(kernels::attention_workspace_bytes(a->shape, threads_));
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
    return kernels::gemm_workspace_bytes(x.dtype, p.inner, p.cols, p.rows, x.scaling,
                                         p.left.transposed && p.right.transposed);
  }

  std::size_t kernel(const operation::Kernel& k) const {
    if (k.name == "bias_gradient" || k.name == "rmsnorm_backward" || k.name == "layernorm_backward")
      return kernels::norm_workspace_bytes(k.rows, k.cols);
    if (k.name == "embedding_backward") return kernels::embedding_workspace_bytes(k.rows, dims_.vocab_local);
    return 0;
  }

  const Dims& dims_;
  int threads_;
  std::map<std::optional<fp8::Linear>, Format> inputs_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::size_t workspace_bytes(const Dims& dims, const fp8::Recipe& recipe, int threads) {
  Largest largest(dims, threads);
  OperationWriter out([&](const Operation& operation) { largest.add(operation); });
  const auto layer = [&](const fp8::Recipe& of) {
    ModuleOperations operations(out, dims, of, {});
    operations.layer_forward(of.first_layer);
    operations.layer_backward(of.first_layer, false, ModuleOperations::Next::nothing);
  };
  layer({});
  if (recipe.on()) layer(recipe);
  ModuleOperations ends(out, dims, {}, {});
  ends.embedding_backward();
  ends.head(false);
  return largest.bytes();
}

}  // namespace shard8::model
