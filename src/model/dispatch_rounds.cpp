// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/expert_exchange.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace shard8::model {

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

DispatchRounds::DispatchRounds(const ExpertDims& dims, std::int64_t tokens, int rank)
    : dims_(dims),
      tokens_(tokens),
      rank_(rank),
      counts_(at(dims.ranks * dims.experts)),
      send_first_(at(dims.ranks)),
      send_rows_(at(dims.ranks)),
      receive_rows_(at(dims.ranks)),
      expert_first_(at(dims.local())),
      expert_rows_(at(dims.local())),
      row_(at(dims.local())),
      next_(at(dims.ranks)) {}

void DispatchRounds::set(std::span<const std::int32_t> counts) {
  SHARD8_REQUIRE(counts.size() == counts_.size(), "{} counts of rows, not {}", counts.size(), counts_.size());
  std::ranges::copy(counts, counts_.begin());
  find_rounds();
}

void DispatchRounds::set_mean() {
  const std::int64_t rows = dims_.mean_rows(tokens_);
  for (int rank = 0; rank < dims_.ranks; ++rank) {
    for (std::int64_t e = 0; e < dims_.experts; ++e) {
      // Each rank begins with other experts, so that every rank receives as many rows as it sends.
      const std::int64_t n = (e + rank * dims_.local()) % dims_.experts;
      counts_[at(rank * dims_.experts + e)] =
          static_cast<std::int32_t>(rows * (n + 1) / dims_.experts - rows * n / dims_.experts);
    }
  }
  find_rounds();
}

void DispatchRounds::set_worst() {
  const std::int64_t of_first = std::min(dims_.per_token, dims_.local()), others = dims_.experts - dims_.local();
  for (int rank = 0; rank < dims_.ranks; ++rank) {
    const auto spread = [&](std::int64_t first, std::int64_t experts, std::int64_t rows) {
      for (std::int64_t n = 0; n < experts; ++n)
        counts_[at(rank * dims_.experts + first + n)] =
            static_cast<std::int32_t>(rows * (n + 1) / experts - rows * n / experts);
    };
    spread(0, dims_.local(), tokens_ * of_first);
    spread(dims_.local(), others, tokens_ * (dims_.per_token - of_first));
  }
  find_rounds();
}

std::int64_t DispatchRounds::rows_of(int rank) const {
  std::int64_t rows = 0;
  for (std::int64_t e = rank * dims_.local(); e < (rank + 1) * dims_.local(); ++e) {
    std::int64_t of_expert = 0;
    for (int from = 0; from < dims_.ranks; ++from) of_expert += count(from, e);
    rows += dims_.padded(of_expert);
  }
  return rows;
}

void DispatchRounds::find_rounds() {
  std::int64_t most = 0;
  for (int rank = 0; rank < dims_.ranks; ++rank) most = std::max(most, rows_of(rank));
  const std::int64_t rows = dims_.round_rows(tokens_);
  SHARD8_REQUIRE(most == 0 || rows > 0, "{} rows are dispatched in rounds of none", most);
  rounds_ = most == 0 ? 0 : (most + rows - 1) / rows;
}

DispatchRounds::Round DispatchRounds::round(std::int64_t number, const kernels::RowGroups& groups,
                                            const tensor::Tensor& arrived, const tensor::Tensor& place) {
  const std::int64_t rows = dims_.round_rows(tokens_), begin = number * rows, end = begin + rows;
  std::ranges::fill(send_rows_, 0);
  std::ranges::fill(send_first_, 0);
  std::ranges::fill(receive_rows_, 0);
  std::ranges::fill(expert_rows_, 0);
  std::int64_t own = 0;  // place in the sorted rows of this rank
  // Calls take(expert, rank, first, n) for each run of rows of an expert, from a rank, that the round brings to rank
  // `to`; `first` counts from the first row that the rank has for the expert.
  const auto for_each_run = [&](int to, const auto& take) {
    std::int64_t position = 0;
    for (std::int64_t e = to * dims_.local(); e < (to + 1) * dims_.local(); ++e) {
      for (int from = 0; from < dims_.ranks; ++from) {
        const std::int64_t n = count(from, e), first = std::clamp(begin - position, std::int64_t{0}, n);
        const std::int64_t last = std::clamp(end - position, std::int64_t{0}, n);
        if (last > first) take(e, from, first, last - first);
        position += n;
      }
      position = dims_.padded(position);  // every expert begins at a multiple
    }
  };
  for (int to = 0; to < dims_.ranks; ++to) {
    std::int64_t of_expert = to * dims_.local(), offset = own;  // where the rows of expert of_expert begin
    for_each_run(to, [&](std::int64_t expert, int from, std::int64_t first, std::int64_t n) {
      if (to == rank_) {
        receive_rows_[at(from)] += n;
        expert_rows_[at(expert - to * dims_.local())] += n;
      }
      if (from != rank_) return;
      for (; of_expert < expert; ++of_expert) offset += count(rank_, of_expert);
      if (send_rows_[at(to)] == 0) send_first_[at(to)] = offset + first;
      send_rows_[at(to)] += n;
    });
    for (std::int64_t e = to * dims_.local(); e < (to + 1) * dims_.local(); ++e) own += count(rank_, e);
  }
  std::int64_t padded = 0;
  for (std::size_t e = 0; e < expert_rows_.size(); ++e) {
    expert_first_[e] = padded;
    padded += dims_.padded(expert_rows_[e]);
  }
  std::exclusive_scan(receive_rows_.begin(), receive_rows_.end(), next_.begin(), std::int64_t{0});
  const auto narrow = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
  if (groups.first.data != nullptr) {
    std::ranges::transform(expert_first_, groups.first.as<std::int32_t>(), narrow);
    std::ranges::transform(expert_rows_, groups.rows.as<std::int32_t>(),
                           [&](std::int64_t n) { return narrow(dims_.padded(n)); });
  }
  if (arrived.data != nullptr) {
    auto* const from_place = reinterpret_cast<std::int32_t*>(arrived.data);
    auto* const to_place = reinterpret_cast<std::int32_t*>(place.data);
    std::fill(from_place, from_place + padded, -1);
    std::ranges::fill(row_, 0);
    for_each_run(rank_, [&](std::int64_t expert, int from, std::int64_t, std::int64_t n) {
      const std::size_t e = at(expert - rank_ * dims_.local());
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t arrival = next_[at(from)]++, row = expert_first_[e] + row_[e]++;
        from_place[row] = static_cast<std::int32_t>(arrival);
        to_place[arrival] = static_cast<std::int32_t>(row);
      }
    });
  }
  return {.send_first = send_first_,
          .send_rows = send_rows_,
          .receive_rows = receive_rows_,
          .expert_first = expert_first_,
          .expert_rows = expert_rows_,
          .sent = std::accumulate(send_rows_.begin(), send_rows_.end(), std::int64_t{0}),
          .received = std::accumulate(receive_rows_.begin(), receive_rows_.end(), std::int64_t{0}),
          .rows = padded};
}

}  // namespace shard8::model
