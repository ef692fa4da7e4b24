// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Exchanges in memory that the ranks of a node share. No messages are sent.

#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "comm/mpi/host_parts.hpp"
#include "comm/mpi/shared_window.hpp"
#include "tensor/alignment.hpp"

namespace shard8::comm {
namespace {

using Item = Communicator::ReduceScatterItem;
using tensor::Tensor;

std::size_t bytes_of(std::span<const Tensor> tensors) {
  std::size_t bytes = 0;
  for (const Tensor& t : tensors) bytes += tensor::aligned(t.bytes());
  return bytes;
}

/// Each rank copies its rows to its slot, where the peers read them. It does so when the peers have read what the slot
/// held before, in whatever the rank waits for then.
class WindowGather final : public HostGather {
 public:
  WindowGather(std::shared_ptr<Group> group, std::shared_ptr<SharedWindow> window, std::span<const Tensor> whole,
               std::span<const Tensor> own, std::string_view label)
      : HostGather(std::move(group), whole, own, label),
        window_(std::move(window)),
        number_(window_->begin_gather(bytes_of(own), label)),
        offsets_(&group_->memory) {
    std::size_t offset = 0;
    for (const Tensor& t : own_) {
      offsets_.push_back(offset);
      offset += tensor::aligned(t.bytes());
    }
    advance();
  }

  bool staged() const override { return !written_; }
  void finish() override {
    HostGather::finish();
    window_->finish_gather(number_);
  }
  bool abandon() noexcept override { return true; }
  void give_back() noexcept override { PendingCollective::give_back<WindowGather>(this); }

 private:
  void write() {
    std::byte* const slot = window_->rows(group_->rank, number_);
    window_->spoil(slot, bytes_of(own_));
    for (std::size_t i = 0; i < own_.size(); ++i) {
      if (!own_[i].empty()) std::memcpy(slot + offsets_[i], own_[i].data, own_[i].bytes());
    }
    window_->publish(number_);
    written_ = true;
  }

  /// Writes this rank's slot if that may be done. Returns who is waited for, if it may not.
  std::optional<int> write_if_free() {
    if (written_) return std::nullopt;
    if (!window_->is_next(number_)) return HostWaits::kNoPeer;
    const auto reader = window_->before_write(number_);
    if (!reader) write();
    return reader;
  }

  /// A rank that has waited for peers may compute for long. Before, it writes its own rows: peers wait for them, too.
  std::optional<int> missing(int peer) override {
    if (const auto reader = write_if_free()) return reader;
    return window_->published(peer, number_) ? std::nullopt : std::optional(peer);
  }

  bool ready() override {
    for (int k = 1; k < group_->size; ++k) {
      if (missing(from(k))) return false;
    }
    return true;
  }

  std::byte* rows(std::size_t i, int peer) const override { return window_->rows(peer, number_) + offsets_[i]; }

  std::shared_ptr<SharedWindow> window_;
  std::uint32_t number_;
  std::pmr::vector<std::size_t> offsets_;  ///< of each tensor's rows in a slot
  bool written_ = false;                   ///< this rank's slot
};

/// Each rank writes its partial sums to its slot, where the peers read and sum them.
class WindowScatter final : public HostScatter {
 public:
  WindowScatter(std::shared_ptr<Group> group, std::shared_ptr<SharedWindow> window, const Item& item,
                std::string_view label)
      : HostScatter(std::move(group), item, label),
        window_(std::move(window)),
        number_(window_->begin_scatter(item.whole.bytes(), label)) {}

  Tensor whole() override {
    Tensor t = item_.whole;
    t.data = window_->partial_sums(group_->rank);
    if (!writable_) {
      block([&] { return window_->before_partial_sums(number_); });
      window_->spoil(t.data, t.bytes());
      writable_ = true;
    }
    return t;
  }

  void finish() override {
    HostScatter::finish();
    window_->finish_scatter(number_);
  }
  bool abandon() noexcept override { return true; }
  void give_back() noexcept override { PendingCollective::give_back<WindowScatter>(this); }

 private:
  void hand_over(int peer) override {
    SHARD8_REQUIRE(writable_, "reduce_scatter for {} in group '{}': rows are given before whole() was called", label_,
                   group_->name);
    window_->give(peer, number_);
  }

  const std::byte* partial_sums(int rank) const override {
    return window_->partial_sums(rank) + static_cast<std::size_t>(group_->rank) * item_.out.bytes();
  }

  int absent() const override {
    for (int k = 1; k < group_->size; ++k) {
      if (!window_->given(from(k), number_)) return from(k);
    }
    return HostWaits::kNoPeer;
  }
  bool ready() override { return HostScatter::ready() && absent() == HostWaits::kNoPeer; }

  std::shared_ptr<SharedWindow> window_;
  std::uint32_t number_;
  bool writable_ = false;  ///< peers have read what the slot held before
};

}  // namespace

GatherExchangePtr gather_in_window(const std::shared_ptr<Group>& group, const std::shared_ptr<SharedWindow>& window,
                                   std::span<const Tensor> whole, std::span<const Tensor> own, std::string_view label) {
  return GatherExchangePtr(make_exchange<WindowGather>(group, window, whole, own, label));
}

ScatterExchangePtr scatter_in_window(const std::shared_ptr<Group>& group, const std::shared_ptr<SharedWindow>& window,
                                     const Item& item, std::string_view label) {
  return ScatterExchangePtr(make_exchange<WindowScatter>(group, window, item, label));
}

}  // namespace shard8::comm
