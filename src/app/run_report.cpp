// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "app/run_report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "app/device.hpp"
#include "app/process.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "comm/environment.hpp"
#include "data/dataset.hpp"
#include "deck/layout.hpp"
#include "io/io_thread.hpp"
#include "kernels/libraries.hpp"
#include "tensor/runtime.hpp"
#include "train/plan/plan.hpp"

namespace shard8::app {

namespace {

/// The text without its last end of line.
std::string chomped(std::string text) {
  text.pop_back();
  return text;
}

/// The weights with which the run begins.
std::string weights_text(const RunHeader& header) {
  const deck::ModelConfig& model = header.assembly.setup().config.model;
  if (header.point)
    return fmt::format("weights of the checkpoint{}", model.init_file.empty() ? "" : "; model.init_file is not read");
  if (model.init_file.empty()) return fmt::format("random weights, model.init_seed {}", model.init_seed);
  const auto& weights = header.run.inputs.weights;  // rank 0, which prints, has them
  return weights ? fmt::format("weights of {}, digest {}", weights->path, weights->digest) : model.init_file;
}

std::string restart_text(const train::RestartPoint& point, std::int64_t steps) {
  const checkpoint::Manifest& m = point.manifest;
  const std::string of = m.step > steps ? fmt::format(", beyond run.steps = {}", steps) : fmt::format(" of {}", steps);
  return fmt::format("from {}, step {}{}, written on the mesh {}", point.folder, m.step, of, text_of(m.mesh));
}

}  // namespace

void print_job(const base::Logger& logger, const comm::Communicator& world, const comm::Node& node,
               const train::Assembly& assembly) {
  const base::Version v = base::version();
  const train::Setup& setup = assembly.setup();
  logger.info("shard8 {} ({}, {})", v.number, v.git_hash, v.build_type);
  logger.info("{}", chomped(deck::describe(setup.config)));
  const bool elsewhere = node.ranks < world.size();  // ranks of other nodes
  logger.info("ranks      {}{} on {}, {} each, waiting by {}", world.size(),
              elsewhere ? fmt::format(", {} of them", node.ranks) : "", node.host,
              base::count(setup.threads, "thread", "threads"), comm::name_of(world.waiting()));
  const int threads = node.ranks * setup.threads;
  if (world.device() == nullptr && threads > node.cores && logger.speaks())
    logger.warn(
        "{} of {} share {} of {}: a rank that waits for a core looks like exposed communication; for figures start at "
        "most {} here, or change the mesh",
        base::count(threads, "thread", "threads"), base::count(node.ranks, "rank", "ranks"),
        base::count(node.cores, "core", "cores"), node.host,
        base::count(std::max(1, node.cores / setup.threads), "rank", "ranks"));
  if (const auto* device = world.device())
    for (const std::string& line : device->describe()) logger.info("device     {}", line);
  if (!assembly.parts_problem().empty())
    logger.info("overlap    direct and pipeline go by messages: {}", assembly.parts_problem());
  for (const std::string& remark : assembly.remarks()) logger.info("{}", remark);
}

profile::MeasuredUse begin_measuring(train::Assembly& assembly, profile::CollectiveLog& log) {
  log.set_measuring(true);
  assembly.timer().clear_issues();
  return {.threads = assembly.setup().threads,
          .on_cpus = assembly.mesh().world.device() == nullptr,
          .begin = profile::processor_use()};
}

void print_header(const base::Logger& logger, const RunHeader& header) {
  const train::Assembly& assembly = header.assembly;
  print_job(logger, header.world, header.node, assembly);
  for (const std::string& remark : header.overlap.remarks) logger.info("overlap    {}", remark);
  if (!header.overlap.choice.rows.empty()) logger.info("{}", chomped(profile::to_text(header.overlap.choice)));
  logger.info("found      {}", assembly.loader().dataset().description());
  if (const data::Loader* const validation = assembly.validation())
    logger.info("validation {}", validation->dataset().description());
  if (header.entropy) {
    const std::int64_t tokens = assembly.loader().dataset().countable();
    logger.info("unigram entropy of the data: {:.6f} nats{}", *header.entropy,
                tokens > data::kMostCounted ? fmt::format(", of {} of {} tokens", data::kMostCounted, tokens) : "");
  }
  logger.info("init       {}", weights_text(header));
  if (header.point) logger.info("restart    {}", restart_text(*header.point, header.steps));
  logger.info("identity   {}", train::text_of(header.run.identity));
  if (header.point)
    for (const std::string& remark : header.point->remarks) logger.info("{}", remark);
}

std::vector<profile::SummaryInput::DeckValue> deck_values(const std::vector<deck::Echo>& echo) {
  std::vector<profile::SummaryInput::DeckValue> values;
  for (const deck::Echo& e : echo)
    values.push_back({e.group, e.key, deck::value_text(e), std::holds_alternative<std::string>(e.value)});
  return values;
}

std::string utc_now() {
  const auto now = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

profile::Gather gather_over(const comm::Communicator& world) {
  return {world.size(), [&world](std::span<const double> values) { return world.over_ranks(values); },
          [&world](std::span<const double> values) { return world.gather(values, 0); },
          [&world](std::string_view text) { return world.gather(text, 0); },
          [&world](std::string& text, int rank) { world.broadcast(text, rank); }};
}

MemoryFigures memory_figures(const train::Assembly& assembly, std::uint64_t growth) {
  const train::Setup& setup = assembly.setup();
  const comm::Communicator& world = assembly.mesh().world;
  const train::Plan plan = train::make_plan(setup.config, setup.threads);
  std::array<std::uint64_t, 1> most{growth};
  world.all_reduce(most, comm::Communicator::Reduce::max);
  return {.on_device = world.device() != nullptr,
          .arenas = plan.moved_only ? plan.memory : assembly.trainer().state().arenas.bytes(),
          .reduction_buffers = plan.reduction_buffers,
          .user_buffers = plan.user_buffers,
          .nccl = plan.nccl,
          .checkpoint_copies = plan.checkpoint.copies,
          .planned = plan.needed_bytes(),
          .measured = most[0]};
}

profile::Products products_of(const train::Setup& setup) {
  const auto& recipe = setup.weights.recipe;
  if (recipe.on() && !recipe.emulated()) return profile::Products::fp8;
  const bool bf16 = setup.config.precision.compute == deck::FloatType::bf16;
  return bf16 ? profile::Products::bf16 : profile::Products::fp32;
}

profile::SummaryInput summary_input(const std::vector<deck::Echo>& echo, const train::Assembly& assembly,
                                    const MemoryFigures& memory) {
  const base::Version v = base::version();
  profile::SummaryInput input;
  const auto text = [](std::string_view s) { return std::string(s); };
  input.version = {
      {"shard8", text(v.number)},       {"git_hash", text(v.git_hash)}, {"build_type", text(v.build_type)},
      {"compiler", text(v.compiler)},   {"march", text(v.march)},       {"kokkos", tensor::kokkos_description()},
      {"mpi", comm::library_version()}, {"hdf5", io::hdf5_version()},   {"blas", kernels::blas_description()}};
  const comm::Communicator& world = assembly.mesh().world;
  const comm::Device* const device = world.device();
  input.gpu = gpu_versions(device);
  const bool skeleton = assembly.setup().config.run.skeleton != deck::Skeleton::none;
  input.run = {.backend = device != nullptr ? "nccl" : "mpi",
               .device = device != nullptr ? "cuda" : "host",
               .threads_per_rank = assembly.setup().threads,
               .waiting = text(comm::name_of(world.waiting())),
               .data = skeleton ? "none: a skeleton reads no data" : assembly.loader().dataset().description(),
               .collectives = device != nullptr ? device->describe() : std::vector<std::string>()};
  input.date = utc_now();
  input.deck = deck_values(echo);
  input.environment = relevant_environment();
  constexpr std::string_view kSlurm[] = {"SLURM_"};
  input.slurm = profile::variables_with(environ, kSlurm);
  for (std::size_t k = 0; k < memory.arenas.size(); ++k)
    input.memory.push_back({text(tensor::name_of(static_cast<tensor::MemoryKind>(k))), memory.arenas[k]});
  input.memory.push_back({"reduction_buffers", memory.reduction_buffers});
  if (memory.user_buffers > 0) input.memory.push_back({"user_buffers", memory.user_buffers});
  if (memory.nccl > 0) input.memory.push_back({"nccl", memory.nccl});
  if (memory.checkpoint_copies > 0) input.memory.push_back({"checkpoint_copies", memory.checkpoint_copies});
  input.memory.push_back({"planned_total", memory.planned});
  input.memory.push_back({"measured_peak_growth", memory.measured});
  return input;
}

profile::SummaryInput::Input input_of(const char* name, const std::string& path,
                                      const std::optional<checkpoint::ManifestInput>& input) {
  if (!input) return {.name = name, .path = path};
  return {name, input->path, input->length, input->samples, input->digest};
}

std::string to_text(const MemoryFigures& memory) {
  constexpr double kMiB = 1024.0 * 1024.0;
  std::string text = "memory per rank, MiB:";
  for (std::size_t k = 0; k < memory.arenas.size(); ++k) {
    if (memory.arenas[k] == 0) continue;
    text += fmt::format("  {} {:.1f}", tensor::name_of(static_cast<tensor::MemoryKind>(k)),
                        static_cast<double>(memory.arenas[k]) / kMiB);
  }
  if (memory.user_buffers > 0)
    text += fmt::format("  user buffers {:.1f}", static_cast<double>(memory.user_buffers) / kMiB);
  if (memory.nccl > 0) text += fmt::format("  NCCL {:.1f}", static_cast<double>(memory.nccl) / kMiB);
  if (memory.checkpoint_copies > 0)
    text += fmt::format("  {} {:.1f}", memory.on_device ? "pinned on the host" : "checkpoint copies",
                        static_cast<double>(memory.checkpoint_copies) / kMiB);
  return text + fmt::format("\n  planned {:.1f}, measured {:.1f} ({})\n\n", static_cast<double>(memory.planned) / kMiB,
                            static_cast<double>(memory.measured) / kMiB,
                            memory.on_device ? "device memory taken since communication was set up"
                                             : "growth of the peak resident set after start-up");
}

void warn_of(const base::Logger& logger, const profile::Report& report) {
  if (!logger.speaks()) return;
  for (const std::string& warning : profile::warnings_of(report)) logger.warn("{}", warning);
  warn_of(logger, report.verification);
}

void warn_of(const base::Logger& logger, const profile::Verification& verification) {
  if (!logger.speaks() || verification.status != profile::Verification::Status::failed) return;
  std::string text = profile::to_text(verification);
  text.pop_back();  // the line feed
  logger.error("{}", text);
}

void tell_of(base::Logger& logger, const profile::Verification& verification, bool quiet) {
  std::string text = profile::to_text(verification);
  text.pop_back();  // the line feed
  logger.info("{}", text);
  if (quiet) warn_of(logger, verification);
}

}  // namespace shard8::app
