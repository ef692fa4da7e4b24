// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/device.hpp"
#include "app/job.hpp"
#include "app/process.hpp"
#include "app/run_report.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "bench/bench.hpp"
#include "bench/collectives.hpp"
#include "comm/agree.hpp"
#include "comm/device.hpp"
#include "comm/mesh.hpp"
#include "deck/device.hpp"
#include "deck/load.hpp"
#include "deck/number.hpp"
#include "deck/overlap.hpp"
#include "profile/output_file.hpp"
#include "train/assembly.hpp"

#if defined(SHARD8_CUDA)
#include "tensor/cuda/device.hpp"
#endif

namespace shard8::app {

namespace {

/// "give --json a file in": the remedy where the file of an option cannot be written.
std::string remedy_of(const char* option) { return fmt::format("give {} a file in", option); }

/// AgreedError(environment) unless rank 0 can write the requested files. Collective.
void require_files(const comm::Communicator& world, const BenchArguments& arguments) {
  comm::agree_on_root(world, 0, [&] {
    if (!arguments.csv.empty()) profile::require_writable(arguments.csv, remedy_of("--csv"));
    if (!arguments.json.empty()) profile::require_writable(arguments.json, remedy_of("--json"));
  });
}

/// Rank 0 writes a file, unless `path` is empty. Collective.
void write_file(const comm::Communicator& world, const std::string& path, const std::string& text, const char* option) {
  comm::agree_on_root(world, 0, [&] {
    if (!path.empty()) profile::write_output(path, text, remedy_of(option));
  });
}

constexpr const char *kMostOnDevices = "512MiB", *kMostOnHosts = "16MiB";  ///< defaults of --max

bench::Measured measured_by(const Job& job) {
  const base::Version version = base::version();
  return {machine_of(job), std::string(version.number), std::string(version.git_hash), utc_now()};
}

int bench_gemm(Job& job, const BenchArguments& arguments) {
  const deck::Config config = deck::without_files(job.deck.config);
  const comm::Communicator world = job.world.same();
  const base::Logger logger(world.rank(), world.size());
  const bench::Measured measured = measured_by(job);
  require_files(world, arguments);
  train::Assembly assembly(config, std::move(job.world), job.runtime.exec(), job.runtime.threads(), program_text());
  assembly.open_files();
  const bench::GemmRows rows = bench::bench_gemm(assembly);
  logger.info("matrix products of the deck, on rank 0; best: of an exhaustive search over the library's algorithms");
  logger.info("{}", bench::to_text(rows));
  write_file(world, arguments.json, bench::to_json(rows, measured) + '\n', "--json");
  return 0;
}

int bench_checkpoint(Job& job, const BenchArguments& arguments, const StopRequests& requests) {
  deck::Config config = bench::checkpoint_bench_deck(job.deck.config);
  bench::CheckpointSettings settings{
      arguments.runs, arguments.dir, arguments.evict, {}, [&] { return requests.signalled(); }};
  comm::agree(job.world, [&] { settings.run = describe_run(job.deck); });
  if (settings.dir.empty()) settings.dir = config.output.dir;
  const base::Logger logger(job.world.rank(), job.world.size());
  for (const deck::Echo& e : job.deck.echo)
    if (job.world.rank() == 0 && e.group == "checkpoint" && e.key == "dir" && e.origin != deck::Origin::fallback)
      warn(fmt::format("checkpoint.dir is not used: the bench writes to {}, {}", settings.dir,
                       arguments.dir.empty() ? "output.dir, unless --dir names another folder" : "as --dir says"));
  train::Assembly assembly(config, std::move(job.world), job.runtime.exec(), job.runtime.threads(), program_text());
  const comm::Communicator& world = assembly.mesh().world;
  require_files(world, arguments);
  assembly.open_files();
  assembly.start();
  const auto result = bench::bench_checkpoint(assembly, settings);
  logger.info("saved to and loaded from {}{}", settings.dir, settings.evict ? ", pages evicted before loading" : "");
  logger.info("{}", bench::to_text(result));
  write_file(world, arguments.json, bench::to_json(result) + '\n', "--json");
  return 0;
}

void check_overlap(const std::string& name, const deck::LoadResult& deck) {
  if (deck::can_overlap(deck.config)) return;
  base::fail(base::ExitCode::deck,
             "{}: error: bench overlap times the exchanges of a tensor group and, on devices, of an expert group, but "
             "mesh.tensor = {} and mesh.expert = {}: set mesh.tensor{} to 2 or more",
             name, deck.config.mesh.tensor, deck.config.mesh.expert,
             deck::on_device(deck.config.mesh) && deck.config.model.moe.on() ? " or mesh.expert" : "");
}

int bench_overlap(Job& job, const BenchArguments& arguments) {
  const comm::Communicator world = job.world.same();
  const base::Logger logger(world.rank(), world.size());
  const bench::Measured measured = measured_by(job);
  require_files(world, arguments);
  const auto result =
      bench::bench_overlap(bench::overlap_bench_deck(job.deck.config), std::move(job.world), job.runtime.exec(),
                           job.runtime.threads(), {.blocks = arguments.blocks, .repetitions = arguments.repetitions});
  logger.info("exchanges overlapped with matrix products: tensor {}, {} ranks, {} blocks of {} repetitions",
              result.tensor, result.ranks, result.settings.blocks, result.settings.repetitions);
  logger.info("{}, shard8 {} ({}), {}", measured.machine, measured.version, measured.commit, measured.date);
  if (!result.parts_problem.empty()) logger.info("direct and pipeline go by messages: {}", result.parts_problem);
  if (!result.push_problem.empty()) logger.info("dispatch and combine are not timed: {}", result.push_problem);
  logger.info("{}", bench::to_text(result));
  write_file(world, arguments.csv, bench::to_csv(result, measured), "--csv");
  write_file(world, arguments.json, bench::to_json(result, measured) + '\n', "--json");
  return 0;
}

/// Error(deck) for sizes that are none, or of which the smallest is above the largest.
bench::CollectiveSettings collective_settings(const BenchArguments& arguments, bool on_device) {
  const std::string most = !arguments.most.empty() ? arguments.most : on_device ? kMostOnDevices : kMostOnHosts;
  const std::uint64_t least_bytes = bytes_of(arguments.least, "shard8 bench: --min");
  const std::uint64_t most_bytes = bytes_of(most, "shard8 bench: --max");
  if (least_bytes > most_bytes) {
    const auto origin = [](bool given) { return given ? "" : " (its default)"; };
    base::fail(base::ExitCode::deck,
               "shard8 bench: --min {}{} is above --max {}{}: give a smaller --min or a larger --max", arguments.least,
               origin(arguments.least != BenchArguments().least), most, origin(!arguments.most.empty()));
  }
  return {.least = least_bytes,
          .most = most_bytes,
          .factor = arguments.factor,
          .warmup = arguments.warmup,
          .repetitions = arguments.iterations,
          .check = arguments.check && !on_device};
}

struct CollectiveTimes {
  std::vector<bench::CollectiveFigures> figures;
  std::string table;
};

#if defined(SHARD8_CUDA)

CollectiveTimes time_collectives(const Job& job, const comm::Communicator& group,
                                 const bench::CollectiveSettings& settings) {
  std::vector<bench::BenchCase> cases;
  for (const auto& [op, dtype] : kTimedCollectives) {
    const auto more = bench::bench_sizes(op, dtype, settings.least, settings.most, settings.factor);
    cases.insert(cases.end(), more.begin(), more.end());
  }
  const auto rows = bench::bench_collectives(group, tensor::cuda::stream_of(job.runtime.exec()), cases,
                                             {.warmup = settings.warmup, .repetitions = settings.repetitions});
  const auto figures = figures_of(group, rows);
  return {figures, bench::to_text(rows) + bench::average_text(figures)};
}

#else

CollectiveTimes time_collectives(const Job&, const comm::Communicator& group,
                                 const bench::CollectiveSettings& settings) {
  const auto figures = bench::bench_host_collectives(group, settings);
  return {figures, bench::to_text(figures)};
}

#endif

/// AgreedError(environment) unless the ranks of every node can have two wholes of the largest size.
void require_collective_memory(const Job& job, const bench::CollectiveSettings& settings) {
  const auto bytes = [&] { return bench::host_collective_bytes(settings, job.world.size()); };
  const std::string size =
      deck::format_size(bench::sizes_between(settings.least, settings.most, settings.factor).back());
  require_memory(job.world, job.node, bytes,
                 {"bench collective", fmt::format("two wholes of {}", size), "give a smaller --max"});
}

int bench_collective(Job& job, const BenchArguments& arguments) {
  const base::Logger logger(job.world.rank(), job.world.size());
  const bench::Measured measured = measured_by(job);
  bench::CollectiveSettings settings;
  comm::agree(job.world, [&] { settings = collective_settings(arguments, job.world.device() != nullptr); });
  if (job.world.device() == nullptr) require_collective_memory(job, settings);
  require_files(job.world, arguments);
  const comm::Mesh mesh = comm::make_mesh(std::move(job.world), job.deck.config.mesh.extents());
  logger.info("{}, shard8 {} ({}), {}", measured.machine, measured.version, measured.commit, measured.date);
  std::vector<bench::CollectiveFigures> all;
  std::uint64_t wrong = 0;
  for (const base::AxisSet axes : {base::AxisSet::shard, base::AxisSet::tensor, base::AxisSet::replicate}) {
    const comm::Communicator& group = mesh.group(axes);
    if (group.size() == 1) continue;
    const auto [rows, table] = time_collectives(job, group, settings);
    logger.info("\ngroup '{}' of {} ranks\n{}", group.name(), group.size(), table);
    for (const bench::CollectiveFigures& row : rows) wrong += row.wrong.value_or(0);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  if (const auto* device = mesh.world.device())
    for (const std::string& line : device->describe()) logger.info("{}", line);
  write_file(mesh.world, arguments.json, bench::to_json(all, settings, measured) + '\n', "--json");
  std::array<std::uint64_t, 1> most{wrong};  // other ranks may have other groups
  mesh.world.all_reduce(most, comm::Communicator::Reduce::max);
  if (most[0] == 0) return 0;
  logger.info("{} elements of a group are wrong: the MPI library or the network damages data", most[0]);
  return base::to_int(base::ExitCode::verification);
}

void check_collective(const std::string& name, const deck::LoadResult& deck) {
  if (deck.config.mesh.ranks() > 1) return;
  base::fail(
      base::ExitCode::deck,
      "{}: error: bench collective times the groups of a mesh, but the deck's mesh has one rank: set mesh.shard or "
      "mesh.tensor to 2 or more",
      name);
}

}  // namespace

int bench_command(int argc, char** argv, const BenchArguments& arguments) {
  const std::string& what = arguments.what;
  std::vector<profile::NamedFile> written;
  if (!arguments.csv.empty()) written.push_back({"--csv", arguments.csv});
  if (!arguments.json.empty()) written.push_back({"--json", arguments.json});
  profile::require_distinct("shard8 bench", written, {{"the deck", arguments.deck.path}});
  if (what == "gemm") require_devices("bench gemm");
  if (what == "collective") {  // errors of options; without --max the largest size depends on where ranks compute
    bytes_of(arguments.least, "shard8 bench: --min");
    if (!arguments.most.empty()) collective_settings(arguments, false);
  }
  DeckArguments deck = arguments.deck;
  deck.trains = what == "checkpoint";
  if (what == "overlap") deck.check = [&](const deck::LoadResult& loaded) { check_overlap(deck.path, loaded); };
  if (what == "collective") deck.check = [&](const deck::LoadResult& loaded) { check_collective(deck.path, loaded); };
  if (what == "checkpoint") {  // it has files to remove when a signal comes
    StopRequests requests;
    const int code = run_job(
        argc, argv, deck, [&](Job& job) { return bench_checkpoint(job, arguments, requests); }, &requests);
    requests.leave_launcher();
    return code;
  }
  return run_job(argc, argv, deck, [&](Job& job) {
    if (what == "overlap") return bench_overlap(job, arguments);
    return what == "gemm" ? bench_gemm(job, arguments) : bench_collective(job, arguments);
  });
}

}  // namespace shard8::app
