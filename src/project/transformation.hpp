// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "model/parameters.hpp"
#include "project/stack.hpp"
#include "project/step_list.hpp"

namespace shard8::project {

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
  /// Sums of amaxes at the begin of each layer's forward and backward.
  void sum_amaxes();
  /// Where gradients are also reduced in BF16, the casts before a reduction go.
  void gradients_in_bf16();
  void add_residuals_by_kernels();
  /// The gathers at the end of the step, for the next one, stand at its begin.
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
