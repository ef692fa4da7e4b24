// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <ctime>
#include <new>

#include "fsdp/weight_store.hpp"
#include "tests/fsdp/units.hpp"

// How many bytes and calls of the host's allocator the lists of units, copies and slots take.

namespace {

std::size_t live_bytes = 0, calls = 0;

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  live_bytes += malloc_usable_size(memory);
  ++calls;
  return memory;
}

void freed(void* memory) {
  live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t n) { return counted(std::malloc(n)); }
void* operator new[](std::size_t n) { return counted(std::malloc(n)); }
void operator delete(void* p) noexcept { freed(p); }
void operator delete[](void* p) noexcept { freed(p); }
void operator delete(void* p, std::size_t) noexcept { freed(p); }
void operator delete[](void* p, std::size_t) noexcept { freed(p); }

namespace shard8 {
namespace {

using fsdp::Options;
using tensor::DType;

/// The units of tests::format_units(), with `layers` layers, each with a copy for each pass.
std::vector<fsdp::UnitShape> units_of(int layers) {
  const auto few = tests::format_units(true);
  std::vector<fsdp::UnitShape> units(static_cast<std::size_t>(layers), few[2]);
  units.insert(units.begin(), few.front());
  units.push_back(few.back());
  return units;
}

/// The visits of a step of one micro-batch.
std::vector<fsdp::Visit> step_of(int layers) {
  std::vector<fsdp::Visit> order;
  for (int u = 0; u <= layers + 1; ++u) order.push_back({u, fsdp::Pass::forward});
  for (int u = layers; u >= 1; --u) order.push_back({u, fsdp::Pass::backward});
  return order;
}

Options options_of(int shards, int prefetch, bool reshard) {
  return {tests::first_of(shards), prefetch, reshard, false, DType::bf16, DType::bf16, DType::fp32};
}

/// Bytes of host memory of UnitBuffers and a WeightStore on them.
std::size_t bookkeeping(int layers, int prefetch, bool reshard) {
  const auto units = units_of(layers);
  auto arenas = tensor::ArenaSet::measure();
  profile::StepTimer phases(nullptr);
  operation::Recorder recorder([](const operation::Operation&) {});
  operation::Executor executor(recorder, phases, false);
  const fsdp::Options options = options_of(8, prefetch, reshard);
  const comm::Mesh alone = comm::mesh_on_paper(options.place);
  const std::size_t before = live_bytes;
  const fsdp::UnitBuffers buffers(units, options, arenas);
  const fsdp::WeightStore store(executor, buffers, alone, {});
  return live_bytes - before;
}

// Measured: 22.8 KiB for a layer of five parameters with two copies, 151 bytes for a slot.
constexpr std::size_t kBytesPerLayer = 24 << 10, kBytesPerSlot = 256, kBytes = 32 << 10;

TEST(Bookkeeping, GrowsAsLayersPlusPrefetch) {
  for (const bool reshard : {true, false}) {
    for (const int layers : {50, 100, 200, 400}) {
      for (const int prefetch : {0, 1, layers / 2, layers}) {
        const std::size_t bytes = bookkeeping(layers, prefetch, reshard);
        EXPECT_LE(bytes, kBytesPerLayer * static_cast<std::size_t>(layers) +
                             kBytesPerSlot * static_cast<std::size_t>(prefetch + 1) + kBytes)
            << layers << " layers, prefetch " << prefetch << ", reshard " << reshard;
      }
      EXPECT_LE(bookkeeping(layers, layers, reshard),
                bookkeeping(layers, 0, reshard) + kBytesPerSlot * static_cast<std::size_t>(layers))
          << layers << " layers, reshard " << reshard;
    }
  }
}

TEST(Bookkeeping, AStepAfterTheFirstAllocatesNothing) {
  constexpr int kLayers = 30;
  for (const int prefetch : {0, 3, kLayers}) {
    for (const bool reshard : {true, false}) {
      tests::Units units(options_of(1, prefetch, reshard), units_of(kLayers));
      fsdp::GatherHooks hooks;
      std::size_t given = 0;
      hooks.before = [&](int, std::span<const fsdp::GatherHooks::Own> own) { given += own.size(); };
      hooks.after = [&](int, std::span<const fsdp::GatherHooks::Arrived> arrived) { given += arrived.size(); };
      fsdp::WeightStore store(units.executor, units.buffers, units.mesh, hooks);
      const auto order = step_of(kLayers);
      units.timer.record(4, 0);
      std::size_t before = 0;
      for (int step = 0; step < 4; ++step) {
        before = calls;
        units.timer.begin_step();
        store.begin_step(order);
        for (const auto& [unit, pass] : order) {
          store.acquire(unit, pass);
          store.release(unit);
        }
        units.timer.end_step();
        if (step == 0) continue;
        EXPECT_EQ(calls - before, 0u) << "step " << step << ", prefetch " << prefetch << ", reshard " << reshard;
      }
      EXPECT_GT(given, 0u);
    }
  }
}

// Each step and each plan runs the whole schedule.
TEST(Bookkeeping, AStepOf800LayersIsQuick) {
  constexpr int kLayers = 800;
  const auto order = step_of(kLayers);
  for (const int prefetch : {1, kLayers / 2, kLayers, 2 * kLayers}) {
    auto arenas = tensor::ArenaSet::measure();
    const std::clock_t begin = std::clock();
    const fsdp::UnitBuffers buffers(units_of(kLayers), options_of(8, prefetch, true), arenas);
    auto schedule = fsdp::make_schedule(buffers);
    const auto copies = buffers.gather().copies_of(order);
    schedule.begin_step(copies);
    std::size_t gathers = 0;
    for (const int copy : copies) {
      gathers += schedule.acquire(copy).size();
      schedule.release(copy);
    }
    EXPECT_EQ(gathers, 2U * kLayers + 2) << "each copy is gathered once";
    // Processor time. Measured: 0.02 s. A schedule in which each visit reads all others takes several seconds.
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 1.0) << "prefetch " << prefetch;
  }
}

}  // namespace
}  // namespace shard8
