// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "optim/adamw.hpp"

#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cmath>

namespace shard8::optim {
namespace {

/// A unit with a matrix (4, 3) and a vector (5) on one rank.
struct Fixture {
  static std::vector<fsdp::UnitShape> shapes() {
    return {{"unit", {{"matrix", 4, 3, 1, true, false}, {"vector", 5, 1, 1, false, true}}, false}};
  }
  static tensor::MemoryBytes bytes(const deck::OptimizerConfig& config) {
    auto arenas = tensor::ArenaSet::measure();
    const fsdp::UnitBuffers units(shapes(), {}, arenas);
    const Adamw adamw(config, units, arenas);
    return arenas.bytes();
  }
  explicit Fixture(const deck::OptimizerConfig& config)
      : arenas(bytes(config)), units(shapes(), {}, arenas), adamw(config, units, arenas) {
    adamw.prepare(exec);
  }
  tensor::Exec exec;
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

TEST(Adamw, FollowsTheFormulaInDouble) {
  Fixture f(config());
  std::vector<std::vector<double>> p(2), m(2), v(2);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto n = static_cast<std::size_t>(f.units.master(0)[i].count());
    m[i].assign(n, 0.0);
    v[i].assign(n, 0.0);
    for (std::size_t k = 0; k < n; ++k) {
      f.units.master(0)[i].as<float>()[k] = static_cast<float>(std::sin(1.0 + static_cast<double>(k)));
      p[i].push_back(f.units.master(0)[i].as<float>()[k]);
    }
  }
  for (int step = 0; step < 7; ++step) {
    const double lr = 1e-2 / (1 + step), scale = step % 2 == 0 ? 1.0 : 0.5;
    for (std::size_t i = 0; i < 2; ++i) {
      float* const g = f.units.gradient(0)[i].as<float>();
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
    f.adamw.step(f.exec, step, lr, scale);
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < p[i].size(); ++k)  // a few roundings of values up to 1
        EXPECT_NEAR(f.units.master(0)[i].as<float>()[k], p[i][k], 5e-7)
            << "step " << step << ", tensor " << i << ", " << k;
  }
}

TEST(Adamw, ScalesDownToTheClip) {
  const Fixture f(config());
  EXPECT_DOUBLE_EQ(f.adamw.clip_scale(0.5), 1.0);
  EXPECT_DOUBLE_EQ(f.adamw.clip_scale(4.0), 1.0 / (4.0 + 1e-6));
  deck::OptimizerConfig off = config();
  off.clip = 0;
  EXPECT_DOUBLE_EQ(Fixture(off).adamw.clip_scale(1e9), 1.0);
}

}  // namespace
}  // namespace shard8::optim
