// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// The commands that look at what runs have left, and at this program.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <vector>

#include "app/commands.hpp"
#include "app/device.hpp"
#include "app/job.hpp"
#include "app/process.hpp"
#include "base/error.hpp"
#include "base/plain_file.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "checkpoint/inspect.hpp"
#include "checkpoint/masters.hpp"
#include "comm/environment.hpp"
#include "deck/layout.hpp"
#include "deck/number.hpp"
#include "io/io_thread.hpp"
#include "kernels/libraries.hpp"
#include "model/huggingface_entries.hpp"
#include "profile/compare/comparison.hpp"
#include "profile/output_file.hpp"
#include "tensor/runtime.hpp"
#include "trace/rank_trace.hpp"
#include "train/stored_weights.hpp"
#include "train/training_file.hpp"

namespace shard8::app {

namespace fs = std::filesystem;

namespace {

using base::ExitCode;
using checkpoint::Checkpoint;

int list(const std::string& path) {
  fmt::print("{}", checkpoint::list_text(checkpoint::directory_at(path)));
  return 0;
}

int show(const CkptArguments& arguments) {
  const Checkpoint found = checkpoint::open_checkpoint(arguments.paths.front(), warn);
  const auto tensors = checkpoint::summarise(found, !arguments.no_hashes);
  fmt::print("{}", arguments.json ? checkpoint::show_json(found, tensors, arguments.boxes)
                                  : checkpoint::show_text(found, tensors, arguments.boxes));
  return 0;
}

/// Everything that is wrong with one checkpoint.
std::vector<std::string> problems_of(const Checkpoint& found) {
  auto problems = checkpoint::problems_of_files(found);
  if (!problems.empty()) return problems;  // values that cannot be read are not compared
  try {
    return train::problems_of_values(found, checkpoint::Masters(found), train::saved_config(found));
  } catch (const base::Error& error) {
    return {error.what()};
  }
}

/// The checkpoints that a path names: itself, or all in a folder. Checkpoints that cannot be opened are problems.
std::vector<std::string> folders_of(const std::string& path) {
  if (checkpoint::is_checkpoint(path)) return {path};
  const checkpoint::Directory directory = checkpoint::directory_at(path);
  std::vector<std::string> folders;
  for (const std::int64_t step : directory.steps()) folders.push_back(directory.folder_of(step));
  return folders;
}

bool is_good(const std::string& folder) {
  std::vector<std::string> problems;
  try {
    const Checkpoint found = checkpoint::open_checkpoint(folder, warn);
    problems = problems_of(found);
    if (problems.empty()) {
      fmt::print("{}: good: step {}, {} tensors in {}\n", folder, found.manifest.step, found.manifest.tensors.size(),
                 base::count(static_cast<std::int64_t>(found.manifest.files.size()), "file", "files"));
      return true;
    }
  } catch (const base::Error& error) {
    problems = {error.what()};
  }
  if (!base::kind_of_file(folder).is_there()) {
    fmt::print("{}: removed meanwhile, as by checkpoint.keep of a run\n", folder);
    return true;
  }
  fmt::print("{}: not good: {} problem{}\n", folder, problems.size(), problems.size() == 1 ? "" : "s");
  std::fflush(stdout);
  for (const std::string& text : problems) fmt::print(stderr, "shard8: {}\n", text);
  return false;
}

int verify(const std::vector<std::string>& paths) {
  bool good = true;
  for (const std::string& path : paths)
    for (const std::string& folder : folders_of(path)) good = is_good(folder) && good;
  return base::to_int(good ? ExitCode::ok : ExitCode::checkpoint);
}

int export_weights(const CkptArguments& arguments) {
  const Checkpoint found = checkpoint::open_checkpoint(arguments.paths.front(), warn);
  checkpoint::ExportOptions options;
  options.dtype = arguments.dtype == "bf16" ? tensor::DType::bf16 : tensor::DType::fp32;
  options.replace = arguments.force;
  const deck::ModelConfig saved = train::saved_config(found).model;
  const std::string config = model::huggingface_config(saved, options.dtype);
  const auto exported = checkpoint::export_weights(checkpoint::Masters(found), arguments.to, config, options);
  fmt::print("{}: {} tensors of step {}, {:.1f} MB in {}:", arguments.to, exported.tensors, found.manifest.step,
             1e-6 * static_cast<double>(exported.bytes), arguments.dtype);
  for (const std::string& name : exported.files) fmt::print(" {}", name);
  fmt::print("\n");
  if (const std::string drawn = train::drawn_experts_text(found.folder, saved); !drawn.empty()) warn(drawn);
  return 0;
}

}  // namespace

int ckpt_command(const CkptArguments& arguments) {
  if (arguments.action == "list") return list(arguments.paths.front());
  if (arguments.action == "show") return show(arguments);
  if (arguments.action == "verify") return verify(arguments.paths);
  return export_weights(arguments);
}

namespace {

/// Writes a file and says its name. `option` names the file.
void write(const fs::path& path, const std::string& text, const std::string& option) {
  profile::write_output(path, text, fmt::format("give {}", option));
  fmt::print("{}\n", path.string());
}

trace::TimelineChoice choice_of(const TraceArguments& arguments, const trace::RunTrace& run) {
  if (arguments.rank >= static_cast<int>(run.ranks.size()))
    base::fail(base::ExitCode::deck, "--rank {}: the trace has ranks 0 to {}", arguments.rank, run.ranks.size() - 1);
  return {.layer = arguments.layer, .step = arguments.step};
}

/// The path of one rank's trace in the folder --ranks.
fs::path rank_file(const TraceArguments& arguments, int rank) {
  return fs::path(arguments.ranks) / fmt::format("rank{:04}.json", rank);
}

/// Error(deck) if a file that is written is one of the run's, or if two are one. `merged`: empty for none.
void require_own_files(const TraceArguments& arguments, const trace::RunTrace& run, const fs::path& merged) {
  const fs::path folder = arguments.folder;
  std::vector<profile::NamedFile> written, read;
  if (!merged.empty()) written.push_back({"--output", merged});
  if (!arguments.timeline.empty()) written.push_back({"--timeline", arguments.timeline});
  for (const trace::RankTrace& rank : run.ranks) {
    if (!arguments.ranks.empty()) written.push_back({"--ranks", rank_file(arguments, rank.rank)});
    read.push_back({"the run's trace", folder / base::rank_file_name(run.name, rank.rank)});
  }
  for (const deck::WrittenFile& file : deck::written_files(deck::OutputConfig()))
    read.push_back({"a file of the run", folder / file.name});
  profile::require_distinct("shard8 trace", written, read);
}

}  // namespace

int trace_command(const TraceArguments& arguments) {
  const trace::RunTrace run = trace::read_run(arguments.folder, arguments.name);
  const bool merge =
      !arguments.output.empty() || (arguments.ranks.empty() && arguments.chakra.empty() && arguments.timeline.empty());
  const fs::path merged = arguments.output.empty() ? fs::path(arguments.folder) / run.name : fs::path(arguments.output);
  require_own_files(arguments, run, merge ? merged : fs::path());
  if (merge) write(merged, trace::kineto_of_all(run.ranks), "--output a file in");
  if (!arguments.ranks.empty())
    for (const trace::RankTrace& rank : run.ranks)
      write(rank_file(arguments, rank.rank), trace::kineto_of(rank), "--ranks");
  if (!arguments.chakra.empty()) {
    const fs::path folder = arguments.chakra;
    for (const trace::RankTrace& rank : run.ranks)
      write(folder / fmt::format("chakra.{}.et", rank.rank), trace::chakra_of(rank), "--chakra");
    write(folder / "groups.json", trace::chakra_groups(run.ranks.front()), "--chakra");
  }
  if (!arguments.timeline.empty()) {
    const trace::TimelineChoice choice = choice_of(arguments, run);
    write(arguments.timeline, trace::timeline(run.ranks[static_cast<std::size_t>(arguments.rank)], choice),
          "--timeline a file in");
  }
  fmt::print("\n{}", trace::overlap_text(run.ranks));
  return base::to_int(base::ExitCode::ok);
}

int compare_command(const CompareArguments& arguments) {
  profile::CompareLimits limits{.percent = arguments.percent};
  if (arguments.loss >= 0) limits.loss = arguments.loss;
  std::vector<profile::RecordedRun> runs;
  for (const std::string& path : arguments.paths) runs.push_back(profile::read_run(path));
  std::vector<profile::Comparison> comparisons;
  bool exceeded = false;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    comparisons.push_back(profile::compare_runs(runs[0], runs[i], limits));
    exceeded = exceeded || !comparisons.back().exceeded.empty();
    if (!arguments.json) fmt::print("{}{}", i > 1 ? "\n" : "", profile::to_text(comparisons.back(), limits));
  }
  if (arguments.json) fmt::print("{}\n", profile::to_json(comparisons, limits));
  return base::to_int(exceeded ? base::ExitCode::verification : base::ExitCode::ok);
}

int envelope_command(const CompareArguments& arguments) {
  const profile::Envelope envelope =
      arguments.envelope.empty() ? profile::shipped_envelope() : profile::read_envelope(arguments.envelope);
  std::vector<profile::RecordedRun> runs;
  for (const std::string& path : arguments.paths) runs.push_back(profile::read_run(path));
  std::vector<profile::EnvelopeVerdict> verdicts;
  bool outside = false;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    verdicts.push_back(profile::judge_by_envelope(runs[0], runs[i], envelope, train::may_change_at_restart));
    outside = outside || verdicts.back().outside;
    if (!arguments.json) fmt::print("{}{}", i > 1 ? "\n" : "", profile::to_text(verdicts.back()));
  }
  if (arguments.json) fmt::print("{}\n", profile::to_json(verdicts));
  return base::to_int(outside ? base::ExitCode::verification : base::ExitCode::ok);
}

namespace {

void line(std::string_view name, std::string_view value) { fmt::print("{:<12} {}\n", name, value); }

}  // namespace

int info_command() {
  const base::Version v = base::version();
  line("shard8", fmt::format("{} ({})", v.number, v.git_hash));
  line("build", build_text());
  line("backends", describe_backends());
  for (const std::string& text : describe_devices()) line("devices", text);
  line("Kokkos", tensor::kokkos_description());
  line("MPI", comm::library_version());
  line("HDF5", io::hdf5_version());
  line("BLAS", kernels::blas_description());
  line("fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100));
  for (const auto& [name, value] : relevant_environment()) line("environment", fmt::format("{}={}", name, value));
  return 0;
}

std::uint64_t bytes_of(const std::string& text, std::string_view option) {
  const auto size = deck::parse_size(text);
  if (size.value) return *size.value;
  if (deck::parse_real(text).value)
    base::fail(base::ExitCode::deck, "{}: '{}' has no unit; write {}GiB, or another of {}", option, text, text,
               deck::size_units("and"));
  base::fail(base::ExitCode::deck, "{}: '{}' is not a size; expected a positive number and {}, as in 80GiB", option,
             text, deck::size_units("or"));
}

void require_standard_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  base::fail(base::ExitCode::environment,
             "standard output could not be written: it is incomplete; send it to where there is room");
}

}  // namespace shard8::app
