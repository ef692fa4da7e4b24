// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/host_parts.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "comm/host_waits.hpp"
#include "comm/mpi/group.hpp"
#include "comm/node.hpp"
#include "tensor/dtype.hpp"

namespace shard8::comm {
namespace {

constexpr unsigned char kRubbish = 0xa5;
constexpr std::string_view kPurpose = "memory that ranks share";

/// Fills memory with zeros, so that its pages exist. Where the node has no room for them, the system call ends with an
/// error. A write of this process would end it with SIGBUS. Returns the bytes that could be filled.
std::size_t fill_with_zeros(std::byte* memory, std::size_t bytes) {
  const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  if (zeros < 0) return 0;
  std::size_t filled = 0;
  while (filled < bytes) {
    const ssize_t more = ::read(zeros, memory + filled, bytes - filled);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    filled += static_cast<std::size_t>(more);
  }
  ::close(zeros);
  return filled;
}

/// Throws Error(environment) unless /dev/shm, where MPI makes shared memory, has room for `bytes` bytes.
void require_room(std::size_t bytes, const std::string& group) {
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) != 0) return;  // MPI makes it elsewhere
  const std::size_t room = static_cast<std::size_t>(shm.f_bavail) * shm.f_frsize;
  if (bytes > room)
    base::fail(base::ExitCode::environment,
               "the ranks of group '{}' cannot share {} bytes: /dev/shm has room for {}; give it more", group, bytes,
               room);
}

}  // namespace

std::size_t SharedWindow::words_bytes(int ranks) {
  return tensor::aligned(kLine * static_cast<std::size_t>(kGiven + ranks));
}

std::size_t SharedWindow::bytes_of(std::size_t gather_bytes, std::size_t scatter_bytes, int ranks) {
  return words_bytes(ranks) + 2 * tensor::aligned(gather_bytes) + tensor::aligned(scatter_bytes);
}

SharedWindow::SharedWindow(const Communicator& group, MPI_Comm comm, std::size_t gather_bytes,
                           std::size_t scatter_bytes)
    : PeerAddresses(group.rank(), std::vector<std::byte*>(static_cast<std::size_t>(group.size()), nullptr),
                    bytes_of(gather_bytes, scatter_bytes, group.size())),
      group_(group.same()),
      gather_bytes_(tensor::aligned(gather_bytes)),
      scatter_bytes_(tensor::aligned(scatter_bytes)) {
  const HostWaits::Wait wait(group_.waits(), {"making memory that ranks share", group_.name(), rank(), size()});
  const Node node = survey_node(comm, group_.waits());
  agree(group_, [&] {
    if (node.ranks != size())
      base::fail(base::ExitCode::environment, "the ranks of group '{}' are on several nodes", group_.name());
    require_room(static_cast<std::size_t>(size()) * allocated_bytes(), group_.name());
  });
  const int status = allocate(comm);
  // A window that only some ranks have is not freed, because that takes all ranks.
  agree(group_, [&] { require_window(status); });
  try {
    agree(group_, [&] {
      clear();
      query();
    });
  } catch (const AgreedError&) {  // thrown by all ranks
    MPI_Win_free(&window_);
    throw;
  }
  // Ranks read and write the memory directly, and order that by atomic numbers. MPI requires an epoch.
  check_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all", kPurpose, nullptr);
}

SharedWindow::~SharedWindow() {
  int finalized = 0;
  if (std::uncaught_exceptions() > 0) return;  // others may still read
  if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
  const HostWaits::Wait wait(group_.waits(), {"freeing memory that ranks share", group_.name(), rank(), size()});
  group_.barrier();
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

/// Collective. Returns MPI's status.
int SharedWindow::allocate(MPI_Comm comm) {
  MPI_Info info = MPI_INFO_NULL;
  check_mpi(MPI_Info_create(&info), "MPI_Info_create", kPurpose, nullptr);
  check_mpi(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set", kPurpose, nullptr);
  const int status =
      MPI_Win_allocate_shared(static_cast<MPI_Aint>(allocated_bytes()), 1, info, comm, &allocated_, &window_);
  check_mpi(MPI_Info_free(&info), "MPI_Info_free", kPurpose, nullptr);
  return status;
}

/// Throws Error(environment) unless `status` of allocate() is success.
void SharedWindow::require_window(int status) const {
  try {
    check_mpi(status, "MPI_Win_allocate_shared", kPurpose, nullptr);
  } catch (const base::Error& e) {
    base::fail(base::ExitCode::environment, "cannot allocate {} bytes that the ranks of group '{}' share: {}", bytes(),
               group_.name(), e.what());
  }
}

void SharedWindow::clear() const {
  const std::size_t filled = fill_with_zeros(allocated_, allocated_bytes());
  if (filled < allocated_bytes())
    base::fail(base::ExitCode::environment,
               "of {} bytes that rank {} shares in group '{}' only {} could be had; give /dev/shm more room",
               allocated_bytes(), rank(), group_.name(), filled);
}

void SharedWindow::query() {
  for (int r = 0; r < size(); ++r) {
    MPI_Aint bytes_there = 0;
    int unit = 0;
    std::byte* base = nullptr;
    check_mpi(MPI_Win_shared_query(window_, r, &bytes_there, &unit, &base), "MPI_Win_shared_query", kPurpose, nullptr);
    // Pages are mapped at multiples of pages, so every rank rounds up by the same bytes.
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    base_[static_cast<std::size_t>(r)] = base + (tensor::aligned(address) - address);
  }
}

std::uint32_t SharedWindow::load(int rank, int word) const {
  auto& number = *reinterpret_cast<std::uint32_t*>(of(rank) + static_cast<std::size_t>(word) * kLine);
  return std::atomic_ref(number).load(std::memory_order_acquire);
}

void SharedWindow::store(int word, std::uint32_t number) {
  auto& there = *reinterpret_cast<std::uint32_t*>(own() + static_cast<std::size_t>(word) * kLine);
  std::atomic_ref(there).store(number, std::memory_order_release);
}

void SharedWindow::spoil(std::byte* slot, std::size_t bytes) const {
  if (poison_) std::memset(slot, kRubbish, bytes);
}

std::uint32_t SharedWindow::begin_gather(std::size_t bytes, std::string_view label) {
  SHARD8_REQUIRE(bytes <= gather_bytes_, "all_gather for {} in group '{}': {} bytes of own rows in memory for {}",
                 label, group_.name(), bytes, gather_bytes_);
  bool& open = open_[(begun_ + 1) % 2];
  SHARD8_REQUIRE(!open, "all_gather for {} in group '{}': two are under way in its memory, finish one first", label,
                 group_.name());
  open = true;
  return ++begun_;
}

std::optional<int> SharedWindow::awaited(Word word, std::uint32_t number) const {
  for (int r = 0; r < size(); ++r) {
    if (r != rank() && !reached(load(r, word), number)) return r;
  }
  return std::nullopt;
}

std::byte* SharedWindow::rows(int rank, std::uint32_t gather) const {
  return of(rank) + words_bytes(size()) + gather % 2 * gather_bytes_;
}

void SharedWindow::publish(std::uint32_t gather) {
  written_ = gather;
  store(kGathered, gather);
}

void SharedWindow::finish_gather(std::uint32_t gather) {
  open_[gather % 2] = false;
  while (read_ != begun_ && !open_[(read_ + 1) % 2]) ++read_;  // a later one may have been finished before
  store(kRead, read_);
}

std::uint32_t SharedWindow::begin_scatter(std::size_t bytes, std::string_view label) {
  SHARD8_REQUIRE(bytes <= scatter_bytes_, "reduce_scatter for {} in group '{}': a whole of {} bytes in memory for {}",
                 label, group_.name(), bytes, scatter_bytes_);
  SHARD8_REQUIRE(load(rank(), kSummed) == scatter_,
                 "reduce_scatter for {} in group '{}': one is under way in its memory, finish it first", label,
                 group_.name());
  return ++scatter_;
}

std::byte* SharedWindow::partial_sums(int rank) const { return of(rank) + words_bytes(size()) + 2 * gather_bytes_; }

// Exchanges in memory that the ranks of a node share. No messages are sent.

namespace {

using Item = Communicator::ReduceScatterItem;
using tensor::Tensor;

std::size_t bytes_of(std::span<const Tensor> tensors) {
  std::size_t bytes = 0;
  for (const Tensor& t : tensors) bytes += tensor::aligned(t.bytes());
  return bytes;
}

/// Each rank copies its rows to its slot, where the peers read them. A rank copies when the peers have read what the
/// slot held before, in whatever the rank waits for then.
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
  bool written_ = false;                   ///< this rank has written its slot
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
