// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "app/commands.hpp"
#include "app/job.hpp"
#include "base/log.hpp"
#include "train/assembly.hpp"

#if defined(SHARD8_CUDA)
#include "comm/nccl/bench.hpp"
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

/// A table with one matrix product a line, the slowest first.
std::string table(std::vector<kernels::Libraries::Choice> choices) {
  std::sort(choices.begin(), choices.end(),
            [](const auto& a, const auto& b) { return a.microseconds > b.microseconds; });
  std::string text = fmt::format("{:>10} {:>10} {:>10} {:>10} {:>8} {:>7}  {}\n", "us", "TFLOP/s", "first us",
                                 "best us", "of best", "guess", "product");
  for (const auto& c : choices) {
    const auto share = c.best_microseconds > 0
                           ? fmt::format("{:.1f} %", 100.0 * std::min(1.0f, c.best_microseconds / c.microseconds))
                           : std::string("-");
    text += fmt::format("{:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>8} {:>3}/{:<3}  {}{}\n", c.microseconds,
                        1e-6 * c.flops / static_cast<double>(c.microseconds), c.first_microseconds, c.best_microseconds,
                        share, c.guess + 1, c.guesses, c.product, c.searched.empty() ? "" : "; " + c.searched);
  }
  return text;
}

/// Times every matrix product of the deck on its operands: with the algorithm that a run chooses, and with the best of
/// an exhaustive search.
int bench_gemm(Job& job) {
  deck::Config config = job.deck.config;
  config.data.kind = deck::DataKind::synthetic;  // no step is trained
  config.data.path.clear();
  config.model.init_file.clear();
  const base::Logger logger(job.world.rank(), job.world.size());
  train::Assembly assembly(config, std::move(job.world), job.runtime.exec(), job.runtime.threads());
  assembly.open_files();
  assembly.start(kernels::Tuning::exhaustive);
  logger.info("matrix products of the deck, on rank 0; best: of an exhaustive search over the library's algorithms");
  logger.info("{}", table(assembly.trainer().libraries()->choices()));
  return 0;
}

#if defined(SHARD8_CUDA)

int bench_collective(Job& job) {
  using comm::nccl::bench_sizes;
  using profile::Collective;
  using tensor::DType;
  const base::Logger logger(job.world.rank(), job.world.size());
  const auto shape = train::mesh_shape(job.deck.config.mesh);
  const comm::Mesh mesh = comm::make_mesh(std::move(job.world), shape);
  const auto time = [&](const comm::Communicator& group) {
    if (group.size() == 1) return;
    logger.info("\ngroup '{}' of {} ranks", group.name(), group.size());
    std::vector<comm::nccl::BenchCase> cases;
    constexpr std::uint64_t kLeast = std::uint64_t{64} << 10, kMost = std::uint64_t{512} << 20;
    for (const auto& more : {bench_sizes(Collective::all_gather, DType::u8, kLeast, kMost, 8),
                             bench_sizes(Collective::reduce_scatter, DType::fp32, kLeast, kMost, 8),
                             bench_sizes(Collective::reduce_scatter, DType::bf16, kLeast, kMost, 8),
                             bench_sizes(Collective::all_reduce, DType::fp32, kLeast, kMost, 8)})
      cases.insert(cases.end(), more.begin(), more.end());
    const auto rows = comm::nccl::bench_collectives(group, tensor::cuda::stream_of(job.runtime.exec()), cases, {});
    logger.info("{}", comm::nccl::to_text(rows));
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

int bench_command(int argc, char** argv, const std::string& what, const DeckArguments& arguments) {
  if (!tensor::kDevice) needs_devices(what.c_str());
  return run_job(argc, argv, arguments,
                 [&](Job& job) { return what == "gemm" ? bench_gemm(job) : bench_collective(job); });
}

}  // namespace shard8::app
