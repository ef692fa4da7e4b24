// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "tests/fsdp/copy_contents.hpp"

namespace shard8 {
namespace {

using fsdp::Options;
using fsdp::Pass;
using fsdp::Visit;
using tensor::DType;
using tests::CopyContents;
using tests::Units;
using Parameters = std::map<int, std::set<int>>;

Options options_of(int prefetch, bool reshard, DType compute = DType::bf16, DType gather = DType::bf16) {
  return {tests::first_of(tests::world_size()), prefetch, reshard, false, compute, gather, DType::fp32};
}

struct Gathers {
  explicit Gathers(const Options& options, bool stored)
      : units(options, tests::format_units(stored)),
        contents(units),
        store(units.executor, units.buffers, units.mesh, contents.hooks()) {}

  void run_step(int step, const std::vector<Visit>& order) {
    contents.step = step;
    contents.write_shards();
    store.begin_step(order);
    for (const auto& [unit, pass] : order) {
      contents.expect_unit(store.acquire(unit, pass), unit, pass);
      for (int i = 0; i < 3; ++i) units.mesh.world.progress();
      contents.expect_unit(store.in_use(unit), unit, pass);
      store.release(unit);
    }
  }

  Units units;
  CopyContents contents;
  fsdp::WeightStore store;
};

/// The bytes that gathers transfer, by dtype.
using Moved = std::map<std::string, std::uint64_t>;

/// Counts the bytes from the schedule, as a plan does.
Moved planned(const fsdp::UnitBuffers& buffers, const std::vector<Visit>& order) {
  Moved bytes;
  auto schedule = fsdp::make_schedule(buffers);
  const auto copies = buffers.gather().copies_of(order);
  schedule.begin_step(copies);
  for (const int copy : copies) {
    for (const auto& start : schedule.acquire(copy))
      for (const tensor::Tensor& t : buffers.gather().first_place(start.copy).transferred)
        bytes[std::string(name_of(t.dtype))] += t.bytes();
    schedule.release(copy);
  }
  return bytes;
}

Moved counted(const profile::CollectiveLog& log) {
  Moved bytes;
  for (const auto& [key, stats] : log.entries())
    if (key.op == profile::Collective::all_gather) bytes[key.dtype] += stats.calls * key.bytes;
  return bytes;
}

/// Runs two steps with different bytes. Checks each unit when it is acquired, and once more while later gathers are in
/// flight.
void run(const Options& options, bool stored, const std::vector<Visit>& order) {
  SCOPED_TRACE(tests::name_of(options) + fmt::format(", stored {}, {} visits", stored, order.size()));
  Gathers gathers(options, stored);
  for (int step = 0; step < 2; ++step) {
    gathers.units.log.clear();
    gathers.run_step(step, order);
    EXPECT_EQ(counted(gathers.units.log), planned(gathers.units.buffers, order));
  }
  if (options.reshard_after_forward) {
    EXPECT_LE(tests::slots_used(gathers.units.buffers, gathers.store.schedule()), options.prefetch + 1);
  }
}

TEST(GatheredCopies, EveryUseReadsTheBytesOfItsStep) {
  for (const bool stored : {false, true}) {
    for (int prefetch = 0; prefetch <= 3; ++prefetch) {
      run(options_of(prefetch, true), stored, tests::visits(2));
      run(options_of(prefetch, true), stored, tests::visits(1, false, true));
    }
    run(options_of(1, false), stored, tests::visits(2, false, true));
    run(options_of(20, true), stored, tests::visits(2));
  }
}

TEST(GatheredCopies, EveryDtype) {
  for (const auto& [compute, gather] : {std::pair{DType::fp32, DType::fp32}, {DType::bf16, DType::fp32}}) {
    for (const bool reshard : {true, false}) {
      for (const bool remainder : {true, false}) {
        Options options = options_of(1, reshard, compute, gather);
        options.master_remainder = remainder;
        run(options, true, tests::visits(1));
        run(options, false, tests::visits(1));
      }
    }
  }
}

TEST(GatheredCopies, EveryReplicaGathersItsOwn) {
  if (tests::world_size() % 2 != 0) GTEST_SKIP() << "two replicas need an even number of ranks";
  Options options = options_of(1, true);
  options.place = tests::first_of(tests::world_size() / 2, 2);
  run(options, true, tests::visits(2));
}

// The first layer has one copy, which is still in its slot in backward if there are enough slots. The other layers need
// their backward copies, even if every forward copy is still in its slot.
TEST(GatheredCopies, BackwardCopiesAreGatheredInBackward) {
  for (const int prefetch : {1, 20}) {
    Gathers gathers(options_of(prefetch, true), false);
    gathers.run_step(0, tests::visits(1));
    EXPECT_EQ(gathers.contents.gathers[4], 2);
    EXPECT_EQ(gathers.contents.gathers[3], 2);
    EXPECT_EQ(gathers.contents.gathers[2], 2);
    EXPECT_EQ(gathers.contents.gathers[1], prefetch == 1 ? 2 : 1);
    EXPECT_EQ(gathers.contents.gathers[tests::kRoot], 1);
  }
  Gathers without_reshard(options_of(1, false), false);
  without_reshard.run_step(0, tests::visits(2));
  for (int u = 0; u <= tests::kRoot; ++u) EXPECT_EQ(without_reshard.contents.gathers[u], 1) << "unit " << u;
}

/// The parameters of the embedding, the first layer, each other layer and the root.
Parameters parameters(const std::set<int>& embedding, const std::set<int>& first, const std::set<int>& others,
                      const std::set<int>& root) {
  Parameters all{{0, embedding}, {1, first}, {2, others}, {3, others}, {4, others}, {5, root}};
  std::erase_if(all, [](const auto& unit) { return unit.second.empty(); });
  return all;
}

TEST(GatheredCopies, HooksGetOnlyTheParametersThatNeedThem) {
  const auto expect = [](DType compute, DType gather, bool stored, const Parameters& before, const Parameters& after) {
    Gathers gathers(options_of(1, true, compute, gather), stored);
    SCOPED_TRACE(tests::name_of(gathers.units.options));
    gathers.run_step(0, tests::visits(1));
    EXPECT_EQ(gathers.contents.before, before);
    EXPECT_EQ(gathers.contents.after, after);
  };
  const std::set<int> all{0, 1, 2, 3, 4};
  const auto everything = parameters({0}, all, all, {0, 1});
  const auto converted = parameters({}, {}, {3, 4}, {});
  if (tests::world_size() > 1) {
    expect(DType::bf16, DType::bf16, false, everything, converted);
    expect(DType::bf16, DType::bf16, true, parameters({0}, all, {0, 3, 4}, {0}), converted);
    expect(DType::bf16, DType::fp32, true, parameters({0}, all, {0, 3, 4}, {0}), parameters({0}, all, {0, 3, 4}, {0}));
    return;
  }
  expect(DType::bf16, DType::bf16, false, everything, converted);
  expect(DType::bf16, DType::bf16, true, parameters({0}, all, {0, 3, 4}, {0}), converted);
  // The hook `after` casts fc2 and proj from the fp32 master.
  expect(DType::bf16, DType::fp32, true, parameters({0}, all, {0}, {0}), converted);
  expect(DType::fp32, DType::fp32, true, {}, converted);
}

TEST(GatheredCopies, StoredShardsAreUsedInPlaceOrCopied) {
  Gathers gathers(options_of(1, true), true);
  gathers.run_step(0, tests::visits(1));
  const auto order = std::vector<Visit>{{2, Pass::forward}, {2, Pass::backward}};
  gathers.store.begin_step(order);
  for (const auto& [unit, pass] : order) {
    const auto weights = gathers.store.acquire(unit, pass);
    for (const std::size_t p : {1u, 2u}) {
      const auto& stored = gathers.units.buffers.weights(unit)[p].stored;
      const auto& [shard, got] = pass == Pass::forward ? std::pair(stored.forward, weights[p].forward)
                                                       : std::pair(stored.backward, weights[p].backward);
      EXPECT_EQ(got.data.data == shard.data.data, tests::world_size() == 1);
      EXPECT_EQ(got.scale_inv.data == shard.scale_inv.data, tests::world_size() == 1);
    }
    gathers.store.release(unit);
  }
}

TEST(GatheredCopies, StampsOfStaleCopiesAreNotCurrent) {
  Gathers gathers(options_of(0, true), true);
  gathers.run_step(0, tests::visits(1));
  auto& store = gathers.store;
  const auto use = [&](int unit, Pass pass) {
    const auto stamp = store.acquire(unit, pass).front().stamp;
    EXPECT_TRUE(stamp.current());
    EXPECT_TRUE(store.in_use(unit).front().stamp.current());
    store.release(unit);
    EXPECT_TRUE(stamp.current()) << "no gather took the slot";
    return stamp;
  };
  const int root = tests::kRoot;
  const std::vector<Visit> order{{2, Pass::forward}, {root, Pass::forward}, {2, Pass::backward},
                                 {1, Pass::forward}, {1, Pass::backward},   {root, Pass::forward}};
  EXPECT_FALSE(fsdp::CopyStamp{}.current());
  store.begin_step(order);
  const auto forward = use(2, Pass::forward);
  const auto first = use(root, Pass::forward);
  EXPECT_TRUE(forward.current());
  const auto backward = use(2, Pass::backward);
  EXPECT_FALSE(forward.current()) << "the backward copy took the slot";
  const auto one = use(1, Pass::forward);
  EXPECT_FALSE(backward.current());
  const auto same = use(1, Pass::backward);
  EXPECT_TRUE(one.current()) << "one copy serves both passes";
  use(root, Pass::forward);
  EXPECT_TRUE(first.current());
  store.begin_step(order);
  for (const auto& stamp : {forward, backward, one, same, first}) EXPECT_FALSE(stamp.current());
}

// On one rank nothing is gathered, but the next step makes copies stale as well.
TEST(GatheredCopies, StampsOfShardsUsedInPlace) {
  Options options = options_of(1, true, DType::fp32, DType::fp32);
  Units units(options);
  fsdp::GatherHooks hooks;
  hooks.before = [](int, std::span<const fsdp::GatherHooks::Own> own) {
    for (const auto& item : own)
      std::fill_n(item.communicated.forward.data.data, item.communicated.forward.data.bytes(), std::byte{0});
  };
  fsdp::WeightStore store(units.executor, units.buffers, units.mesh, hooks);
  const std::vector<Visit> order{{1, Pass::forward}, {1, Pass::backward}};
  store.begin_step(order);
  const auto stamp = store.acquire(1, Pass::forward).front().stamp;
  store.release(1);
  store.acquire(1, Pass::backward);
  EXPECT_TRUE(stamp.current());
  store.release(1);
  store.begin_step(order);
  EXPECT_FALSE(stamp.current());
}

}  // namespace
}  // namespace shard8
