// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "project/transformation.hpp"

namespace shard8::project {

using operation::Kernel;
using operation::Linear;
using operation::Product;
using profile::Phase;
using tensor::DType;
using Op = profile::Collective;

namespace {

/// The bytes of a product, as operation::Recorder counts them.
void count_bytes(operation::Operation& o) {
  o.read = operation::bytes_read(*o.product());
  o.written = operation::bytes_written(*o.product());
}

void scale(operation::Operation& kernel, double read, double written) {
  kernel.read = scaled(kernel.read, read);
  kernel.written = scaled(kernel.written, written);
  auto& k = std::get<Kernel>(kernel.what);
  k.read = kernel.read;
  k.written = kernel.written;
}

}  // namespace

operation::Operations Transformation::run() && {
  if (s_.plain_mlp && model_.arch == deck::Arch::llama) remove_gate();
  if (s_.whole_head) join_chunks_of_head();
  if (model_.recompute == deck::Recompute::selective ||
      (model_.recompute == deck::Recompute::full && s_.whole_layer_recomputed))
    recompute();
  if (s_.gradients == DType::bf16) gradients_in_bf16();
  if (s_.amax_sums > 0) sum_amaxes();
  if (s_.residual_kernel) add_residuals_by_kernels();
  if (!s_.gathers_ahead) expose_first_gathers();
  if (s_.whole_root) join_root();
  if (s_.bucket > 0 || s_.bucket_rank > 0) fill_buckets();
  if (s_.reduces_late) reduce_after_backward();
  if (s_.gathers_after_reductions) gather_after_reductions();
  if (s_.gather_copies > 0 || s_.reduce_copies > 0) copy_weights_and_gradients();
  if (s_.gather_calls > 1 || s_.reduce_calls > 1) split_calls();
  if (s_.reduce_call_bytes > 0) start_reductions_early();
  if (s_.reduce_within > 0) end_reductions_within_layers();
  if (s_.tensor_copies > 0) copy_around_tensor_group();
  if (s_.optimizer_bytes > 0 || !s_.kernels.empty()) scale_kernels();
  return std::move(list_).finish();
}

void Transformation::remove_gate() {
  const double weights = share_without_gate(model_, setup_.mesh[base::Axis::tensor]);
  const std::int64_t both = 2 * model_.ffn / setup_.mesh[base::Axis::tensor];
  list_.rewrite([&](Entry& e, const Pass& pass) {
    Operation& o = e.operation;
    if (!of_layer(o)) return pass(std::move(e));
    if (of_weights(o)) {
      for (auto& part : std::get<Collective>(o.what).payloads) part.bytes = scaled(part.bytes, weights);
    } else if (o.product() != nullptr && o.location.linear == Linear::fc1) {
      auto& p = std::get<Product>(o.what);
      (p.kind == Product::Kind::fprop ? p.cols : p.kind == Product::Kind::dgrad ? p.inner : p.rows) /= 2;
      count_bytes(o);
    } else if (const Kernel* k = o.kernel(); k != nullptr) {
      if (k->name == "swiglu_forward") {
        scale(o, 0.5, 1);
      } else if (k->name == "swiglu_backward") {
        const std::uint64_t gradient = tensor::bytes_of(k->out, k->rows * k->cols);
        const double written = static_cast<double>(o.written - gradient / 2) / static_cast<double>(o.written);
        std::get<Kernel>(o.what).cols /= 2;
        scale(o, 2.0 / 3.0, written);
      } else if (o.location.linear == Linear::fc1 && k->cols == both) {
        std::get<Kernel>(o.what).cols /= 2;
        scale(o, 0.5, 0.5);
      } else if (is_of_weights(*k, o)) {
        auto& kernel = std::get<Kernel>(o.what);
        kernel.rows = static_cast<std::int64_t>(scaled(static_cast<std::uint64_t>(kernel.rows), weights));
        scale(o, weights, weights);
      }
    }
    pass(std::move(e));
  });
}

void Transformation::join_chunks_of_head() {
  std::map<std::string, std::size_t> joined;  // by kind of operation: where it stands in `kept`
  std::vector<Entry> kept;
  std::string kernel;
  for (Entry& e : list_.entries) {
    Operation& o = e.operation;
    const bool compute = o.stream == Stream::compute;
    if (compute && o.location.unit != root_) joined.clear();
    std::string kind;
    if (compute && o.location.unit == root_ && o.phase != Phase::optimizer) {
      if (const Product* p = o.product()) kind = name_of(p->kind);
      if (const Kernel* k = o.kernel(); k != nullptr && k->name.starts_with("cross_entropy")) kind = kernel = k->name;
      if (const Collective* c = o.collective(); c != nullptr && c->op == Op::all_reduce) kind = "sum after " + kernel;
    }
    const auto at = joined.find(kind);
    if (kind.empty() || at == joined.end()) {
      if (!kind.empty()) joined[kind] = kept.size();
      kept.push_back(std::move(e));
      continue;
    }
    Operation& first = kept[at->second].operation;
    if (auto* p = std::get_if<Product>(&first.what)) {
      (p->kind == Product::Kind::wgrad ? p->inner : p->rows) +=
          p->kind == Product::Kind::wgrad ? o.product()->inner : o.product()->rows;
      count_bytes(first);
    } else if (auto* k = std::get_if<Kernel>(&first.what)) {
      k->rows += o.kernel()->rows;
      first.read = k->read += o.kernel()->read;
      first.written = k->written += o.kernel()->written;
    } else {
      auto& c = std::get<Collective>(first.what);
      for (std::size_t i = 0; i < c.payloads.size(); ++i) c.payloads[i].bytes += o.collective()->payloads[i].bytes;
    }
    // What the joined operation waited for was issued before the chunk, or the next operation waits for it.
    first.waits.insert(first.waits.end(), o.waits.begin(), o.waits.end());
  }
  list_.entries = std::move(kept);
}

void Transformation::recompute() {
  std::map<int, std::vector<Operation>> forward;
  std::set<int> begun;  // layers whose backward has begun in this micro-batch
  list_.rewrite([&](Entry& e, const Pass& pass) {
    const Operation& o = e.operation;
    if (!of_layer(o) || o.stream != Stream::compute) return pass(std::move(e));
    const int unit = o.location.unit;
    if (o.phase == Phase::forward) {
      if (begun.erase(unit) > 0) forward[unit].clear();
      if (std::optional<Operation> again = computed_again(o)) forward[unit].push_back(std::move(*again));
    } else if (o.phase == Phase::backward && computes_layer(o) && begun.insert(unit).second) {
      for (Operation& again : forward[unit]) {
        again.waits = std::exchange(e.operation.waits, {});
        pass({list_.new_id(), again});
      }
    }
    pass(std::move(e));
  });
}

std::optional<operation::Operation> Transformation::computed_again(const Operation& o) const {
  Operation again = o;
  again.waits.clear();
  again.phase = Phase::backward;
  again.recomputed = true;
  if (o.attention() != nullptr)
    return s_.attention_recomputed && model_.recompute == deck::Recompute::selective ? std::optional(again)
                                                                                     : std::nullopt;
  if (o.product() == nullptr || !o.location.linear) return std::nullopt;
  const bool full = model_.recompute == deck::Recompute::full;
  const double share =
      full ? (o.location.linear == Linear::fc2 ? 1 : 0) : s_.recomputed[static_cast<std::size_t>(*o.location.linear)];
  if (share == 0) return std::nullopt;
  auto& p = std::get<Product>(again.what);
  p.cols = std::max<std::int64_t>(1, std::llround(static_cast<double>(p.cols) * share));
  count_bytes(again);
  return again;
}

void Transformation::sum_amaxes() {
  const base::AxisSet all = base::AxisSet::world;
  Collective sum{Op::all_reduce, all, setup_.mesh.ranks(all)};
  if (sum.ranks == 1) return;
  sum.payloads.push_back({DType::fp32, sizeof(float)});
  int unit = -1;
  Phase phase = Phase::other;
  list_.rewrite([&](Entry& e, const Pass& pass) {
    const Operation& o = e.operation;
    const bool computes = of_layer(o) && o.stream == Stream::compute && computes_layer(o) &&
                          (o.phase == Phase::forward || o.phase == Phase::backward);
    if (computes && (o.location.unit != unit || o.phase != phase)) {
      unit = o.location.unit;
      phase = o.phase;
      const std::int64_t of_forward = (2 * s_.amax_sums + 1) / 3;
      for (std::int64_t i = phase == Phase::forward ? of_forward : s_.amax_sums - of_forward; i > 0; --i) {
        Operation one;
        one.location = o.location;
        one.phase = phase;
        one.waits = std::exchange(e.operation.waits, {});
        one.what = sum;
        pass({list_.new_id(), std::move(one)});
      }
    } else if (!of_layer(o) && o.stream == Stream::compute) {
      unit = -1;
    }
    pass(std::move(e));
  });
}

void Transformation::gradients_in_bf16() {
  for (Entry& e : list_.entries) {
    Operation& o = e.operation;
    auto* p = std::get_if<Product>(&o.what);
    if (p == nullptr || p->kind != Product::Kind::wgrad) continue;
    p->out = DType::bf16;
    count_bytes(o);
  }
  if (setup_.fsdp.reduce != DType::bf16) return;
  std::set<int> gone;
  std::vector<int> casts;  // since the last operation that was none
  for (const Entry& e : list_.entries) {
    const Kernel* k = e.operation.kernel();
    if (k != nullptr && k->name == "cast" && k->in == DType::fp32 && k->out == DType::bf16) {
      casts.push_back(e.id);
      continue;
    }
    if (reduces_gradients(e.operation)) gone.insert(casts.begin(), casts.end());
    casts.clear();
  }
  list_.rewrite([&](Entry& e, const Pass& pass) {
    if (!gone.contains(e.id)) pass(std::move(e));
  });
}

void Transformation::add_residuals_by_kernels() {
  list_.rewrite([&](Entry& e, const Pass& pass) {
    auto* p = std::get_if<Product>(&e.operation.what);
    if (p == nullptr || !p->residual) return pass(std::move(e));
    p->residual = false;
    count_bytes(e.operation);
    Operation add = e.operation;
    add.waits.clear();
    const std::uint64_t bytes = tensor::bytes_of(p->out, p->rows * p->cols);
    add.what = Kernel{"residual_add", p->rows, p->cols, p->out, p->out, 2 * bytes, bytes};
    add.read = 2 * bytes;
    add.written = bytes;
    pass(std::move(e));
    pass({list_.new_id(), std::move(add)});
  });
}

void Transformation::scale_kernels() {
  list_.rewrite([&](Entry& e, const Pass& pass) {
    const Kernel* k = e.operation.kernel();
    if (k == nullptr) return pass(std::move(e));
    double factor = factor_of(k->name);
    const std::uint64_t bytes = e.operation.read + e.operation.written;
    if (k->name.starts_with("adamw") && s_.optimizer_bytes > 0 && bytes > 0)
      factor *= s_.optimizer_bytes * static_cast<double>(k->rows * k->cols) / static_cast<double>(bytes);
    const int kernels = std::max(1, static_cast<int>(std::lround(factor)));
    scale(e.operation, factor / kernels, factor / kernels);
    for (int i = 1; i < kernels; ++i) {
      Entry another{list_.new_id(), e.operation};
      another.operation.waits = std::exchange(e.operation.waits, {});
      pass(std::move(another));
    }
    pass(std::move(e));
  });
}

double Transformation::factor_of(std::string_view kernel) const {
  const Structure::KernelFactor* found = nullptr;
  for (const auto& k : s_.kernels) {
    const bool fits = k.name == "any" || kernel.starts_with(k.name);
    if (fits && (found == nullptr || found->name == "any" || (k.name != "any" && k.name.size() > found->name.size())))
      found = &k;
  }
  return found == nullptr ? 1 : found->factor;
}

operation::Operations transformed(const Structure& structure, const train::Setup& setup, operation::Operations step) {
  return Transformation(structure, setup, std::move(step)).run();
}

}  // namespace shard8::project
