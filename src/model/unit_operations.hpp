// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fsdp/gather_schedule.hpp"
#include "fsdp/unit_buffers.hpp"
#include "model/module_operations.hpp"
#include "model/parameters.hpp"

namespace shard8::model {

/// Writes the gathers of the units' weights in a step, and the casts before and after them. Its functions are called as
/// those of fsdp::WeightStore are, and mirror them and Fp8Weights::hooks, with the same schedule. What the constructor
/// is given by reference must outlive it.
class WeightOperations {
 public:
  WeightOperations(OperationWriter& out, const fsdp::UnitBuffers& buffers, const std::vector<UnitSpec>& units,
                   const WeightFormat& format);

  /// `begun`: the step before has issued this step's first gathers, so they are waited for and not written.
  void begin_step(std::span<const fsdp::Visit> visits, bool begun);
  void gather_ahead();
  void acquire(int unit, fsdp::Pass pass);
  void release(int unit);

 private:
  class Casts;
  struct Slot {
    bool ready = false;
    std::optional<int> gather;
  };
  void start(const fsdp::GatherSchedule::Start& start);
  void finish(const fsdp::GatherSchedule::Start& gather);

  OperationWriter& out_;
  const fsdp::UnitBuffers& buffers_;
  const std::vector<UnitSpec>& units_;
  WeightFormat format_;
  fsdp::GatherSchedule schedule_;
  std::vector<Slot> slots_;
  std::vector<int> held_;  ///< by unit: its copy in use
};

/// Writes the zero fills and reductions of the units' gradients in a step. Its functions are called as those of
/// fsdp::GradientStore are, and mirror them. What the constructor is given must outlive it.
class GradientOperations {
 public:
  GradientOperations(OperationWriter& out, const fsdp::UnitBuffers& buffers);

  void begin(int unit, bool first_micro_batch);
  void reduce(int unit);
  void finish(int unit);
  void finish();

 private:
  struct Slot {
    int unit = -1;
    std::optional<int> scatter, replica_sum;
  };
  int slot_of(int unit);
  void complete(int slot);
  void finish_replica_sums();
  const std::vector<tensor::Tensor>& reduced(int slot) const;
  std::optional<int> call(int unit, profile::Collective op, const std::vector<tensor::Tensor>& tensors);
  void fill_zero(std::int64_t rows, std::int64_t cols);
  void cast(const tensor::Tensor& to, tensor::DType from);

  OperationWriter& out_;
  const fsdp::UnitBuffers& buffers_;
  std::vector<Slot> slots_;
  std::vector<int> in_flight_;                    ///< slots, oldest first
  std::vector<std::optional<int>> replica_sums_;  ///< oldest first
  int next_rotating_ = 0;
};

/// Writes the operations of Transformer::forward_backward, gathers and reductions included. Mirrors it.
class TransformerOperations {
 public:
  TransformerOperations(OperationWriter& out, const deck::ModelConfig& model, const fp8::Recipe& recipe,
                        ModuleOperations& modules, WeightOperations& weights, GradientOperations& gradients);

  /// `first`, `last`: the micro-batch is the first or the last one of the step.
  void forward_backward(bool first, bool last);

 private:
  void forward_embedding();
  void forward_layers();
  void head(bool first, bool last);
  void backward_layers(bool first, bool last);
  void backward_embedding(bool first, bool last);

  OperationWriter& out_;
  deck::ModelConfig model_;
  fp8::Recipe recipe_;
  ModuleOperations& modules_;
  WeightOperations& weights_;
  GradientOperations& gradients_;
};

}  // namespace shard8::model
