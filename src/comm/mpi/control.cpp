// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "comm/mpi/group.hpp"

// Small values that steer a run, and the comparison of clocks. None of them is recorded.

namespace shard8::comm {

namespace {

// Bytes of all ranks' values that a rank receives at once (chosen: one call for usual values of any job), or one
// value of every rank where that is more.
constexpr std::size_t kControlBytes = std::size_t{1} << 20;

// Values, of `bytes` bytes each, that a rank gives at once.
std::size_t at_once(const Group& group, std::size_t bytes) {
  return std::max<std::size_t>(kControlBytes / (static_cast<std::size_t>(group.size) * bytes), 1);
}

// Every rank's `mine`, in rank order; until the next call.
template <class T>
std::span<const T> gather_equal(Group& group, std::span<const T> mine) {
  SHARD8_REQUIRE(mine.size_bytes() <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
                 "all_gather of control values in group '{}': {} bytes are too many, use tensors", group.name,
                 mine.size_bytes());
  group.control.resize(mine.size_bytes() * static_cast<std::size_t>(group.size));
  const auto bytes = static_cast<int>(mine.size_bytes());
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(mine.data(), bytes, MPI_BYTE, group.control.data(), bytes, MPI_BYTE, group.comm, &request),
            "MPI_Iallgather", "control values", &group);
  group.wait(request, "MPI_Iallgather", "control values");
  return {reinterpret_cast<const T*>(group.control.data()), group.control.size() / sizeof(T)};
}

// Integers have the same sum in any order.
void reduce_values(Group& group, std::span<std::uint64_t> values, Communicator::Reduce reduce) {
  if (group.size == 1) return;
  constexpr std::size_t kMost = kControlBytes / sizeof(std::uint64_t);
  for (; !values.empty(); values = values.subspan(std::min(kMost, values.size()))) {
    const std::span<std::uint64_t> block = values.first(std::min(kMost, values.size()));
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, block.data(), static_cast<int>(block.size()), MPI_UINT64_T,
                             reduce == Communicator::Reduce::sum ? MPI_SUM : MPI_MAX, group.comm, &request),
              "MPI_Iallreduce", "control values", &group);
    group.wait(request, "MPI_Iallreduce", "control values");
  }
}

void reduce_values(Group& group, std::span<double> values, Communicator::Reduce reduce) {
  using T = double;
  if (group.size == 1) return;
  const std::size_t most = at_once(group, sizeof(T));
  for (; !values.empty(); values = values.subspan(std::min(most, values.size()))) {
    const std::span<T> block = values.first(std::min(most, values.size()));
    const std::span<const T> all = gather_equal<T>(group, block);
    for (std::size_t i = 0; i < block.size(); ++i) {
      T result = all[i];
      for (std::size_t at = i + block.size(); at < all.size(); at += block.size()) {
        if (reduce == Communicator::Reduce::sum) {
          result += all[at];
        } else {
          result = (result >= all[at] || result != result) ? result : all[at];  // NaN wins
        }
      }
      block[i] = result;
    }
  }
}

void broadcast_bytes(const Group& group, char* data, std::size_t bytes, int root) {
  for (std::size_t first = 0; first < bytes; first += group.engine->limits.message_bytes) {
    const auto n = static_cast<int>(std::min(group.engine->limits.message_bytes, bytes - first));
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(data + first, n, MPI_BYTE, root, group.comm, &request), "MPI_Ibcast", "broadcast", &group);
    group.wait(request, "MPI_Ibcast", "broadcast");
  }
}

}  // namespace

void Communicator::all_reduce(std::span<double> values, Reduce reduce) const { reduce_values(*group_, values, reduce); }

void Communicator::all_reduce(std::span<std::uint64_t> values, Reduce reduce) const {
  reduce_values(*group_, values, reduce);
}

std::vector<double> Communicator::all_gather(std::span<const double> values) const {
  const auto all = gather_equal(*group_, values);
  return {all.begin(), all.end()};
}

std::vector<std::string> Communicator::all_gather(std::string_view value) const {
  const std::uint64_t length = value.size();
  const auto gathered = gather_equal<std::uint64_t>(*group_, {&length, 1});
  const std::vector<std::uint64_t> lengths(gathered.begin(), gathered.end());
  const std::uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<std::string> values(lengths.size());
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) values[rank].reserve(lengths[rank]);
  std::vector<char> piece;
  for (std::uint64_t first = 0; first < longest; first += piece.size()) {
    piece.assign(std::min<std::uint64_t>(longest - first, at_once(*group_, 1)), '\0');
    if (first < value.size()) value.substr(first, piece.size()).copy(piece.data(), piece.size());
    const auto all = gather_equal<char>(*group_, piece);
    for (std::size_t rank = 0; rank < lengths.size(); ++rank)
      if (first < lengths[rank])
        values[rank].append(all.data() + rank * piece.size(),
                            std::min<std::uint64_t>(lengths[rank] - first, piece.size()));
  }
  return values;
}

namespace {

extern "C" void join_over_ranks(void* others, void* mine, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i)
    static_cast<profile::OverRanks*>(mine)[i].join(static_cast<const profile::OverRanks*>(others)[i]);
}

/// What MPI needs to reduce OverRanks.
class Reduction {
 public:
  explicit Reduction(const Group& group) {
    check_mpi(MPI_Type_contiguous(sizeof(profile::OverRanks), MPI_BYTE, &type), "MPI_Type_contiguous", "reduction",
              &group);
    check_mpi(MPI_Type_commit(&type), "MPI_Type_commit", "reduction", &group);
    check_mpi(MPI_Op_create(join_over_ranks, 1, &op), "MPI_Op_create", "reduction", &group);
  }
  ~Reduction() {
    if (op != MPI_OP_NULL) MPI_Op_free(&op);
    if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
  }
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
};

// Bytes of all ranks on `root`, in rank order; nothing elsewhere. Every rank gives as many.
std::vector<char> gather_bytes(const Group& group, std::span<const char> mine, int root) {
  std::vector<char> all(group.rank == root ? mine.size() * static_cast<std::size_t>(group.size) : 0);
  const auto bytes = static_cast<int>(mine.size());
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Igather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, root, group.comm, &request),
            "MPI_Igather", "control values", &group);
  group.wait(request, "MPI_Igather", "control values");
  return all;
}

}  // namespace

std::vector<profile::OverRanks> Communicator::over_ranks(std::span<const double> values) const {
  std::vector<profile::OverRanks> all;
  all.reserve(values.size());
  for (const double value : values) all.push_back(profile::OverRanks::of(value, rank_));
  if (size_ == 1 || all.empty()) return all;
  const Reduction reduction(*group_);
  constexpr std::size_t kMost = kControlBytes / sizeof(profile::OverRanks);
  for (std::size_t first = 0; first < all.size(); first += kMost) {
    const auto count = static_cast<int>(std::min(kMost, all.size() - first));
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(
        MPI_Iallreduce(MPI_IN_PLACE, all.data() + first, count, reduction.type, reduction.op, group_->comm, &request),
        "MPI_Iallreduce", "control values", group_.get());
    group_->wait(request, "MPI_Iallreduce", "control values");
  }
  return all;
}

std::vector<double> Communicator::gather(std::span<const double> values, int root) const {
  SHARD8_REQUIRE(values.size_bytes() <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
                 "gather of control values in group '{}': {} bytes are too many, use tensors", name(),
                 values.size_bytes());
  const auto bytes = gather_bytes(*group_, {reinterpret_cast<const char*>(values.data()), values.size_bytes()}, root);
  std::vector<double> all(bytes.size() / sizeof(double));
  if (!all.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

std::vector<std::string> Communicator::gather(std::string_view value, int root) const {
  std::array<std::uint64_t, 1> longest{value.size()};
  all_reduce(longest, Reduce::max);
  const double length = static_cast<double>(value.size());
  const std::vector<double> lengths = gather({&length, 1}, root);
  std::vector<std::string> values(lengths.size());
  std::vector<char> piece;
  for (std::uint64_t first = 0; first < longest[0]; first += piece.size()) {
    piece.assign(std::min<std::uint64_t>(longest[0] - first, at_once(*group_, 1)), '\0');
    if (first < value.size()) value.substr(first, piece.size()).copy(piece.data(), piece.size());
    const auto all = gather_bytes(*group_, piece, root);
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const auto end = static_cast<std::uint64_t>(lengths[rank]);
      if (first < end)
        values[rank].append(all.data() + rank * piece.size(), std::min<std::uint64_t>(end - first, piece.size()));
    }
  }
  return values;
}

void Communicator::broadcast(std::string& value, int root) const {
  SHARD8_REQUIRE(root >= 0 && root < size_, "broadcast in group '{}' from rank {}: its ranks are 0 to {}", name(), root,
                 size_ - 1);
  std::uint64_t length = value.size();
  broadcast_bytes(*group_, reinterpret_cast<char*>(&length), sizeof length, root);
  value.resize(length);
  broadcast_bytes(*group_, value.data(), value.size(), root);
}

void Communicator::barrier() const {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(group_->comm, &request), "MPI_Ibarrier", "barrier", group_.get());
  group_->wait(request, "MPI_Ibarrier", "barrier");
}

namespace {

// Round trips to each rank, of which the shortest counts. Chosen: 16,384 ranks take about two seconds.
constexpr int kRounds = 24;
constexpr int kTag = 32767;

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void send(const Group& group, const std::int64_t& value, int to) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(&value, 1, MPI_INT64_T, to, kTag, group.comm, &request), "MPI_Isend", "clock", &group);
  group.wait(request, "MPI_Isend", "clock");
}

std::int64_t receive(const Group& group, int from) {
  std::int64_t value = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(&value, 1, MPI_INT64_T, from, kTag, group.comm, &request), "MPI_Irecv", "clock", &group);
  group.wait(request, "MPI_Irecv", "clock");
  return value;
}

}  // namespace

ClockReading Communicator::compare_clocks() const {
  const Group& group = *group_;
  if (rank_ == 0) {
    for (int rank = 1; rank < size_; ++rank) {
      send(group, 0, rank);  // tells the rank that its turn has come
      for (int round = 0; round < kRounds; ++round) {
        receive(group, rank);
        send(group, now(), rank);
      }
    }
    return {.local_ns = now(), .ahead_ns = 0, .round_trip_ns = 0};
  }
  receive(group, 0);
  ClockReading best{.local_ns = 0, .ahead_ns = 0, .round_trip_ns = std::numeric_limits<std::int64_t>::max()};
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t sent = now();
    send(group, sent, 0);
    const std::int64_t root = receive(group, 0);
    const std::int64_t round_trip = now() - sent;
    const std::int64_t middle = sent + round_trip / 2;
    if (round_trip < best.round_trip_ns) best = {middle, root - middle, round_trip};
  }
  return best;
}

}  // namespace shard8::comm
