// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// All-to-all with counts for each peer, and send_receive, which is one part of an all-to-all.

#include <cstdint>
#include <memory_resource>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "comm/describe.hpp"
#include "comm/device.hpp"
#include "comm/mpi/group.hpp"
#include "comm/mpi/pending.hpp"

namespace shard8::comm {
namespace {

using tensor::Tensor;

class PendingExchange final : public PendingCollective {
 public:
  PendingExchange(std::shared_ptr<Group> group, profile::Collective op, std::span<const Tensor> sent,
                  std::span<const PeerPart> parts, std::string_view label)
      : PendingCollective(std::move(group), op, sent, label) {
    const auto own = [this](const PeerPart& part) { return part.to == group_->rank; };
    for (const PeerPart& part : parts)
      if (!own(part)) receive(part.out.data, part.out.bytes(), part.from, Ending::with_short);
    for (const PeerPart& part : parts)
      if (!own(part)) send(part.in.data, part.in.bytes(), part.to, Ending::with_short);
    for (const PeerPart& part : parts)
      if (own(part)) group_->copy(part.out.data, part.in);
  }

 private:
  bool next_stage() override { return true; }
};

/// Throws unless a rank's tensors of one item are of one kind, have memory and do not overlap.
void require_apart(const Tensor& out, const Tensor& in, const Group& group, std::string_view operation) {
  SHARD8_REQUIRE(out.dtype == in.dtype, "{} in group '{}': {} of {} is sent, but {} of {} is received", operation,
                 group.name, to_string(in.shape), name_of(in.dtype), to_string(out.shape), name_of(out.dtype));
  require_data(in, group, operation);
  require_data(out, group, operation);
  SHARD8_REQUIRE(out.empty() || in.empty() || out.data + out.bytes() <= in.data || in.data + in.bytes() <= out.data,
                 "{} in group '{}': the tensor {} that is received overlaps {}, which is sent", operation, group.name,
                 to_string(out.shape), to_string(in.shape));
}

std::int64_t sum_of(std::span<const std::int64_t> rows) {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

void require_item(const Communicator::AllToAllItem& item, const Group& group) {
  const auto ranks = static_cast<std::size_t>(group.size), own = static_cast<std::size_t>(group.rank);
  const auto require_counts = [&](std::span<const std::int64_t> rows, const Tensor& t, std::string_view what) {
    SHARD8_REQUIRE(rows.size() == ranks, "all_to_all in group '{}': {} counts of rows to {} for {} ranks", group.name,
                   rows.size(), what, ranks);
    for (const std::int64_t n : rows)
      SHARD8_REQUIRE(n >= 0 && n <= t.rows(), "all_to_all in group '{}': {} rows to {} of {}", group.name, n, what,
                     to_string(t.shape));
    SHARD8_REQUIRE(sum_of(rows) <= t.rows(), "all_to_all in group '{}': {} rows to {}, but the tensor is {}",
                   group.name, sum_of(rows), what, to_string(t.shape));
  };
  require_counts(item.send_rows, item.in, "send");
  require_counts(item.receive_rows, item.out, "receive");
  require_apart(item.out.slice(0, sum_of(item.receive_rows)), item.in.slice(0, sum_of(item.send_rows)), group,
                "all_to_all");
  SHARD8_REQUIRE(item.out.cols() == item.in.cols() && item.send_rows[own] == item.receive_rows[own],
                 "all_to_all in group '{}': rank {} gives itself {} rows of {} and takes {} rows of {}", group.name,
                 own, item.send_rows[own], to_string(item.in.shape), item.receive_rows[own], to_string(item.out.shape));
}

}  // namespace

Request Communicator::exchange(profile::Collective op, std::span<const Tensor> sent, std::span<const PeerPart> parts,
                               std::string_view label) const {
  if (size_ == 1) {
    for (const PeerPart& part : parts) group_->copy(part.out.data, part.in);
    return {};
  }
  if (DeviceGroup* device = group_->on_device(name_of(op))) return Request(device->exchange(op, sent, parts, label));
  return Request(PendingCollective::make<PendingExchange>(group_, op, sent, parts, label));
}

Request Communicator::all_to_all(std::span<const AllToAllItem> items, std::string_view label) const {
  std::pmr::vector<Tensor> sent(&group_->memory);
  std::pmr::vector<PeerPart> parts(items.size() * static_cast<std::size_t>(size_), &group_->memory);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const AllToAllItem& item = items[i];
    require_item(item, *group_);
    sent.push_back(item.in.slice(0, sum_of(item.send_rows)));
    // Ranks begin with different peers, 1 further on, and end with themselves.
    const auto part = [&](int distance) -> PeerPart& {
      return parts[static_cast<std::size_t>((distance + size_ - 1) % size_) * items.size() + i];
    };
    std::int64_t in_row = 0, out_row = 0;
    for (int rank = 0; rank < size_; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      part(rank - rank_).to = rank;
      part(rank - rank_).in = item.in.slice(in_row, item.send_rows[r]);
      part(rank_ - rank).from = rank;
      part(rank_ - rank).out = item.out.slice(out_row, item.receive_rows[r]);
      in_row += item.send_rows[r];
      out_row += item.receive_rows[r];
    }
  }
  return exchange(profile::Collective::all_to_all, sent, parts, label);
}

Request Communicator::send_receive(std::span<const SendReceiveItem> items, int distance, std::string_view label) const {
  std::pmr::vector<Tensor> sent(&group_->memory);
  std::pmr::vector<PeerPart> parts(&group_->memory);
  const int forward = (distance % size_ + size_) % size_;
  for (const auto& [out, in] : items) {
    require_apart(out, in, *group_, "send_receive");
    SHARD8_REQUIRE(forward != 0 || out.count() == in.count(), "send_receive in group '{}': {} to itself as {}", name(),
                   to_string(in.shape), to_string(out.shape));
    sent.push_back(in);
    parts.push_back({(rank_ + forward) % size_, (rank_ - forward + size_) % size_, out, in});
  }
  return exchange(profile::Collective::send_receive, sent, parts, label);
}

}  // namespace shard8::comm
