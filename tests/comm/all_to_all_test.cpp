// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "comm/device.hpp"
#include "comm/host_waits.hpp"
#include "profile/trace_recorder.hpp"
#include "tests/comm/all_to_all.hpp"

namespace shard8::comm::tests {
namespace {

using tensor::DType;
using tensor::Tensor;

TEST(AllToAll, equals_plain_mpi) {
  const Communicator group = world();
  for (const DType dtype : kExchanged) {
    for (const Counts counts : kCounts) {
      AllToAll one(group, dtype, 3, counts, 1);
      group.all_to_all(std::array{one.item()}).wait();
      EXPECT_EQ(one.out.bytes(), one.expected()) << name_of(dtype);
    }
  }
}

/// Tensors of several dtypes and counts in one call, beginning with one that nobody sends anything of.
void exchange_several(const Communicator& group) {
  std::vector<AllToAll> all;
  all.emplace_back(group, DType::u8, 4, &counts_of_none, 2);
  for (const DType dtype : kExchanged)
    for (const Counts counts : kCounts) all.emplace_back(group, dtype, 5, counts, static_cast<int>(all.size()));
  std::vector<Communicator::AllToAllItem> items;
  for (AllToAll& one : all) items.push_back(one.item());
  group.all_to_all(items, "experts").wait();
  for (AllToAll& one : all) EXPECT_EQ(one.out.bytes(), one.expected()) << name_of(one.out.dtype());
}

TEST(AllToAll, several_tensors_in_one_call) {
  exchange_several(world());
  exchange_several(world(nullptr, Waiting::spin));
}

// 60 and 240 bytes: parts that end with a whole message.
TEST(AllToAll, messages_longer_than_the_limit_are_cut) {
  for (const std::size_t bytes : {60u, 240u, 1001u}) exchange_several(world(Limits{.message_bytes = bytes}));
  exchange_several(world(Limits{.message_bytes = 1001, .direct_ranks = 1}));
  const Communicator group = world(Limits{.message_bytes = 1});
  AllToAll one(group, DType::e4m3, 1, &unequal_counts, 1);
  group.all_to_all(std::array{one.item()}).wait();
  EXPECT_EQ(one.out.bytes(), one.expected());
}

TEST(AllToAll, rows_behind_the_counts_stay_as_they_are) {
  const Communicator group = world();
  AllToAll one(group, DType::bf16, 2, &unequal_counts, 3);
  Buffer in({one.in.count() / 2 + 7, 2}, DType::bf16), out({one.out.count() / 2 + 5, 2}, DType::bf16);
  std::copy(one.in.bytes().begin(), one.in.bytes().end(), in.bytes().begin());
  group.all_to_all(std::array{Communicator::AllToAllItem{out.tensor(), in.tensor(), one.receive_rows, one.send_rows}})
      .wait();
  auto expected = one.expected();
  expected.resize(out.bytes().size(), std::byte{0xee});
  EXPECT_EQ(out.bytes(), expected);
}

TEST(AllToAll, of_nothing) {
  const Communicator group = world();
  group.all_to_all({}).wait();
  group.send_receive({}, 1).wait();
  AllToAll none(group, DType::fp32, 4, &counts_of_none, 0);
  group.all_to_all(std::array{none.item()}).wait();
}

TEST(SendReceive, equals_plain_mpi) {
  for (const std::size_t limit : {Limits{}.message_bytes, std::size_t{1000}}) {
    const Communicator group = world(Limits{.message_bytes = limit});
    for (const int distance : {1, -1, 2, -3, 0, group.size()}) {
      std::vector<Shift> all;
      for (const DType dtype : kExchanged) all.emplace_back(group, dtype, distance, static_cast<int>(all.size()));
      std::vector<Communicator::SendReceiveItem> items;
      for (Shift& one : all) items.push_back(one.item());
      group.send_receive(items, distance, "attention").wait();
      for (Shift& one : all) EXPECT_EQ(one.out.bytes(), one.expected()) << distance << ' ' << name_of(one.out.dtype());
    }
  }
}

// With gathers and sums under way in the same group and in another; ranks wait in different orders.
TEST(AllToAll, several_with_other_collectives) {
  const Communicator group = world();
  const Communicator other = group.split(0, group.size() - group.rank(), "reversed");
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, group.size() - group.rank(), &reversed);
  for (int round = 0; round < 5; ++round) {
    std::vector<AllToAll> all;
    std::vector<Shift> shifts;
    for (int i = 0; i < 3; ++i) {
      all.emplace_back(i == 2 ? other : group, DType::bf16, 64, &unequal_counts, 10 * round + i,
                       i == 2 ? reversed : MPI_COMM_WORLD);
      shifts.emplace_back(group, DType::fp32, i - 1, 20 * round + i);
    }
    Buffer own({500}, DType::fp32), whole({500 * group.size()}, DType::fp32), sum({3000}, DType::fp32);
    own.fill(group.rank(), round);
    sum.fill(group.rank(), round + 1);
    std::vector<Request> requests;
    requests.push_back(group.all_to_all(std::array{all[0].item()}));
    requests.push_back(group.all_gather_in_place(std::array{whole.tensor()}, std::array{own.tensor()}));
    requests.push_back(group.all_to_all(std::array{all[1].item()}));
    requests.push_back(group.all_reduce(std::array{sum.tensor()}, Communicator::Reduce::sum));
    requests.push_back(other.all_to_all(std::array{all[2].item()}));
    for (int i = 0; i < 3; ++i)
      requests.push_back(group.send_receive(std::array{shifts[static_cast<std::size_t>(i)].item()}, i - 1));
    for (std::size_t i = 0; i < requests.size(); ++i)
      requests[(i * (group.rank() % 2 == 0 ? 1 : 7) + static_cast<std::size_t>(group.rank())) % 8].wait();
    for (AllToAll& one : all) EXPECT_EQ(one.out.bytes(), one.expected());
    for (Shift& one : shifts) EXPECT_EQ(one.out.bytes(), one.expected());
    EXPECT_EQ(whole.bytes(), plain_all_gather(own.bytes(), group.size()));
    EXPECT_TRUE(same_everywhere(sum.bytes(), group.size()));
  }
  MPI_Comm_free(&reversed);
}

// The log has one entry for all counts. The trace and the watcher are told the bytes that each call gives.
TEST(AllToAll, is_recorded_with_the_bytes_that_are_given) {
  profile::TraceRecorder trace({{0, 0}}, 0);
  profile::CollectiveLog log;
  std::vector<std::uint64_t> issued, recorded;
  log.set_watcher({[&](const profile::CollectiveKey& call) { issued.push_back(call.bytes); },
                   [&](const profile::CollectiveKey& call) { recorded.push_back(call.bytes); }});
  log.set_trace(&trace);
  trace.begin_step();
  const Communicator group = world(&log);
  AllToAll one(group, DType::e4m3, 3, &unequal_counts, 0), other(group, DType::e4m3, 5, &equal_counts, 0);
  Shift shift(group, DType::bf16, 1, 0);
  group.all_to_all(std::array{one.item()}).wait();
  group.all_to_all(std::array{other.item()}).wait();
  group.send_receive(std::array{shift.item()}, 1).wait();
  if (group.size() == 1) {
    EXPECT_TRUE(log.entries().empty());
    return;
  }
  const std::vector<std::uint64_t> given = {one.in.bytes().size(), other.in.bytes().size(), shift.in.bytes().size()};
  EXPECT_EQ(issued, given);
  EXPECT_EQ(recorded, given);
  ASSERT_EQ(trace.calls().size(), 3u);
  for (std::size_t i = 0; i < given.size(); ++i) EXPECT_EQ(trace.calls()[i].bytes, given[i]);
  using profile::Collective;
  ASSERT_EQ(log.entries().size(), 2u);
  const auto& exchanged = log.entries().at({Collective::all_to_all, "world", group.size(), "e4m3", 0});
  EXPECT_EQ(exchanged.calls, 2u);
  EXPECT_EQ(exchanged.bytes, given[0] + given[1]);
  EXPECT_EQ(log.entries().at({Collective::send_receive, "world", group.size(), "bf16", 0}).bytes, given[2]);
}

TEST(AllToAll, a_watchdog_names_the_rank_that_has_not_come) {
  HostWaits waits;
  waits.set_limits({std::chrono::milliseconds(50), std::chrono::milliseconds(50)});
  const Communicator group(MPI_COMM_WORLD, "world", Waiting::yield, nullptr, &waits);
  if (group.size() == 1) return;
  AllToAll one(group, DType::fp32, 1, &unequal_counts, 0);
  MPI_Barrier(MPI_COMM_WORLD);
  if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  Request request = group.all_to_all(std::array{one.item()}, "experts");
  std::string said;
  std::jthread watch([&](const std::stop_token& stop) {
    // On a loaded machine other ranks may be late before rank 1 is alone.
    while (!stop.stop_requested() && said.find("for rank 1 of") == std::string::npos) {
      if (const auto text = waits.overdue(HostWaits::Clock::now())) said = *text;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  request.wait();
  watch.request_stop();
  watch.join();
  if (group.rank() != 0) return;
  EXPECT_NE(said.find("all_to_all for experts in group 'world' on its rank 0"), std::string::npos) << said;
  EXPECT_NE(said.find("for rank 1 of the group"), std::string::npos) << said;
  EXPECT_NE(said.find(std::to_string(one.in.bytes().size()) + " bytes"), std::string::npos) << said;
}

/// MPI returns errors, as comm::Environment has it, in place of ending the job.
class ErrorsReturned {
 public:
  ErrorsReturned() {
    for (std::size_t i = 0; i < 2; ++i) {
      MPI_Comm_get_errhandler(kComms[i], &before_[i]);
      MPI_Comm_set_errhandler(kComms[i], MPI_ERRORS_RETURN);
    }
  }
  ~ErrorsReturned() {
    for (std::size_t i = 0; i < 2; ++i) {
      MPI_Comm_set_errhandler(kComms[i], before_[i]);
      MPI_Errhandler_free(&before_[i]);
    }
  }
  ErrorsReturned(const ErrorsReturned&) = delete;
  ErrorsReturned& operator=(const ErrorsReturned&) = delete;

 private:
  const MPI_Comm kComms[2] = {MPI_COMM_WORLD, MPI_COMM_SELF};
  MPI_Errhandler before_[2]{};
};

/// The error of a call on this rank; empty: none.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
    return {};
  } catch (const base::Error& e) {
    return e.what();
  }
}

// Rank 1 expects `expected` rows of 12 bytes of rank 0, which sends `sent`.
void expect_difference(std::int64_t sent, std::int64_t expected, const std::string& found, const Limits& limits = {}) {
  for (const Waiting waiting : {Waiting::yield, Waiting::spin}) {
    static std::vector<Communicator> kept;  // messages that nobody expects must not reach a later communicator
    const Communicator& group = kept.emplace_back(world(nullptr, waiting, limits));
    std::vector<std::int64_t> send(static_cast<std::size_t>(group.size()), 0), receive = send;
    if (group.rank() == 0) send[1] = sent;
    if (group.rank() == 1) receive[0] = expected;
    Buffer in({sent, 3}, DType::fp32), out({expected, 3}, DType::fp32);
    const std::string error = error_of([&] {
      group.all_to_all(std::array{Communicator::AllToAllItem{out.tensor(), in.tensor(), receive, send}}).wait();
    });
    EXPECT_EQ(error.empty(), group.rank() != 1);
    EXPECT_EQ(error.find(found) != std::string::npos, group.rank() == 1) << error;
    // The group goes on.
    const auto sum = group.all_gather(std::array{1.0});
    EXPECT_EQ(std::accumulate(sum.begin(), sum.end(), 0.0), group.size());
  }
}

TEST(AllToAll, different_counts_of_two_ranks_are_found) {
  if (world().size() == 1) return;
  const ErrorsReturned errors;
  expect_difference(3, 2, "a message of rank 0 has more bytes, but 24 are expected");
  expect_difference(2, 3, "a message of rank 0 has 24 bytes, but 36 are expected");
  expect_difference(0, 1, "a message of rank 0 has 0 bytes, but 12 are expected");
  expect_difference(1, 0, "a message of rank 0 has more bytes, but 0 are expected");
  // As many bytes more as a message has.
  expect_difference(3, 2, "a message of rank 0 has more bytes, but 0 are expected", {.message_bytes = 12});
}

TEST(AllToAll, hosts_have_no_memory_to_push_into) {
  const Communicator group = world();
  EXPECT_EQ(group.push_memory(4096), nullptr);
  struct Other final : PushMemory {
    std::byte* data() const override { return nullptr; }
    std::size_t bytes() const override { return 0; }
    std::byte* of(int) const override { return nullptr; }
    void* stream() const override { return nullptr; }
  } memory;
  bool written = false;
  const std::string error = error_of([&] { group.push(memory, {}, "experts", [&] { written = true; }).wait(); });
  EXPECT_NE(error.find("push in group 'world': a device and several ranks are needed"), std::string::npos) << error;
  EXPECT_FALSE(written);
}

TEST(AllToAll, refuses_what_does_not_fit) {
  const Communicator group = world();
  AllToAll one(group, DType::fp32, 3, &equal_counts, 0);
  Communicator::AllToAllItem item = one.item();
  const auto refused = [&](const Communicator::AllToAllItem& wrong) {
    return error_of([&] { static_cast<void>(group.all_to_all(std::array{wrong})); });
  };
  auto rows = one.send_rows;
  item.send_rows = rows;
  rows.back() += 1;  // more than there are, or than this rank takes of itself
  EXPECT_NE(refused(item).find("rows to send"), std::string::npos);
  rows.back() = -1;
  EXPECT_NE(refused(item).find("-1 rows to send"), std::string::npos);
  rows.back() = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(refused(item).find("rows to send"), std::string::npos);
  item = one.item();
  item.receive_rows = item.receive_rows.subspan(1);
  EXPECT_NE(refused(item).find("counts of rows to receive"), std::string::npos);
  auto own = one.send_rows;
  own[static_cast<std::size_t>(group.rank())] -= 1;
  item = one.item();
  item.send_rows = own;
  EXPECT_NE(refused(item).find("gives itself"), std::string::npos);
  item = one.item();
  item.out.dtype = DType::i32;
  EXPECT_NE(refused(item).find("i32"), std::string::npos);
  item = one.item();
  item.out = item.in;
  EXPECT_NE(refused(item).find("overlaps"), std::string::npos);
  item = one.item();
  item.out.data = nullptr;
  EXPECT_NE(refused(item).find("no memory"), std::string::npos);
  Shift shift(group, DType::fp32, 1, 0);
  const auto shifts = [&](const Communicator::SendReceiveItem& wrong, int distance) {
    return error_of([&] { static_cast<void>(group.send_receive(std::array{wrong}, distance)); });
  };
  Buffer row({1, 5}, DType::fp32);
  EXPECT_NE(shifts({row.tensor(), row.tensor()}, 1).find("overlaps"), std::string::npos);
  EXPECT_NE(shifts({row.tensor(), shift.in.tensor()}, 0).find("to itself"), std::string::npos);
}

}  // namespace
}  // namespace shard8::comm::tests
