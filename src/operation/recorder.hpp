// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "operation/operation.hpp"

namespace shard8::operation {

/// Where an operation is issued.
struct Place {
  Site site;
  profile::Phase phase = profile::Phase::other;
  bool recomputed = false;
};

/// The call of a collective, with the tensors that it moves: the whole of a gather or reduce-scatter, what an
/// all-reduce sums. See Collective for the other members.
struct Call {
  profile::Collective op = profile::Collective::all_gather;
  Group group = Group::tensor;
  int ranks = 1;
  Stream stream = Stream::compute;
  std::span<const tensor::Tensor> tensors{};
  bool by_parts = false, ring = false, host_values = false;
};

/// Passes the operations of steps to a function, one by one in their order, so that a step of many micro-batches takes
/// no memory.
class Recorder {
 public:
  using Sink = std::function<void(const Operation& operation)>;
  explicit Recorder(Sink sink) : sink_(std::move(sink)) {}

  /// A step begins. Operations are counted from here.
  void begin_step();
  /// Bytes of a product and of attention follow from their shapes. A kernel on a matrix without elements is left out.
  void add(const Place& place, const Product& product);
  void add(const Place& place, const Attention& attention);
  void add(const Place& place, const Kernel& kernel);
  /// Returns a number for wait(), unless it runs on the compute stream, where all that follows is after it. A
  /// collective in a group of one rank is left out and has no number. Tensors of the same dtype are one part.
  std::optional<int> add(const Place& place, const Call& call);
  /// Adds the collective to the `waits` of the next operation.
  void wait(int collective);

  /// From now on until the next step, collectives on the stream gather bring weights for the next step.
  void gathers_are_ahead() { ahead_now_ = true; }
  /// The indices of these collectives in the step's list.
  const std::vector<int>& ahead() const { return ahead_; }

 private:
  void write(const Place& place, Operation operation);

  Sink sink_;
  int count_ = 0;  ///< operations of all steps
  int begin_ = 0;  ///< count_ at the begin of the step
  std::vector<int> waits_;
  std::vector<int> ahead_, ahead_before_;  ///< indices in this step's list, and numbers of the step before
  bool ahead_now_ = false;
};

}  // namespace shard8::operation
