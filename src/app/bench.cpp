// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/job.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "bench/checkpoint.hpp"
#include "bench/gemm.hpp"
#include "bench/overlap.hpp"
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

/// Writes a file, unless `path` is empty.
void write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  profile::OutputFile file(path);
  file.write(text);
  file.close();
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
  comm::agree_on_root(world, 0, [&] { write_file(arguments.json, bench::to_json(result) + '\n'); });
  return 0;
}

void check_overlap(const std::string& name, const deck::LoadResult& deck) {
  if (deck.config.mesh.tensor > 1) return;
  base::fail(base::ExitCode::deck,
             "{}: error: bench overlap times the exchanges of a tensor group, but mesh.tensor = 1, and a tensor group "
             "of one rank exchanges nothing: set mesh.tensor to 2 or more",
             name);
}

int bench_overlap(Job& job, const BenchArguments& arguments) {
  const comm::Communicator world = job.world.same();
  const base::Logger logger(world.rank(), world.size());
  const base::Version version = base::version();
  const auto now = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  const bench::Measured measured{machine_of(job), std::string(version.number), std::string(version.git_hash),
                                 fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))};
  comm::agree_on_root(world, 0, [&] {
    for (const std::string& path : {arguments.csv, arguments.json})
      if (!path.empty()) profile::require_writable(path);
  });
  const auto result =
      bench::bench_overlap(bench::overlap_bench_deck(job.deck.config), std::move(job.world), job.runtime.exec(),
                           job.runtime.threads(), {.blocks = arguments.blocks, .repetitions = arguments.repetitions});
  logger.info("exchanges of {} tensor ranks beside matrix products, {} ranks, {} blocks of {} repetitions",
              result.tensor, result.ranks, result.settings.blocks, result.settings.repetitions);
  logger.info("{}, shard8 {} ({}), {}", measured.machine, measured.version, measured.commit, measured.date);
  if (!result.parts_problem.empty()) logger.info("direct and pipeline go by messages: {}", result.parts_problem);
  logger.info("{}", bench::to_text(result));
  comm::agree_on_root(world, 0, [&] {
    write_file(arguments.csv, bench::to_csv(result, measured));
    write_file(arguments.json, bench::to_json(result, measured) + '\n');
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
  const std::string& what = arguments.what;
  if (!tensor::kDevice && (what == "gemm" || what == "collective")) needs_devices(what.c_str());
  DeckArguments deck = arguments.deck;
  if (what == "overlap") deck.check = [&](const deck::LoadResult& loaded) { check_overlap(deck.path, loaded); };
  return run_job(argc, argv, deck, [&](Job& job) {
    if (what == "checkpoint") return bench_checkpoint(job, arguments);
    if (what == "overlap") return bench_overlap(job, arguments);
    return what == "gemm" ? bench_gemm(job) : bench_collective(job);
  });
}

}  // namespace shard8::app
