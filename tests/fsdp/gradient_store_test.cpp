// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/gradient_store.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/fsdp/units.hpp"
#include "tests/support/compare.hpp"

namespace shard8 {
namespace {

using fsdp::Options;
using tensor::DType;
using tensor::Tensor;
using tests::Units;

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// Which gradient: of one rank in one micro-batch.
struct Place {
  int step = 0, rank = 0, unit = 0;
  std::size_t parameter = 0;
  int micro_batch = 0;
};
using Contribution = double (*)(const Place& place, std::int64_t element);

/// Small integers. Their sums are exact in fp32 and in bf16, in any order.
double integer(const Place& p, std::int64_t element) {
  const auto x =
      element * 7 + p.rank * 5 + p.unit * 3 + static_cast<std::int64_t>(p.parameter) * 2 + p.micro_batch + p.step;
  return static_cast<double>(x % 9 - 4);
}

double real(const Place& p, std::int64_t element) {
  return std::sin(1.0 + static_cast<double>(element) * 0.7 + p.rank * 1.3 + p.unit * 2.1 + p.micro_batch * 0.9 +
                  p.step * 0.31 + static_cast<double>(p.parameter));
}

/// How a test adds gradients.
struct Case {
  int micro_batches = 1;
  Contribution contribution = integer;
  bool tied = false;  ///< each micro-batch ends with the root once more, which adds its gradients a second time
};

/// The backward passes of a step: the root, the layers in reverse, the embedding.
void run_step(Units& units, fsdp::GradientStore& store, int step, const Case& pass) {
  for (int m = 0; m < pass.micro_batches; ++m) {
    std::vector<int> order{tests::kRoot};
    for (int l = tests::kLayers; l >= 1; --l) order.push_back(l);
    order.push_back(tests::kEmbedding);
    if (pass.tied) order.push_back(tests::kRoot);
    for (std::size_t use = 0; use < order.size(); ++use) {
      const int unit = order[use];
      const bool later_use = pass.tied && use + 1 == order.size();
      const auto gradients = store.begin(unit);
      EXPECT_EQ(gradients.accumulate, later_use || (m > 0 && !units.buffers.reduces_each(unit)));
      const auto& parameters = units.buffers.units()[static_cast<std::size_t>(unit)].parameters;
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        const Tensor& sum = gradients.whole[p];
        ASSERT_EQ(sum.shape, parameters[p].vector ? tensor::Shape{parameters[p].rows}
                                                  : (tensor::Shape{parameters[p].rows, parameters[p].cols}));
        const bool overwrite = parameters[p].gradient_overwritten && !gradients.accumulate;
        for (std::int64_t i = 0; i < sum.count(); ++i) {
          const auto g = static_cast<float>(pass.contribution({step, world_rank(), unit, p, m}, i));
          float& element = sum.as<float>()[i];
          element = overwrite ? g : element + g;
        }
      }
      if (!pass.tied || unit != tests::kRoot || later_use) store.reduce(unit, m + 1 == pass.micro_batches);
      units.mesh.world.progress();
    }
  }
  store.finish();
}

/// The gradient shard of this rank, (rows_per_shard, cols): plain sums over micro-batches and ranks, zeros in padding.
/// With `magnitude` the sums of absolute values.
std::vector<double> plain_sum(const Units& units, const Place& place, const Case& pass, bool magnitude) {
  const auto& [layout, cols] = [&] {
    const fsdp::WeightForms& weight = units.buffers.weights(place.unit)[place.parameter];
    return std::pair(weight.layout, weight.cols);
  }();
  std::vector<double> whole(static_cast<std::size_t>(layout.padded_rows() * cols));
  for (std::int64_t i = 0; i < layout.rows * cols; ++i) {
    for (int m = 0; m < pass.micro_batches; ++m) {
      for (int rank = 0; rank < tests::world_size(); ++rank) {
        const double once = pass.contribution({place.step, rank, place.unit, place.parameter, m}, i);
        const double g = pass.tied && place.unit == tests::kRoot ? 2 * once : once;
        whole[static_cast<std::size_t>(i)] += magnitude ? std::abs(g) : g;
      }
    }
  }
  const auto first =
      whole.begin() + layout.first_row(units.mesh.place.rank(units.buffers.sharing(place.unit).sharded)) * cols;
  return {first, first + layout.rows_per_shard * cols};
}

void run(const Options& options, const Case& pass, double relative,
         const std::vector<fsdp::UnitShape>& shapes = tests::small_units()) {
  SCOPED_TRACE(tests::name_of(options) + fmt::format(", {} micro-batches, tied {}", pass.micro_batches, pass.tied));
  Units units(options, shapes);
  // The result must not depend on what the memory held before.
  for (int u = 0; u < tests::kLayers + 2; ++u) {
    const fsdp::GradientSlots& memory = units.buffers.gradients();
    const int own = memory.own_slot(u);
    const int first = own < 0 ? 0 : own, end = own < 0 ? memory.rotating_slots() : own + 1;
    for (int slot = first; slot < end; ++slot) {
      const auto& place = memory.place(slot, u);
      for (const auto* tensors : {&place.whole, &place.sent, &place.received})
        for (const Tensor& t : *tensors) std::fill_n(t.data, t.bytes(), std::byte{0x7f});
    }
  }
  fsdp::GradientStore store(units.executor, units.buffers, units.mesh);
  for (int step = 0; step < 2; ++step) {
    run_step(units, store, step, pass);
    for (int u = 0; u < tests::kLayers + 2; ++u) {
      for (std::size_t p = 0; p < units.buffers.weights(u).size(); ++p) {
        const Tensor& shard = units.buffers.weights(u)[p].gradient;
        const std::vector<float> got(shard.as<float>(), shard.as<float>() + shard.count());
        const Place place{step, 0, u, p, 0};
        const auto want = plain_sum(units, place, pass, false);
        const auto scale = plain_sum(units, place, pass, true);
        ASSERT_EQ(got.size(), want.size());
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(static_cast<double>(got[i]), want[i], relative * scale[i])
              << "step " << step << ", unit " << u << ", parameter " << p << ", element " << i;
      }
    }
  }
}

/// Every way to split the ranks into replicas and shards.
std::vector<Options> meshes() {
  std::vector<Options> all;
  const int ranks = tests::world_size();
  for (int replicas = 1; replicas <= ranks; ++replicas)
    if (ranks % replicas == 0) all.push_back({.place = tests::first_of(ranks / replicas, replicas)});
  return all;
}

/// How the gradients of a step are summed.
struct Sums {
  int micro_batches = 1;
  bool in_shards = false;
};
const std::vector<Sums> kAllSums{{1, false}, {3, false}, {3, true}};

/// Runs `pass` on every mesh, with each of `sums`, reduced in each dtype.
void run_all(const std::vector<Sums>& sums, const std::vector<fsdp::UnitShape>& shapes, Case pass = {}) {
  for (Options options : meshes()) {
    for (const auto& [micro_batches, in_shards] : sums) {
      options.accumulate = micro_batches > 1;
      options.sharded_sums = in_shards;
      pass.micro_batches = micro_batches;
      for (const DType reduce : {DType::fp32, DType::bf16}) {
        options.reduce = reduce;
        run(options, pass, 0, shapes);
      }
    }
  }
}

TEST(GradientStore, EqualsPlainSums) { run_all(kAllSums, tests::small_units()); }

TEST(GradientStore, SingleUseUnitsRotateWithLayers) {
  auto shapes = tests::small_units();
  shapes[tests::kEmbedding].single_use = shapes[tests::kRoot].single_use = true;
  run_all({{1, false}, {3, true}}, shapes);
}

// As the head and the embedding use a tied table.
TEST(GradientStore, AUnitMayAddTwiceInAMicroBatch) {
  run_all({{3, false}, {3, true}}, tests::small_units(), {.tied = true});
}

TEST(GradientStore, LayersMayHaveDifferentGranularities) {
  auto shapes = tests::small_units();
  shapes[2].parameters[1].granularity = 8;
  shapes[3].parameters[0].granularity = 4;
  run_all({{1, false}, {3, true}}, shapes);
}

TEST(GradientStore, EachUnitIsReducedInItsOwnGroups) { run_all(kAllSums, tests::units_of_two_kinds()); }

TEST(GradientStore, RoundsAsTheReduceDtype) {
  for (Options options : meshes()) {
    options.accumulate = true;
    for (const bool sharded_sums : {false, true}) {
      options.sharded_sums = sharded_sums;
      options.reduce = DType::fp32;
      // fp32: sums of up to twelve terms.
      run(options, {3, real}, 16 * 0x1p-24);
      // bf16: rounded before the reduce-scatter, after the sum over shards and after the sum over replicas; with sums
      // in shards also before the sum over replicas.
      options.reduce = DType::bf16;
      run(options, {3, real}, (sharded_sums ? 4 : 3) * 0x1p-8 + 16 * 0x1p-24);
    }
  }
}

// A unit is reduced once in each micro-batch, and summed over replicas once a step.
TEST(GradientStore, ShardsAreSummedOverReplicasOnce) {
  for (Options options : meshes()) {
    options.accumulate = true;
    for (const bool sharded_sums : {false, true}) {
      options.sharded_sums = sharded_sums;
      Units units(options);
      const auto counts = [&] {
        std::array<std::uint64_t, 2> calls{};
        for (const auto& [key, totals] : units.log.entries()) {
          if (key.op == profile::Collective::reduce_scatter) calls[0] += totals.calls;
          if (key.op == profile::Collective::all_reduce) calls[1] += totals.calls;
        }
        return calls;
      };
      fsdp::GradientStore store(units.executor, units.buffers, units.mesh);
      const auto before = counts();
      run_step(units, store, 0, {3, integer});
      const auto after = counts();
      const bool shards = units.buffers.shard_ranks(1) > 1, replicas = units.buffers.sum_ranks(1) > 1;
      constexpr std::uint64_t kUnits = tests::kLayers + 2;
      EXPECT_EQ(after[0] - before[0], shards ? kUnits * (sharded_sums ? 3u : 1u) : 0u) << tests::name_of(options);
      EXPECT_EQ(after[1] - before[1], replicas ? kUnits : 0u) << tests::name_of(options);
    }
  }
}

}  // namespace
}  // namespace shard8
