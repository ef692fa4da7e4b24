// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "deck/config.hpp"
#include "model/parameters.hpp"
#include "operation/operation.hpp"
#include "project/stack.hpp"

namespace shard8::project {

/// The operations of a step while they are changed. Each has an id that stays when others come and go: the `waits` of
/// operations and `ahead` name ids, or -1 - k for entry k of the step before. The ids of the recorded operations are
/// their indices.
class StepList {
 public:
  struct Entry {
    int id = 0;
    operation::Operation operation;
  };

  explicit StepList(operation::Operations step) : ahead(std::move(step.ahead)) {
    entries.reserve(step.list.size());
    for (operation::Operation& o : step.list) entries.push_back({next_++, std::move(o)});
  }

  int new_id() { return next_++; }

  /// Replaces the list by what `each` gives for its entries: it passes the entries to keep, to add and in which order
  /// to its second argument. Waits of entries that are not passed on are those of the next entry that is.
  using Pass = std::function<void(Entry entry)>;
  void rewrite(const std::function<void(Entry& entry, const Pass& pass)>& each);

  /// The list with indices in place of ids. Waits for what is not in the list, or comes later, are dropped, and so are
  /// all but the first for the same. A collective outside the compute stream that nothing waits for, and that is not
  /// ahead, is waited for by the first operation of the optimizer after it, or else by the last one of the list.
  operation::Operations finish() &&;

  std::vector<Entry> entries;
  std::vector<int> ahead;

 private:
  int next_ = 0;
};

/// What remains of the weights of a layer of llama on one of `tensor` ranks if its MLP has no gate.
inline double share_without_gate(const deck::ModelConfig& model, int tensor) {
  const auto h = static_cast<double>(model.hidden), f = static_cast<double>(model.ffn);
  const auto q = static_cast<double>(model.query_width()), k = static_cast<double>(model.key_width());
  const double qk_norms = model.qk_norm ? 2 * static_cast<double>(model.head_width()) : 0;
  const double others = (h * (q + 2 * k) + h * q) / tensor + 2 * h + qk_norms, projection = h * f / tensor;
  return (others + 2 * projection) / (others + 3 * projection);
}

/// Whether an operation adds a micro-batch's reduced gradients to the gradient shards (fsdp.accumulate: sharded). Such
/// an operation is of phase backward, but runs when the reduction is over, maybe in the next micro-batch.
inline bool adds_gradients(const operation::Operation& operation) {
  return operation.kernel() != nullptr && operation.kernel()->name == "add_gradients";
}

/// Whether a kernel works on weights or gradients of a whole unit: casts, sums of squares, the optimizer, zeros.
inline bool is_of_weights(const operation::Kernel& kernel, const operation::Operation& operation) {
  if (operation.location.linear) return false;
  for (const char* of_tokens :
       {"rope", "qk_norm", "rmsnorm", "layernorm", "embedding", "position", "make_sum", "residual"})
    if (kernel.name.starts_with(of_tokens)) return false;
  return true;
}

inline std::uint64_t scaled(std::uint64_t bytes, double factor) {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(bytes) * factor));
}

/// The work of transformed(): one pass over the list for each member of Structure that is not shard8's own. What
/// changes computation is in transform.cpp, what changes collectives in transform_collectives.cpp.
class Transformation {
 public:
  /// All arguments must outlive the object.
  Transformation(const Structure& structure, const train::Setup& setup, operation::Operations step)
      : s_(structure),
        model_(setup.config.model),
        setup_(setup),
        root_(model::root_unit(model_.layers)),
        list_(std::move(step)) {}

  operation::Operations run() &&;

 private:
  using Operation = operation::Operation;
  using Collective = operation::Collective;
  using Stream = operation::Stream;
  using Entry = StepList::Entry;
  using Pass = StepList::Pass;

  bool of_layer(const Operation& o) const { return o.location.unit > 0 && o.location.unit < root_; }
  /// Whether an operation computes a layer's forward or backward. Two kinds of operations of a layer do not: the cast
  /// of its weights for a gather that is issued before the layer's turn, and the sum of its gradients after it.
  static bool computes_layer(const Operation& o) { return o.location.linear || o.attention() != nullptr; }
  /// A gather of weights, or a reduction of gradients.
  static bool of_weights(const Operation& o) {
    const Collective* c = o.collective();
    return c != nullptr && !c->host_values && o.stream != Stream::compute && c->group != base::AxisSet::tensor &&
           c->group != base::AxisSet::expert;
  }
  static bool gathers_weights(const Operation& o) {
    return of_weights(o) && o.collective()->op == profile::Collective::all_gather;
  }
  static bool reduces_gradients(const Operation& o) {
    return of_weights(o) && o.collective()->op != profile::Collective::all_gather;
  }

  /// Half of fc1 goes: of its products, of what its kernels move, of its weights in collectives and in the optimizer.
  void remove_gate();
  /// Adds the products, kernels and sums of later chunks to those of the first one, at its place.
  void join_chunks_of_head();
  /// Repeats forward's products at the begin of a layer's backward.
  void recompute();
  std::optional<Operation> computed_again(const Operation& o) const;
  /// Adds sums of amaxes at the begin of each layer's forward and backward.
  void sum_amaxes();
  /// Removes the casts before reductions if the stack reduces gradients in BF16, too.
  void gradients_in_bf16();
  void add_residuals_by_kernels();
  /// Moves the gathers at the end of the step, which are for the next step, to the step's begin.
  void expose_first_gathers();
  /// Moves what `from` communicates to `to`, another collective of the same group.
  static void join(Collective& to, const Collective& from);
  /// Collectives of the root's weights become part of the embedding's: of the gather before, of the reduction after.
  void join_root();
  /// Reductions of consecutive units become one, at the place of the last unit.
  void fill_buckets();
  void reduce_after_backward();
  /// Holds each gather of backward until the next reduction, behind which it runs; or until it is waited for.
  void gather_after_reductions();
  /// One call becomes several; who waits for it waits for all.
  void split_calls();
  /// Structure::reduce_call_bytes: a layer's reduction becomes several, each behind the product that writes its last
  /// gradient.
  void start_reductions_early();
  /// Structure::reduce_within: the reductions of a group of layers are waited for by the first operation behind the
  /// group that computes a layer, is a product, or belongs to the optimizer.
  void end_reductions_within_layers();
  void copy_weights_and_gradients();
  void copy_around_tensor_group();
  void scale_kernels();
  double factor_of(std::string_view kernel) const;

  const Structure& s_;
  const deck::ModelConfig& model_;
  const train::Setup& setup_;
  int root_;
  StepList list_;
};

}  // namespace shard8::project
