// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "optim/adamw.hpp"

#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <type_traits>
#include <utility>

#include "base/exact_sum.hpp"
#include "kernels/adamw.hpp"

namespace shard8::optim {
namespace {

/// AdamW on one rank. The default unit has a matrix (4, 3) and a vector (5).
struct Fixture {
  static std::vector<fsdp::UnitShape> shapes() {
    fsdp::UnitShape unit{"unit", {{"matrix", 4, 3, 1, true, false}, {"vector", 5, 1, 1, false, true}}, false};
    unit.parameters[0].sharing.cut = base::Axis::tensor;
    return {unit};
  }
  /// Of a rank that counts the matrix in the norm, and not the vector, which the rank before it counts.
  static fsdp::Options options() { return {.place = base::Place({1, 1, 2}, 1)}; }
  static tensor::MemoryBytes bytes(const deck::OptimizerConfig& config,
                                   const std::vector<fsdp::UnitShape>& of = shapes()) {
    auto arenas = tensor::ArenaSet::measure();
    const fsdp::UnitBuffers units(of, options(), arenas);
    const Adamw adamw(config, units, arenas);
    return arenas.bytes();
  }
  explicit Fixture(const deck::OptimizerConfig& config, const std::vector<fsdp::UnitShape>& of = shapes())
      : arenas(bytes(config, of)), units(of, options(), arenas), adamw(config, units, arenas) {
    adamw.prepare(exec);
  }
  tensor::Exec exec;
  profile::StepTimer timer;
  mutable operation::Executor executor{exec, timer};
  tensor::ArenaSet arenas;
  fsdp::UnitBuffers units;
  Adamw adamw;
};

deck::OptimizerConfig config() {
  deck::OptimizerConfig c;
  c.lr = 1e-2;
  c.weight_decay = 0.1;
  c.clip = 1.0;
  return c;
}

kernels::Outputs nothing(int, int, const fsdp::GroupRows&) { return {}; }

TEST(Adamw, FollowsTheFormulaInDouble) {
  Fixture f(config());
  std::vector<std::vector<double>> p(2), m(2), v(2);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto n = static_cast<std::size_t>(f.units.weights(0)[i].master.count());
    m[i].assign(n, 0.0);
    v[i].assign(n, 0.0);
    for (std::size_t k = 0; k < n; ++k) {
      f.units.weights(0)[i].master.as<float>()[k] = static_cast<float>(std::sin(1.0 + static_cast<double>(k)));
      p[i].push_back(f.units.weights(0)[i].master.as<float>()[k]);
    }
  }
  for (int step = 0; step < 7; ++step) {
    const double lr = 1e-2 / (1 + step), scale = step % 2 == 0 ? 1.0 : 0.5;
    for (std::size_t i = 0; i < 2; ++i) {
      float* const g = f.units.weights(0)[i].gradient.as<float>();
      for (std::size_t k = 0; k < p[i].size(); ++k) {
        g[k] = static_cast<float>(std::cos(static_cast<double>(k) + 0.7 * step));
        const double x = scale * g[k];
        m[i][k] = 0.9 * m[i][k] + 0.1 * x;
        v[i][k] = 0.95 * v[i][k] + 0.05 * x * x;
        const double m_hat = m[i][k] / (1 - std::pow(0.9, step + 1)), v_hat = v[i][k] / (1 - std::pow(0.95, step + 1));
        const double decay = i == 0 ? 0.1 : 0.0;  // matrices only
        p[i][k] = p[i][k] * (1 - lr * decay) - lr * m_hat / (std::sqrt(v_hat) + 1e-8);
      }
    }
    f.adamw.step(f.executor, 0, step, lr, scale, nothing);
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < p[i].size(); ++k)  // a few roundings of values up to 1
        EXPECT_NEAR(f.units.weights(0)[i].master.as<float>()[k], p[i][k], 5e-7)
            << "step " << step << ", tensor " << i << ", " << k;
  }
}

// Without clipping. With clipping there is no memory for the squares.
TEST(Adamw, ComputesTheSquaresOfCountedGradients) {
  deck::OptimizerConfig unclipped = config();
  unclipped.clip = 0;
  std::vector<fsdp::UnitShape> shapes = Fixture::shapes();
  shapes.push_back({"next", {{"matrix", 2, 2, 1, true, false}}, false});
  shapes[1].parameters[0].sharing.cut = base::Axis::tensor;
  Fixture f(unclipped, shapes);
  for (std::int64_t k = 0; k < 4; ++k) f.units.weights(1)[0].gradient.as<float>()[k] = static_cast<float>(1 + k);
  std::array<base::ExactSum, 2> totals;
  totals[0].add(0.5);
  double expected = 0.5;
  for (std::int64_t k = 0; k < 17; ++k) {
    const bool matrix = k < 12;
    const float g = std::cos(static_cast<float>(k));
    f.units.weights(0)[matrix ? 0 : 1].gradient.as<float>()[matrix ? k : k - 12] = g;
    if (matrix) expected += static_cast<double>(g) * static_cast<double>(g);
  }
  for (const int unit : {0, 1}) f.adamw.step(f.executor, unit, 0, 1e-2, 1, nothing);
  f.adamw.add_squares(f.executor,
                      {reinterpret_cast<std::byte*>(totals.data()), {2, sizeof(base::ExactSum)}, tensor::DType::u8});
  EXPECT_NEAR(totals[0].value(), expected, 1e-14 * expected);
  EXPECT_EQ(totals[1].value(), 1 + 4 + 9 + 16);
  EXPECT_GT(Fixture::bytes(unclipped)[static_cast<std::size_t>(tensor::MemoryKind::buffers)],
            Fixture::bytes(config())[static_cast<std::size_t>(tensor::MemoryKind::buffers)]);
}

/// Step `seed` of `f`, with gradients that differ with the seed.
void step(const Fixture& f, int seed, const Adamw::Outputs& outputs) {
  for (std::size_t i = 0; i < 2; ++i)
    for (std::int64_t k = 0; k < f.units.weights(0)[i].gradient.count(); ++k)
      f.units.weights(0)[i].gradient.as<float>()[k] =
          std::cos(static_cast<float>(k + 3 * seed) + static_cast<float>(i));
  f.adamw.step(f.executor, 0, seed, 1e-2, 1, outputs);
}

void begin(const Fixture& f) {
  for (std::size_t i = 0; i < 2; ++i)
    for (std::int64_t k = 0; k < f.units.weights(0)[i].master.count(); ++k)
      f.units.weights(0)[i].master.as<float>()[k] = std::sin(static_cast<float>(k + 1));
}

TEST(Adamw, WritesTheOutputsOfEachParameter) {
  const Fixture f(config()), plain(config());
  std::array<std::byte, 12> cast{}, cast_alone{};
  std::array<std::int32_t, 2> amax{}, amax_alone{};
  std::array<float, 3> scale{100, 0, 0};
  const auto scalar = [](auto& of, std::size_t i) {
    using T = std::remove_reference_t<decltype(of[0])>;
    return tensor::Tensor{reinterpret_cast<std::byte*>(&of[i]), {1}, tensor::dtype_of<T>()};
  };
  const auto fp8 = [&](auto& bytes, std::size_t inverse) {
    return tensor::Operand({bytes.data(), {4, 3}, tensor::DType::e4m3}, scalar(scale, inverse),
                           tensor::Scaling::tensor);
  };
  std::vector<std::pair<int, int>> asked;
  begin(f);
  begin(plain);
  step(plain, 0, nothing);
  step(f, 0, [&](int unit, int parameter, const fsdp::GroupRows&) {
    asked.emplace_back(unit, parameter);
    kernels::Outputs out;
    out.amax = scalar(amax, static_cast<std::size_t>(parameter));
    if (parameter != 0) return out;
    out.quantized = fp8(cast, 1);
    out.scale = scalar(scale, 0);
    return out;
  });
  EXPECT_EQ(asked, (std::vector<std::pair<int, int>>{{0, 0}, {0, 1}}));
  for (std::size_t i = 0; i < 2; ++i) {
    const tensor::Tensor got = f.units.weights(0)[i].master, want = plain.units.weights(0)[i].master;
    EXPECT_EQ(std::memcmp(got.data, want.data, want.bytes()), 0) << "the updated parameter " << i;
    kernels::amax(f.exec, scalar(amax_alone, i), want, {});
  }
  EXPECT_EQ(amax, amax_alone);
  kernels::quantize(f.exec, fp8(cast_alone, 2), {}, plain.units.weights(0)[0].master, scalar(scale, 0), {});
  EXPECT_EQ(cast, cast_alone);
  EXPECT_EQ(scale[1], 1 / 100.0f);
}

// Two kernels cannot take all parameters. Each parameter is updated once.
TEST(Adamw, UpdatesUnitsOfManyParameters) {
  const std::size_t many = 2 * kernels::kAdamwAtOnce + 3;
  std::vector<fsdp::UnitShape> shapes = Fixture::shapes();
  const auto matrix = shapes[0].parameters[0];
  shapes[0].parameters.assign(many, matrix);
  const Fixture f(config(), shapes), few(config());
  begin(few);
  step(few, 0, nothing);
  for (std::size_t i = 0; i < many; ++i)
    for (std::int64_t k = 0; k < 12; ++k) {
      f.units.weights(0)[i].master.as<float>()[k] = std::sin(static_cast<float>(k + 1));
      f.units.weights(0)[i].gradient.as<float>()[k] = std::cos(static_cast<float>(k));
    }
  f.adamw.step(f.executor, 0, 0, 1e-2, 1, nothing);
  const tensor::Tensor want = few.units.weights(0)[0].master;
  for (std::size_t i = 0; i < many; ++i)
    EXPECT_EQ(std::memcmp(f.units.weights(0)[i].master.data, want.data, want.bytes()), 0) << "parameter " << i;
}

TEST(Adamw, ComputesWithMomentsInBf16) {
  deck::OptimizerConfig bf16_moments = config();
  bf16_moments.moments = deck::FloatType::bf16;
  const Fixture f(bf16_moments), fp32(config());
  begin(f);
  begin(fp32);
  for (int s = 0; s < 3; ++s) {
    step(f, s, nothing);
    step(fp32, s, nothing);
  }
  bool differs = false;
  for (std::size_t i = 0; i < 2; ++i)
    for (std::int64_t k = 0; k < f.units.weights(0)[i].master.count(); ++k) {
      const float got = f.units.weights(0)[i].master.as<float>()[k],
                  want = fp32.units.weights(0)[i].master.as<float>()[k];
      // Three updates of about lr. Each rounding of m and v before an update changes it by up to 2^-9 of lr.
      EXPECT_NEAR(got, want, 3 * 1e-2 * 3 * 0x1p-9) << i << ", " << k;
      differs = differs || got != want;
    }
  EXPECT_TRUE(differs);
}

TEST(Adamw, ScalesDownToTheClip) {
  const Fixture f(config());
  EXPECT_DOUBLE_EQ(f.adamw.clip_scale(0.5), 1.0);
  EXPECT_DOUBLE_EQ(f.adamw.clip_scale(4.0), 1.0 / (4.0 + 1e-6));
  deck::OptimizerConfig off = config();
  off.clip = 0;
  EXPECT_DOUBLE_EQ(Fixture(off).adamw.clip_scale(1e9), 1.0);
}

deck::OptimizerConfig config(std::int64_t warmup, std::int64_t decay_steps) {
  deck::OptimizerConfig c;
  c.lr = 3e-3;
  c.min_lr = 3e-4;
  c.warmup = warmup;
  c.decay_steps = decay_steps;
  return c;
}

TEST(Schedule, WarmsUpLinearly) {
  const auto c = config(4, 20);
  for (int s = 0; s < 4; ++s) EXPECT_DOUBLE_EQ(learning_rate(c, s), 3e-3 * (s + 1) / 4);
}

TEST(Schedule, DecaysAlongACosine) {
  const auto c = config(4, 20);
  EXPECT_DOUBLE_EQ(learning_rate(c, 4), 3e-3);
  EXPECT_DOUBLE_EQ(learning_rate(c, 12), (3e-3 + 3e-4) / 2);  // half-way
  EXPECT_DOUBLE_EQ(learning_rate(c, 16), 3e-4 + 2.7e-3 / 2 * (1 + std::cos(std::numbers::pi * 0.75)));
  for (int s = 4; s < 25; ++s) EXPECT_LE(learning_rate(c, s + 1), learning_rate(c, s));
}

TEST(Schedule, StaysAtTheMinimumAfterTheDecay) {
  EXPECT_DOUBLE_EQ(learning_rate(config(4, 20), 20), 3e-4);
  EXPECT_DOUBLE_EQ(learning_rate(config(4, 20), 1000000), 3e-4);
}

TEST(Schedule, NeedsNoWarmUp) { EXPECT_DOUBLE_EQ(learning_rate(config(0, 20), 0), 3e-3); }

}  // namespace
}  // namespace shard8::optim
