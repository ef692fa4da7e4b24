// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/overlap.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "bench/overlap_cases.hpp"
#include "comm/agree.hpp"
#include "comm/device.hpp"
#include "kernels/blas.hpp"
#include "kernels/libraries.hpp"
#include "profile/spread.hpp"
#include "tensor/transfer.hpp"
#include "train/state.hpp"

namespace shard8::bench {

using tensor::MemoryKind;
using Clock = std::chrono::steady_clock;

namespace {

/// Memory of one rank, taken as train::Assembly takes it.
struct Memory {
  std::shared_ptr<comm::DeviceMemory> exchanged;
  std::unique_ptr<OverlapMemory> layer;
  std::shared_ptr<comm::DeviceMemory> reduce;
  std::shared_ptr<comm::PartsMemory> parts;
  std::string parts_problem;

  Memory(const train::Setup& setup, const comm::Mesh& mesh) {
    const tensor::MemoryBytes bytes = OverlapMemory::bytes(setup);
    exchanged = mesh.tensor.gather_memory(bytes[static_cast<std::size_t>(MemoryKind::exchanged)]);
    comm::agree(mesh.world, [&] {
      layer = std::make_unique<OverlapMemory>(
          setup, tensor::ArenaSet(bytes, {nullptr, exchanged == nullptr ? nullptr : exchanged->data()}));
      kernels::reserve_blas_memory(setup.threads);
    });
    const train::UserBuffers buffers = train::user_buffers(setup);
    if (buffers.reduce > 0) reduce = mesh.tensor.reduce_memory(buffers.reduce);
    if (buffers.gather + buffers.scatter > 0)
      parts = mesh.tensor.parts_memory(buffers.gather, buffers.scatter, &parts_problem);
  }
};

/// Times functions on all ranks of the mesh.
class Stopwatch {
 public:
  Stopwatch(const tensor::Exec& exec, const comm::Mesh& mesh, profile::StepTimer& timer)
      : exec_(exec), world_(mesh.world), timer_(timer) {}

  /// Milliseconds of a call on the slowest rank.
  double operator()(const std::function<void()>& call, int repetitions) {
    once(call);
    timer_.begin_step();
    world_.barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < repetitions; ++i) call();
    tensor::finish(exec_);
    std::array<double, 1> slowest{std::chrono::duration<double, std::milli>(Clock::now() - begin).count() /
                                  repetitions};
    end();
    world_.all_reduce(slowest, comm::Communicator::Reduce::max);
    return slowest[0];
  }

  void once(const std::function<void()>& call) {
    timer_.begin_step();
    world_.barrier();
    call();
    tensor::finish(exec_);
    end();
  }

 private:
  /// Forgets what modules have noted of their times.
  void end() {
    timer_.discard_step();
    world_.record_device_calls();
  }

  const tensor::Exec& exec_;
  const comm::Communicator& world_;
  profile::StepTimer& timer_;
};

/// On a device: times the algorithms that each product of the cases could use, and has all ranks use those that were
/// the fastest on rank 0.
void choose_algorithms(kernels::Libraries& libraries, const comm::Communicator& world,
                       const std::vector<OverlapCase>& cases, Stopwatch& stopwatch) {
  libraries.set_tuning(kernels::Tuning::candidates);
  for (const OverlapCase& c : cases) {
    stopwatch.once(c.prepare);
    stopwatch.once(c.product);
    stopwatch.once(c.overlapped);
  }
  libraries.set_tuning(kernels::Tuning::off);
  std::string algorithms = libraries.algorithms();
  world.broadcast(algorithms, 0);
  comm::agree(world, [&] {
    if (!libraries.adopt(algorithms))
      base::fail(base::ExitCode::environment,
                 "this rank has another kind of device or version of cuBLASLt than rank 0: start all ranks on the same "
                 "kind of node");
  });
}

OverlapRow time_case(const OverlapCase& c, Stopwatch& stopwatch, const OverlapSettings& settings) {
  stopwatch.once(c.prepare);
  const std::array<const std::function<void()>*, 5> variants{&c.product, &c.alone, &c.sequential, &c.overlapped,
                                                             &c.flags};
  std::array<std::vector<double>, 5> times;
  for (int block = 0; block < settings.blocks; ++block)
    for (std::size_t v = 0; v < variants.size(); ++v)
      if (*variants[v]) times[v].push_back(stopwatch(*variants[v], settings.repetitions));
  OverlapRow row{.key = std::string(name_of(c.exchange.name)),
                 .method = c.method,
                 .m = c.m,
                 .n = c.n,
                 .k = c.k,
                 .dtype = std::string(name_of(c.dtype)),
                 .exchange = std::string(name_of(c.moved.op)),
                 .exchange_dtype = c.moved.dtype,
                 .exchange_bytes = c.moved.bytes,
                 .product = block_times(times[0]),
                 .alone = block_times(times[1]),
                 .sequential = block_times(times[2]),
                 .overlapped = block_times(times[3]),
                 .flags = std::nullopt};
  if (!times[4].empty()) row.flags = block_times(times[4]);
  row.busbw = profile::busbw(c.moved, 1e-3 * row.alone.median);
  return row;
}

}  // namespace

BlockTimes block_times(std::span<const double> milliseconds) {
  SHARD8_REQUIRE(!milliseconds.empty(), "there are no blocks");
  const auto [least, most] = std::minmax_element(milliseconds.begin(), milliseconds.end());
  return {profile::percentile({milliseconds.begin(), milliseconds.end()}, 50), *least, *most};
}

std::optional<double> hidden_share(double product, double sequential, double overlapped) {
  constexpr double kLeast = 0.02;  // chosen: less is noise
  for (const double time : {product, sequential, overlapped})
    if (!std::isfinite(time) || time <= 0) return std::nullopt;
  if (sequential - product < kLeast * sequential) return std::nullopt;
  return (sequential - overlapped) / (sequential - product);
}

std::optional<double> OverlapRow::hidden() const {
  return hidden_share(product.median, sequential.median, overlapped.median);
}

deck::Config overlap_bench_deck(deck::Config config) {
  config.overlap = {};
  config.overlap.enable = true;
  return config;
}

OverlapBench bench_overlap(const deck::Config& config, comm::Communicator world, const tensor::Exec& exec, int threads,
                           const OverlapSettings& settings) {
  SHARD8_REQUIRE(settings.blocks > 0 && settings.repetitions > 0, "a benchmark of {} blocks of {} repetitions",
                 settings.blocks, settings.repetitions);
  const comm::Mesh mesh = comm::make_mesh(std::move(world), train::mesh_shape(config.mesh), true);
  const train::Setup setup = train::Setup::make(config, mesh.place, threads);
  SHARD8_REQUIRE(setup.dims.overlap.any(), "no exchange of a group of {} tensor ranks can overlap", setup.mesh.tensor);
  const Memory memory(setup, mesh);
  const auto libraries = tensor::kDevice ? std::make_unique<kernels::Libraries>() : nullptr;
  profile::StepTimer timer;  // of the host, so that nothing is timed on the device between products
  const model::Context context{
      exec, mesh.tensor, timer, {memory.layer->workspace, libraries.get()}, [&mesh] { mesh.world.progress(); }};
  Stopwatch stopwatch(exec, mesh, timer);
  timer.begin_step();
  memory.layer->fill(exec);
  const std::vector<OverlapCase> cases =
      overlap_cases(context, setup.dims.overlap, *memory.layer, setup.fsdp.accumulate);
  tensor::finish(exec);
  timer.discard_step();
  if (libraries != nullptr) choose_algorithms(*libraries, mesh.world, cases, stopwatch);
  OverlapBench bench{.settings = settings,
                     .ranks = mesh.world.size(),
                     .tensor = mesh.tensor.size(),
                     .parts_problem = memory.parts_problem,
                     .rows = {}};
  for (const OverlapCase& c : cases) bench.rows.push_back(time_case(c, stopwatch, settings));
  return bench;
}

}  // namespace shard8::bench
