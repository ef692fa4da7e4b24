// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/mesh.hpp"
#include "model/activations.hpp"
#include "operation/executor.hpp"
#include "profile/experts.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// How the experts of all layers shared a step's tokens. A row is a pair of a token and one of its experts.
struct ExpertStep {
  double balance = 0;  ///< the balance loss, which is not part of the loss: mean over sequences, sum over layers
  profile::ExpertCounts
      counts{};  ///< of this step: of this rank, but for the tokens of experts, which are of all ranks
};

/// Sums what a step's layers counted of their experts over all ranks. Takes memory when it is made alone.
class ExpertSums {
 public:
  /// The arguments must outlive the object.
  ExpertSums(const Setup& setup, const comm::Mesh& mesh, const model::Activations& activations);

  /// Of the step whose micro-batches are over. Waits for the execution space. Collective.
  ExpertStep sum(operation::Executor& executor);
  /// By layer with experts, then by expert: the rows of the last sum(), over all ranks.
  std::span<const std::uint64_t> rows() const;

 private:
  /// What this rank counted of all layers in a step. Bytes are those of the rows that are dispatched and combined.
  profile::ExpertCounts own_counts() const;

  const Setup& setup_;
  const comm::Mesh& mesh_;
  const model::Activations& activations_;
  std::size_t experts_, sums_;        ///< of a layer: its experts, and its numbers in own_
  std::vector<std::int32_t> own_;     ///< Activations::expert_rows
  std::vector<std::uint64_t> words_;  ///< of base::ExactSum, then rows
};

}  // namespace shard8::train
