// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "app/run_report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "app/process.hpp"
#include "base/version.hpp"
#include "comm/launch.hpp"
#include "io/io_thread.hpp"
#include "kernels/libraries.hpp"
#include "tensor/exec.hpp"
#include "tensor/runtime.hpp"

namespace shard8::app {

namespace {

profile::SummaryInput::DeckValue deck_value(const deck::Echo& echo) {
  return {echo.group, echo.key, deck::value_text(echo), std::holds_alternative<std::string>(echo.value)};
}

}  // namespace

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

profile::SummaryInput summary_input(const std::vector<deck::Echo>& echo, const MemoryFigures& memory) {
  const base::Version v = base::version();
  profile::SummaryInput input;
  const auto text = [](std::string_view s) { return std::string(s); };
  input.version = {
      {"shard8", text(v.number)},       {"git_hash", text(v.git_hash)}, {"build_type", text(v.build_type)},
      {"compiler", text(v.compiler)},   {"march", text(v.march)},       {"kokkos", tensor::kokkos_description()},
      {"mpi", comm::library_version()}, {"hdf5", io::hdf5_version()},   {"blas", kernels::blas_description()}};
  input.date = utc_now();
  for (const auto& e : echo) input.deck.push_back(deck_value(e));
  input.environment = relevant_environment();
  constexpr std::string_view kSlurm[] = {"SLURM_"};
  input.slurm = profile::variables_with(environ, kSlurm);
  for (std::size_t k = 0; k < memory.arenas.size(); ++k)
    input.memory.push_back({text(tensor::name_of(static_cast<tensor::MemoryKind>(k))), memory.arenas[k]});
  input.memory.push_back({"reduction_buffers", memory.reduction_buffers});
  if (memory.user_buffers > 0) input.memory.push_back({"user_buffers", memory.user_buffers});
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
  for (std::size_t k = 0; k < memory.arenas.size(); ++k)
    text += fmt::format("  {} {:.1f}", tensor::name_of(static_cast<tensor::MemoryKind>(k)),
                        static_cast<double>(memory.arenas[k]) / kMiB);
  if (memory.user_buffers > 0)
    text += fmt::format("  user buffers {:.1f}", static_cast<double>(memory.user_buffers) / kMiB);
  if (memory.checkpoint_copies > 0)
    text += fmt::format("  {} {:.1f}", tensor::kDevice ? "pinned on the host" : "checkpoint copies",
                        static_cast<double>(memory.checkpoint_copies) / kMiB);
  return text + fmt::format("\n  planned {:.1f}, measured {:.1f} ({})\n\n", static_cast<double>(memory.planned) / kMiB,
                            static_cast<double>(memory.measured) / kMiB,
                            tensor::kDevice ? "device memory taken since communication was set up"
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
  text.pop_back();  // its end of line
  logger.error("{}", text);
}

}  // namespace shard8::app
