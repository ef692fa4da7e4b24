// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/expert_sums.hpp"

#include <algorithm>
#include <numeric>

#include "base/exact_sum.hpp"
#include "tensor/transfer.hpp"

namespace shard8::train {

ExpertSums::ExpertSums(const comm::Mesh& mesh, const model::Activations& activations, std::int64_t sequences)
    : mesh_(mesh),
      activations_(activations),
      sequences_(sequences),
      own_(static_cast<std::size_t>(activations.expert_rows.count())),
      words_(base::ExactSum::kWords + own_.size()) {}

std::span<const std::uint64_t> ExpertSums::rows() const { return std::span(words_).subspan(base::ExactSum::kWords); }

ExpertStep ExpertSums::sum(operation::Executor& executor) {
  base::ExactSum balance;
  executor.run_on_hosts(operation::Group::world, mesh_.world.size(), words_.size() * sizeof(std::uint64_t), [&] {
    if (executor.computes()) {
      const auto own_balance = executor.value<double>(activations_.balance);
      tensor::to_host(executor.exec(), own_.data(), activations_.expert_rows);
      if (mesh_.place.first(base::kSameSequences)) balance.add(own_balance);
    }
    std::ranges::copy(balance.words(), words_.begin());
    std::ranges::copy(own_, words_.begin() + base::ExactSum::kWords);
    mesh_.world.all_reduce(words_, comm::Communicator::Reduce::sum);
    std::ranges::copy(std::span(words_).first<base::ExactSum::kWords>(), balance.words().begin());
  });
  ExpertStep step;
  step.balance = balance.value() / static_cast<double>(sequences_);
  if (rows().empty()) return step;
  const auto [least, most] = std::ranges::minmax(rows());
  step.least = static_cast<std::int64_t>(least);
  step.most = static_cast<std::int64_t>(most);
  step.mean = static_cast<double>(std::accumulate(rows().begin(), rows().end(), std::uint64_t{0})) /
              static_cast<double>(rows().size());
  return step;
}

}  // namespace shard8::train
