// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "comm/check.hpp"
#include "comm/communicator.hpp"
#include "comm/describe.hpp"
#include "comm/device.hpp"
#include "comm/pending.hpp"

namespace shard8::comm {
namespace {

// Every shard goes straight to where it belongs, no memory beside it. (Measured beside one message
// a peer by a derived type, which copies twice, and one library collective a tensor, which takes more turns.)
class PendingAllGather final : public PendingCollective {
 public:
  PendingAllGather(std::shared_ptr<Group> group, std::span<const tensor::Tensor> whole)
      : PendingCollective(std::move(group), profile::Collective::all_gather, whole) {
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
    for (const tensor::Tensor& t : whole) {
      if (direct(t)) {
        for (int k = 1; k < group_->size; ++k) send(shard(t, group_->rank), shard_bytes(t), destination(k));
      } else if (!t.empty()) {
        check_mpi(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, t.data, static_cast<int>(shard_bytes(t)), MPI_BYTE,
                                 group_->comm, &requests_.emplace_back(MPI_REQUEST_NULL)),
                  "MPI_Iallgather", "all_gather", group_.get());
      }
    }
  }

 private:
  bool next_stage() override { return true; }
};

}  // namespace

Request Communicator::all_gather_in_place(std::span<const tensor::Tensor> whole) const {
  if (size_ == 1) return {};
  for (const tensor::Tensor& t : whole) {
    require_data(t, *group_, "all_gather");
    require_rows(t, *group_, "all_gather");
  }
  if (DeviceGroup* device = group_->on_device("all_gather")) return Request(device->all_gather_in_place(whole));
  return Request(std::make_unique<PendingAllGather>(group_, whole));
}

void Communicator::all_gather(const tensor::Tensor& out, const tensor::Tensor& in) const {
  SHARD8_REQUIRE(out.dtype == in.dtype && out.count() == in.count() * size_,
                 "all_gather in group '{}': {} of {} cannot hold {} times {} of {}", name(), to_string(out.shape),
                 name_of(out.dtype), size_, to_string(in.shape), name_of(in.dtype));
  require_data(out, *group_, "all_gather");
  require_data(in, *group_, "all_gather");
  if (size_ > 1) {
    if (DeviceGroup* device = group_->on_device("all_gather")) return Request(device->all_gather(out, in)).wait();
  }
  group_->copy(out.data + static_cast<std::size_t>(rank_) * in.bytes(), in);
  if (size_ == 1) return;
  PendingAllGather pending(group_, {&out, 1});
  pending.wait();
}

}  // namespace shard8::comm
