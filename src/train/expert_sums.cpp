// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/expert_sums.hpp"

#include <algorithm>
#include <numeric>

#include "base/exact_sum.hpp"
#include "kernels/moe.hpp"
#include "tensor/transfer.hpp"

namespace shard8::train {

ExpertSums::ExpertSums(const Setup& setup, const comm::Mesh& mesh, const model::Activations& activations)
    : setup_(setup),
      mesh_(mesh),
      activations_(activations),
      experts_(static_cast<std::size_t>(setup.dims.experts.experts)),
      sums_(setup.dims.experts.on() ? static_cast<std::size_t>(activations.expert_rows.cols()) : 0),
      own_(static_cast<std::size_t>(activations.expert_rows.count())),
      words_(base::ExactSum::kWords + experts_ * static_cast<std::size_t>(setup.dims.experts.layers)) {}

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
    auto to = words_.begin() + base::ExactSum::kWords;
    for (std::size_t layer = 0; layer < own_.size(); layer += sums_)
      to = std::ranges::copy(std::span(own_).subspan(layer, experts_), to).out;
    mesh_.world.all_reduce(words_, comm::Communicator::Reduce::sum);
    std::ranges::copy(std::span(words_).first<base::ExactSum::kWords>(), balance.words().begin());
  });
  ExpertStep step;
  step.balance = balance.value() / static_cast<double>(setup_.config.data.batch);
  if (rows().empty()) return step;
  step.counts = own_counts();
  const auto [least, most] = std::ranges::minmax(rows());
  step.counts.least = static_cast<std::int64_t>(least);
  step.counts.most = static_cast<std::int64_t>(most);
  step.counts.mean = static_cast<double>(std::accumulate(rows().begin(), rows().end(), std::uint64_t{0})) /
                     static_cast<double>(rows().size());
  return step;
}

profile::ExpertCounts ExpertSums::own_counts() const {
  using kernels::MoeSum;
  const model::Dims& d = setup_.dims;
  const auto compute = static_cast<std::int64_t>(tensor::size_of(d.compute));
  constexpr std::int64_t kNumber = sizeof(float);  // a weight or its gradient, beside each row
  const bool recomputes = setup_.config.model.recompute == deck::Recompute::full;
  profile::ExpertCounts counts{.ranks = d.experts.ranks, .steps = 1};
  counts.layers = d.experts.layers * setup_.layout.micro_batches;
  for (std::int64_t layer = 0; layer < d.experts.layers; ++layer) {
    const auto own = std::span(own_).subspan(static_cast<std::size_t>(layer) * sums_, sums_);
    const auto sum_of = [&](MoeSum sum) -> std::int64_t { return own[experts_ + static_cast<std::size_t>(sum)]; };
    const auto sent =
        std::accumulate(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(experts_), std::int64_t{0});
    counts.sent += sent;
    const std::int64_t received = sum_of(MoeSum::received);
    counts.received += received;
    counts.busiest += sum_of(MoeSum::busiest);
    counts.rounds += sum_of(MoeSum::rounds);
    counts.most_rounds = std::max(counts.most_rounds, sum_of(MoeSum::most_rounds));
    if (d.experts.ranks == 1) continue;
    // Tokens are sent in forward and, where their rows are recomputed, once more in backward; gradients in backward.
    const bool in_fp8 =
        d.experts.sends_fp8 && setup_.weights.recipe.site(d.experts.dense_layers + layer, fp8::Linear::fc1).on();
    const std::int64_t row = d.hidden * (in_fp8 ? 1 : compute), again = recomputes ? sent : sum_of(MoeSum::further);
    counts.dispatched_bytes += (sent + again) * (row + kNumber) + sent * row;
    // The results of the rows that it received, and in backward their gradients with those of the weights.
    counts.combined_bytes += received * (2 * d.hidden * compute + kNumber);
  }
  return counts;
}

}  // namespace shard8::train
