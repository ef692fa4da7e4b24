// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/job.hpp"
#include "base/log.hpp"
#include "bench/checkpoint.hpp"
#include "bench/gemm.hpp"
#include "comm/agree.hpp"
#include "profile/output_file.hpp"
#include "train/assembly.hpp"

#if defined(SHARD8_CUDA)
#include "bench/collectives.hpp"
#include "tensor/cuda/stream.hpp"
#endif

namespace shard8::app {

namespace {

[[noreturn]] void needs_devices(const char* what) {
  base::fail(
      base::ExitCode::environment,
      "bench {} times what devices do, and this program was built for hosts: build with a Kokkos for CUDA (preset "
      "cuda); scripts/bench has benchmarks of hosts",
      what);
}

int bench_gemm(Job& job) {
  deck::Config config = job.deck.config;
  config.data.kind = deck::DataKind::synthetic;  // no step is trained
  config.data.path.clear();
  config.model.init_file.clear();
  const base::Logger logger(job.world.rank(), job.world.size());
  train::Assembly assembly(config, std::move(job.world), job.runtime.exec(), job.runtime.threads());
  assembly.open_files();
  const std::string table = bench::gemm_table(assembly);
  logger.info("matrix products of the deck, on rank 0; best: of an exhaustive search over the library's algorithms");
  logger.info("{}", table);
  return 0;
}

int bench_checkpoint(Job& job, const BenchArguments& arguments) {
  deck::Config config = bench::checkpoint_bench_deck(job.deck.config);
  bench::CheckpointSettings settings{arguments.runs, arguments.dir, arguments.evict, describe_run(job.deck)};
  if (settings.dir.empty()) settings.dir = config.output.dir;
  const base::Logger logger(job.world.rank(), job.world.size());
  train::Assembly assembly(config, std::move(job.world), job.runtime.exec(), job.runtime.threads());
  const comm::Communicator& world = assembly.mesh().world;
  comm::agree_on_root(world, 0, [&] {
    if (!arguments.json.empty()) profile::require_writable(arguments.json);
  });
  assembly.open_files();
  assembly.start();
  const auto result = bench::bench_checkpoint(assembly, settings);
  logger.info("saved to and loaded from {}{}", settings.dir, settings.evict ? ", pages evicted before loading" : "");
  logger.info("{}", bench::to_text(result));
  comm::agree_on_root(world, 0, [&] {
    if (arguments.json.empty()) return;
    profile::OutputFile file(arguments.json);
    file.write(bench::to_json(result) + '\n');
    file.close();
  });
  return 0;
}

#if defined(SHARD8_CUDA)

int bench_collective(Job& job) {
  using bench::bench_sizes;
  using profile::Collective;
  using tensor::DType;
  const base::Logger logger(job.world.rank(), job.world.size());
  const auto shape = train::mesh_shape(job.deck.config.mesh);
  const comm::Mesh mesh = comm::make_mesh(std::move(job.world), shape);
  const auto time = [&](const comm::Communicator& group) {
    if (group.size() == 1) return;
    logger.info("\ngroup '{}' of {} ranks", group.name(), group.size());
    std::vector<bench::BenchCase> cases;
    constexpr std::uint64_t kLeast = std::uint64_t{64} << 10, kMost = std::uint64_t{512} << 20;
    for (const auto& more : {bench_sizes(Collective::all_gather, DType::u8, kLeast, kMost, 8),
                             bench_sizes(Collective::reduce_scatter, DType::fp32, kLeast, kMost, 8),
                             bench_sizes(Collective::reduce_scatter, DType::bf16, kLeast, kMost, 8),
                             bench_sizes(Collective::all_reduce, DType::fp32, kLeast, kMost, 8)})
      cases.insert(cases.end(), more.begin(), more.end());
    const auto rows = bench::bench_collectives(group, tensor::cuda::stream_of(job.runtime.exec()), cases, {});
    logger.info("{}", bench::to_text(rows));
  };
  time(mesh.shard);
  time(mesh.tensor);
  if (shape.replicate > 1) time(mesh.replicate);
  for (const std::string& line : mesh.world.device()->describe()) logger.info("{}", line);
  return 0;
}

#else

int bench_collective(Job&) { needs_devices("collective"); }

#endif

}  // namespace

int bench_command(int argc, char** argv, const BenchArguments& arguments) {
  const bool checkpoint = arguments.what == "checkpoint";
  if (!tensor::kDevice && !checkpoint) needs_devices(arguments.what.c_str());
  return run_job(argc, argv, arguments.deck, [&](Job& job) {
    if (checkpoint) return bench_checkpoint(job, arguments);
    return arguments.what == "gemm" ? bench_gemm(job) : bench_collective(job);
  });
}

}  // namespace shard8::app
