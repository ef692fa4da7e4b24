// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/weight_store.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/elementwise.hpp"
#include "tests/fsdp/units.hpp"
#include "tests/support/compare.hpp"

namespace shard8 {
namespace {

using fsdp::Options;
using fsdp::Pass;
using tensor::BFloat16;
using tensor::DType;
using tensor::Tensor;
using tests::Units;

/// A weight that is different for every element and step, and that is not exact in bf16.
float weight(int step, int unit, std::size_t parameter, std::int64_t element) {
  const auto x = static_cast<float>(element + 1000 * (static_cast<std::int64_t>(parameter) + 10 * unit));
  return (x + 0.37f) / 64.0f + static_cast<float>(step) * 3.0f;
}

float rounded(float x, DType dtype) { return dtype == DType::bf16 ? static_cast<float>(BFloat16(x)) : x; }

std::vector<float> values(const Tensor& t) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < t.count(); ++i)
    all.push_back(t.dtype == DType::bf16 ? static_cast<float>(t.as<BFloat16>()[i]) : t.as<float>()[i]);
  return all;
}

void write_masters(const Units& units, int step) {
  for (int u = 0; u < static_cast<int>(units.buffers.units().size()); ++u) {
    const int rank = units.mesh.place.rank(units.buffers.sharing(u).sharded);
    for (std::size_t p = 0; p < units.buffers.weights(u).size(); ++p) {
      const Tensor& master = units.buffers.weights(u)[p].master;
      const auto& layout = units.buffers.weights(u)[p].layout;
      for (std::int64_t i = 0; i < master.count(); ++i) {
        const bool padding = i / master.cols() >= layout.owned_rows(rank);
        const std::int64_t element = layout.first_row(rank) * master.cols() + i;
        master.as<float>()[i] = padding ? 0 : weight(step, u, p, element);
      }
    }
  }
}

void expect_weights(const Units& units, std::span<const fsdp::GatheredWeight> weights, int step, int unit) {
  std::vector<Tensor> got;
  for (const fsdp::GatheredWeight& weight : weights) {
    EXPECT_TRUE(weight.stamp.current());
    ASSERT_EQ(weight.forward.data.data, weight.backward.data.data);
    got.push_back(weight.plain());
  }
  const auto& parameters = units.buffers.units()[static_cast<std::size_t>(unit)].parameters;
  ASSERT_EQ(got.size(), parameters.size());
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const auto shape = parameters[p].vector ? tensor::Shape{parameters[p].rows}
                                            : tensor::Shape{parameters[p].rows, parameters[p].cols};
    ASSERT_EQ(got[p].shape, shape);
    ASSERT_EQ(got[p].dtype, units.options.compute);
    std::vector<float> want;
    for (std::int64_t i = 0; i < shape.count(); ++i)
      want.push_back(rounded(weight(step, unit, p, i), units.options.compute));
    ASSERT_TRUE(tests::same_bits(values(got[p]), want)) << "step " << step << ", unit " << unit << ", parameter " << p;
  }
}

fsdp::GatherHooks hooks_of(const Units& units) {
  fsdp::GatherHooks hooks;
  hooks.before = [&units](int unit, std::span<const fsdp::GatherHooks::Own> own) {
    for (const auto& [p, communicated] : own)
      kernels::cast(units.exec, communicated.forward.data,
                    units.buffers.weights(unit)[static_cast<std::size_t>(p)].master);
  };
  hooks.after = [&units](int, std::span<const fsdp::GatherHooks::Arrived> arrived) {
    for (const auto& [p, communicated, read] : arrived)
      kernels::cast(units.exec, read.forward.data, communicated.forward.data);
  };
  return hooks;
}

/// Runs three steps with different weights. Checks each unit when it is acquired, and once more while later gathers are
/// in flight.
void run(const Options& options, int micro_batches, bool ahead = false,
         const std::vector<fsdp::UnitShape>& shapes = tests::small_units()) {
  SCOPED_TRACE(tests::name_of(options) + fmt::format(", {} micro-batches", micro_batches));
  Units units(options, shapes);
  fsdp::WeightStore store(units.executor, units.buffers, units.mesh, hooks_of(units));
  for (int step = 0; step < 3; ++step) {
    write_masters(units, step);
    const auto order = tests::visits(micro_batches);
    store.begin_step(order);
    if (ahead) store.gather_ahead();
    for (const auto& [unit, pass] : order) {
      const auto weights = store.acquire(unit, pass);
      expect_weights(units, weights, step, unit);
      for (int i = 0; i < 3; ++i) units.mesh.world.progress();
      expect_weights(units, store.in_use(unit), step, unit);
      store.release(unit);
    }
  }
  EXPECT_LE(tests::slots_used(units.buffers, store.schedule()), options.prefetch + 1);
}

std::vector<std::pair<DType, DType>> dtypes() {
  return {{DType::fp32, DType::fp32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::fp32}};
}

TEST(WeightStore, GathersTheWeightsOfTheStep) {
  const int n = tests::world_size();
  for (const auto& [compute, gather] : dtypes())
    run({tests::first_of(n), 1, true, true, compute, gather, DType::fp32}, 2);
  for (const auto& [compute, gather] : dtypes())
    run({tests::first_of(n), 2, false, false, compute, gather, DType::fp32}, 1);
  for (const int prefetch : {0, 2, 3})
    run({tests::first_of(n), prefetch, true, false, DType::bf16, DType::bf16, DType::fp32}, 1);
}

TEST(WeightStore, GathersAheadOfTheFirstUse) {
  const int n = tests::world_size();
  for (const auto& [compute, gather] : dtypes())
    run({tests::first_of(n), 1, true, true, compute, gather, DType::fp32}, 2, true);
  for (const int prefetch : {0, 2, 3})
    run({tests::first_of(n), prefetch, true, false, DType::bf16, DType::bf16, DType::fp32}, 1, true);
}

TEST(WeightStore, EveryReplicaGathersItsOwn) {
  if (tests::world_size() % 2 != 0) GTEST_SKIP() << "two replicas need an even number of ranks";
  for (const auto& [compute, gather] : dtypes())
    run({tests::first_of(tests::world_size() / 2, 2), 1, true, false, compute, gather, DType::fp32}, 1);
}

TEST(WeightStore, EachUnitIsGatheredInItsOwnGroup) {
  const int n = tests::world_size();
  for (const auto& [compute, gather] : dtypes())
    run({tests::first_of(n), 1, true, false, compute, gather, DType::fp32}, 1, true, tests::units_of_two_kinds());
}

TEST(WeightStore, TiedRootStaysReadable) {
  const Options options{tests::first_of(tests::world_size()), 1, true, false, DType::bf16, DType::bf16, DType::fp32};
  Units units(options);
  fsdp::WeightStore store(units.executor, units.buffers, units.mesh, hooks_of(units));
  write_masters(units, 0);
  const auto order = tests::visits(1, true);
  store.begin_step(order);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto [unit, pass] = order[i];
    expect_weights(units, store.acquire(unit, pass), 0, unit);
    if (unit != tests::kRoot) store.release(unit);
    if (i <= tests::kLayers) expect_weights(units, store.in_use(tests::kRoot), 0, tests::kRoot);
    if (i == tests::kLayers) store.release(tests::kRoot);
  }
  EXPECT_THROW(store.in_use(tests::kRoot), base::Error);
}

TEST(WeightStore, PaddingIsGatheredAsZeros) {
  const Options options{tests::first_of(tests::world_size()), 1, true, false, DType::bf16, DType::bf16, DType::fp32};
  Units units(options);
  fsdp::WeightStore store(units.executor, units.buffers, units.mesh, hooks_of(units));
  write_masters(units, 0);
  store.begin_step(std::vector{fsdp::Visit{1, Pass::forward}});
  store.acquire(1, Pass::forward);
  const auto& place = units.buffers.gather().place(store.schedule().slot_of(1), 1);
  for (std::size_t p = 0; p < place.communicated.size(); ++p) {
    const auto& layout = units.buffers.weights(1)[p].layout;
    const Tensor& communicated = place.communicated[p].forward.data;
    const auto padding = values(communicated.slice(layout.rows, layout.padded_rows() - layout.rows));
    EXPECT_TRUE(tests::same_bits(padding, std::vector<float>(padding.size(), 0.0f)));
  }
  store.release(1);
}

TEST(WeightStore, MisuseIsAnError) {
  const Options options{tests::first_of(tests::world_size()), 0, true, false, DType::bf16, DType::bf16, DType::fp32};
  Units units(options);
  fsdp::WeightStore store(units.executor, units.buffers, units.mesh, hooks_of(units));
  write_masters(units, 0);
  store.begin_step(std::vector<fsdp::Visit>{{1, Pass::forward}, {1, Pass::backward}});
  EXPECT_THROW(store.acquire(2, Pass::forward), base::Error);
  EXPECT_THROW(store.in_use(1), base::Error);
  EXPECT_THROW(store.release(1), base::Error);
  store.acquire(1, Pass::forward);
  EXPECT_THROW(store.acquire(1, Pass::backward), base::Error);
  EXPECT_THROW(store.begin_step({}), base::Error);
  store.release(1);
  store.acquire(1, Pass::backward);
  store.release(1);
}

}  // namespace
}  // namespace shard8
