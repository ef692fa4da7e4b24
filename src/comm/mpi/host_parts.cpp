// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/host_parts.hpp"

#include "base/error.hpp"
#include "comm/describe.hpp"
#include "comm/mpi/sums.hpp"

namespace shard8::comm {

void HostParts::require_rank(int rank, std::string_view call) const {
  SHARD8_REQUIRE(rank >= 0 && rank < group_->size, "{} of rank {} for {} in group '{}': its ranks are 0 to {}", call,
                 rank, label_, group_->name, group_->size - 1);
}

void HostGather::await(int rank) {
  require_rank(rank, "await");
  if (rank != group_->rank) block([&] { return missing(rank); });
}

tensor::Tensor HostGather::part(std::size_t i, int rank) const {
  require_rank(rank, "part");
  tensor::Tensor t = own_.at(i);
  if (rank != group_->rank) t.data = rows(i, rank);
  return t;
}

void HostGather::finish() {
  for (int k = 1; k < group_->size; ++k) await(from(k));
  block([&] { return advance() ? std::nullopt : std::optional(peer()); });  // this rank's messages
  record(exposed_);
}

void HostScatter::give(int rank) {
  require_rank(rank, "give");
  char& given = given_[static_cast<std::size_t>(rank)];
  SHARD8_REQUIRE(given == 0, "reduce_scatter for {} in group '{}': the rows of rank {} are given twice", label_,
                 group_->name, rank);
  if (given_count_ == 0) begin_now();
  if (rank != group_->rank) hand_over(rank);
  given = 1;
  ++given_count_;
}

void HostScatter::finish() {
  SHARD8_REQUIRE(all_given(), "reduce_scatter for {} in group '{}': only {} of {} ranks' rows are given", label_,
                 group_->name, given_count_, group_->size);
  const auto exposed = exposed_;
  const auto entered = Clock::now();
  finishing_ = true;
  block([&] { return advance() ? std::nullopt : std::optional(absent()); });
  record(exposed + (Clock::now() - entered));
}

bool HostScatter::abandon() noexcept {
  finishing_ = true;
  return PendingCollective::abandon();
}

bool HostScatter::next_stage() {
  if (!all_given()) return true;  // abandoned
  for (int rank = 0; rank < group_->size; ++rank) sources_.push_back(summands(rank));
  if (!item_.addend.empty()) sources_.push_back(item_.addend.data);
  sum_in_order(item_.out.data, sources_, item_.out.count(), item_.out.dtype);
  return true;
}

}  // namespace shard8::comm
