// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/shared_window.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "comm/host_waits.hpp"
#include "comm/mpi/group.hpp"
#include "comm/node.hpp"
#include "tensor/alignment.hpp"

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
  // Ranks read and write the memory directly, and order that by atomic numbers. MPI asks for an epoch.
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

}  // namespace shard8::comm
