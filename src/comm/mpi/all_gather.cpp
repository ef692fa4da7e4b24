// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
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

// Every shard is sent straight to its place in the whole, and no other memory is needed. (Two other ways were measured
// and are slower: one message a peer of a derived type, which copies twice, and one library collective a tensor, which
// takes more turns.)
class PendingAllGather final : public PendingCollective {
 public:
  PendingAllGather(std::shared_ptr<Group> group, std::span<const tensor::Tensor> whole,
                   std::span<const tensor::Tensor> own, std::string_view label)
      : PendingCollective(std::move(group), profile::Collective::all_gather, whole, label) {
    const Limits& limits = group_->engine->limits;
    const auto shard_bytes = [this](const tensor::Tensor& t) {
      return t.bytes() / static_cast<std::size_t>(group_->size);
    };
    const auto shard = [&](const tensor::Tensor& t, int rank) {
      return t.data + static_cast<std::size_t>(rank) * shard_bytes(t);
    };
    const auto direct = [&](const tensor::Tensor& t) {
      return group_->size <= limits.direct_ranks || shard_bytes(t) > limits.message_bytes;
    };
    for (const tensor::Tensor& t : whole) {
      if (!direct(t)) continue;
      for (int k = 1; k < group_->size; ++k) receive(shard(t, source(k)), shard_bytes(t), source(k));
    }
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const tensor::Tensor& t = whole[i];
      const OwnRows rows = own_rows(whole, own, i, group_->rank, group_->size);
      if (direct(t)) {
        for (int k = 1; k < group_->size; ++k) send(rows.data, rows.bytes, destination(k));
        if (rows.elsewhere()) group_->copy(rows.place, own[i]);
      } else if (!t.empty()) {
        const int bytes = static_cast<int>(rows.bytes);
        check_mpi(MPI_Iallgather(rows.elsewhere() ? rows.data : MPI_IN_PLACE, bytes, MPI_BYTE, t.data, bytes, MPI_BYTE,
                                 group_->comm, &requests_.emplace_back(MPI_REQUEST_NULL)),
                  "MPI_Iallgather", "all_gather", group_.get());
      }
    }
  }

 private:
  bool next_stage() override { return true; }
};

}  // namespace

Request Communicator::all_gather_in_place(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
                                          std::string_view label, OwnPart own_part) const {
  SHARD8_REQUIRE(own.empty() || own.size() == whole.size(),
                 "all_gather in group '{}': own rows of {} tensors are given for {}", name(), own.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    require_data(whole[i], *group_, "all_gather");
    require_rows(whole[i], *group_, "all_gather");
    if (!own.empty() && !own[i].empty()) require_shard(whole[i], own[i]);
  }
  if (size_ == 1) {
    for (std::size_t i = 0; i < own.size(); ++i)
      if (!own[i].empty()) group_->copy(whole[i].data, own[i]);
    return {};
  }
  if (DeviceGroup* device = group_->on_device("all_gather"))
    return Request(device->all_gather_in_place(whole, own, label, own_part));
  return Request(PendingCollective::make<PendingAllGather>(group_, whole, own, label));
}

Request Communicator::all_gather_columns(const tensor::Tensor& whole, const tensor::Tensor& own,
                                         const tensor::Tensor& through, std::string_view label,
                                         OwnPart own_part) const {
  const bool shapes = whole.shape.rank() == 2 && own.shape.rank() == 2 && whole.rows() == own.rows() &&
                      whole.cols() == own.cols() * size_ && whole.dtype == own.dtype;
  SHARD8_REQUIRE(shapes && through.bytes() >= whole.bytes(),
                 "all_gather by columns in group '{}': {} {} of {} ranks into {} {}, through {} bytes", name(),
                 tensor::name_of(own.dtype), tensor::to_string(own.shape), size_, tensor::name_of(whole.dtype),
                 tensor::to_string(whole.shape), through.bytes());
  DeviceGroup* const device = size_ > 1 ? group_->on_device("all_gather by columns") : nullptr;
  SHARD8_REQUIRE(device != nullptr, "all_gather by columns in group '{}': only devices of several ranks have it",
                 name());
  return Request(device->all_gather_columns(whole, own, through, label, own_part));
}

void Communicator::require_shard(const tensor::Tensor& whole, const tensor::Tensor& shard) const {
  SHARD8_REQUIRE(whole.dtype == shard.dtype && whole.count() == shard.count() * size_,
                 "all_gather in group '{}': {} of {} cannot hold {} times {} of {}", name(), to_string(whole.shape),
                 name_of(whole.dtype), size_, to_string(shard.shape), name_of(shard.dtype));
  require_data(shard, *group_, "all_gather");
}

void Communicator::all_gather(const tensor::Tensor& out, const tensor::Tensor& in) const {
  require_shard(out, in);
  all_gather_in_place({&out, 1}, {&in, 1}).wait();
}

// All-to-all with counts for each peer, and send_receive, which is one part of an all-to-all.

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
