// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <vector>

#include "fp8/quantizer.hpp"
#include "tensor/arena.hpp"

namespace shard8::tests {

inline constexpr int kLayers = 2;

inline fp8::Recipe recipe_of(deck::Recipe kind) {
  fp8::Recipe r;
  r.kind = kind;
  r.gradient =
      kind == deck::Recipe::delayed || kind == deck::Recipe::current ? tensor::DType::e5m2 : tensor::DType::e4m3;
  r.layers = kLayers;
  r.amax_history = 5;
  r.power_of_2 = kind == deck::Recipe::block || kind == deck::Recipe::mxfp8;
  return r;
}

/// Every matrix of every layer.
inline std::vector<fp8::Site> sites() {
  std::vector<fp8::Site> all;
  for (int layer = 0; layer < kLayers; ++layer)
    for (int l = 0; l < fp8::kLinears; ++l)
      for (int r = 0; r < fp8::kRoles; ++r)
        all.push_back({layer, static_cast<fp8::Linear>(l), static_cast<fp8::Role>(r)});
  return all;
}

/// A scaling state in memory of its own, on all ranks.
struct State {
  explicit State(const fp8::Recipe& recipe)
      : world(MPI_COMM_WORLD, "world", comm::Waiting::yield, &log),
        arena("test", tensor::MemoryKind::buffers, std::size_t{8} << 20),
        state(recipe, arena),
        quantizer(state, executor, world) {
    state.prepare(exec);
  }
  /// Raises the amax of a matrix, as a kernel that reads x on this rank does.
  void see(const fp8::Site& site, float x) {
    const tensor::Tensor value{reinterpret_cast<std::byte*>(&x), {1}, tensor::DType::fp32};
    kernels::amax(exec, state.amax(site), value, {});
  }
  void end_step() {
    state.reduce(executor, world);
    state.update(executor);
  }
  float scale(const fp8::Site& site) const { return *state.scale(site).as<float>(); }

  tensor::Exec exec;
  profile::CollectiveLog log;
  profile::StepTimer timer;
  operation::Executor executor{exec, timer};
  comm::Communicator world;
  tensor::Arena arena;
  fp8::ScalingState state;
  fp8::Quantizer quantizer;
};

}  // namespace shard8::tests
