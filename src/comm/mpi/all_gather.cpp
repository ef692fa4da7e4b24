// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
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

}  // namespace shard8::comm
