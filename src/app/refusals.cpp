// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/refusals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>

#include "app/commands.hpp"
#include "app/device.hpp"
#include "app/job.hpp"
#include "app/process.hpp"
#include "app/run_measures.hpp"
#include "app/run_report.hpp"
#include "base/plain_file.hpp"
#include "base/utc.hpp"
#include "checkpoint/directory.hpp"
#include "checkpoint/lock.hpp"
#include "comm/agree.hpp"
#include "data/batch.hpp"
#include "deck/choices.hpp"
#include "deck/device.hpp"
#include "deck/layout.hpp"
#include "io/file.hpp"
#include "profile/output_file.hpp"
#include "project/skeleton_waits.hpp"
#include "train/assembly.hpp"
#include "train/checkpoints.hpp"
#include "train/inputs.hpp"
#include "train/verify.hpp"

namespace shard8::app {

namespace fs = std::filesystem;

using base::ExitCode;

namespace {

constexpr std::array kRefusals = {
    Refusal{Stage::deck, ExitCode::deck, true,
            "a deck that cannot be read, or with keys, values or files that are wrong"},
    Refusal{Stage::ranks, ExitCode::environment, false,
            "another number of ranks than the mesh has, or ranks that do not know of each other, or too little shared "
            "memory for MPI"},
    Refusal{Stage::device, ExitCode::environment, true,
            "a device or a library that this program was not built for or that is not there, or threads that are not"},
    // Only a run knows the machine: check warns.
    Refusal{Stage::memory, ExitCode::environment, false, "a node whose memory cannot hold the training of its ranks"},
    Refusal{Stage::job, ExitCode::environment, true, "variables of Slurm that are no numbers"},
    Refusal{Stage::output, ExitCode::environment, true, "files in output.dir that cannot be written"},
    Refusal{Stage::output_lock, ExitCode::checkpoint, true, "another run writes to output.dir"},
    Refusal{Stage::output_lock, ExitCode::environment, true, "a lock in output.dir that cannot be written"},
    Refusal{Stage::gold, ExitCode::deck, true, "a gold file that cannot be read, or has not the run's steps"},
    Refusal{Stage::data, ExitCode::deck, true, "data that cannot be used"},
    Refusal{Stage::initial_weights, ExitCode::deck, true,
            "initial weights that cannot be used, or belong to another model"},
    Refusal{Stage::initial_weights, ExitCode::checkpoint, true, "a checkpoint of initial weights that cannot be used"},
    Refusal{Stage::checkpoint_dir, ExitCode::environment, true, "a checkpoint.dir that cannot be written"},
    Refusal{Stage::checkpoint_lock, ExitCode::checkpoint, true, "another run writes to checkpoint.dir"},
    // Only a run can find that ranks do not share the folder.
    Refusal{Stage::checkpoint_lock, ExitCode::environment, true,
            "a lock in checkpoint.dir that cannot be written, or a folder that ranks do not share"},
    Refusal{Stage::start, ExitCode::checkpoint, true,
            "no checkpoint that can be used, or one of another model, deck or input"},
    Refusal{Stage::start, ExitCode::deck, true, "folders that hold the files of another training"},
    Refusal{Stage::start, ExitCode::environment, true, "files of earlier legs that cannot be read"},
    Refusal{Stage::overlap, ExitCode::environment, false, "too little memory to time exchanges"},
    Refusal{Stage::set_up, ExitCode::environment, false, "too little memory, or a device that cannot compute this"},
    Refusal{Stage::set_up, ExitCode::deck, false, "initial weights whose values cannot be read"},
    Refusal{Stage::set_up, ExitCode::checkpoint, false, "initial weights of a checkpoint whose values cannot be read"},
    Refusal{Stage::restore, ExitCode::checkpoint, true, "a checkpoint without the tensors of this deck"},
    Refusal{Stage::restore, ExitCode::environment, false, "too little memory for copies of the state"},
    Refusal{Stage::first_files, ExitCode::environment, false, "files that can no longer be written, or a full disk"},
    Refusal{Stage::signal, ExitCode::failed, false, "a signal before the first step"},
};

bool is_registered(Stage stage, ExitCode code) {
  return std::any_of(kRefusals.begin(), kRefusals.end(),
                     [&](const Refusal& r) { return r.stage == stage && r.code == code; });
}

/// The code of what cannot be read in a stage that is about one input; nothing for other stages.
std::optional<ExitCode> code_of_input(Stage stage) {
  switch (stage) {
    case Stage::gold:
    case Stage::data:
    case Stage::initial_weights:
      return ExitCode::deck;
    default:
      return std::nullopt;
  }
}

struct Judged {
  ExitCode code;
  std::string text;
};

Judged judge(Stage stage, const base::Error& error) {
  if (is_registered(stage, error.code())) return {error.code(), error.what()};
  if (error.code() == ExitCode::failed)
    if (const auto code = code_of_input(stage)) return {*code, error.what()};
  return {error.code(), fmt::format("{}\n({}: {} with code {})", error.what(), kNotRegistered, name_of(stage),
                                    base::to_int(error.code()))};
}

/// As RunOutput::check_trace() for every rank. The first file shows what the folder allows; of the others those that
/// are there can be in the way.
void require_traces(const deck::Config& config) {
  if (config.output.trace.empty()) return;
  for (int rank = 0; rank < config.mesh.ranks(); ++rank) {
    const fs::path trace = trace_file(config.output, rank);
    std::error_code ignored;
    const auto is_free = [&](const fs::path& path) {
      return fs::symlink_status(path, ignored).type() == fs::file_type::not_found;
    };
    if (rank == 0 || !is_free(trace) || !is_free(io::temporary_of(trace.string()))) profile::require_writable(trace);
  }
}

/// The data as rank 0 opens them, and the weights.
train::Inputs look_at_inputs(const deck::Config& config, const train::Setup& setup, std::string& found) {
  io::IoThread io;
  train::Inputs inputs;
  at_stage(Stage::data, [&] {
    const auto loader = train::open_part(setup, 0, io, data::Part::training);
    found += fmt::format("found      {}\n", loader->dataset().description());
    inputs.data = train::input_of(loader->dataset(), config.data.path, warn);
    if (config.verify.unigram_ratio_max > 0) data::unigram_entropy(loader->dataset());
    if (!setup.validates()) return;
    const auto validation = train::open_part(setup, 0, io, data::Part::validation);
    found += fmt::format("validation {}\n", validation->dataset().description());
    inputs.validation = train::validation_of(*validation, config, inputs.data, warn);
  });
  if (config.model.init_file.empty()) return inputs;
  at_stage(Stage::initial_weights, [&] {
    const auto file = train::open_initial_weights(io, config.model, warn);
    found += fmt::format("init       weights of {}\n", file->spec());
    inputs.weights = train::input_of(*file);
  });
  return inputs;
}

/// Where a run would start, in words.
std::string text_of(const train::Start& start) {
  if (start.begins_again)
    return "again from its begin, since it has no checkpoint yet: " + train::text_of(start.identity);
  if (start.points.empty()) return "a new training";
  if (start.is_child)
    return fmt::format("a child of training {}, from {}", start.identity.parent->run, start.points.front());
  return fmt::format("{} goes on from {}", train::text_of(start.identity), start.points.front());
}

}  // namespace

std::string_view name_of(Stage stage) {
  constexpr std::string_view kNames[] = {"deck",           "ranks",           "device", "memory",  "job",
                                         "output",         "output lock",     "gold",   "data",    "initial weights",
                                         "checkpoint.dir", "checkpoint lock", "start",  "overlap", "set-up",
                                         "restore",        "first files",     "signal"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Stage::signal) + 1);
  return kNames[static_cast<std::size_t>(stage)];
}

std::span<const Refusal> refusals() { return kRefusals; }

void at_stage(Stage stage, const std::function<void()>& action) {
  try {
    action();
  } catch (const comm::AgreedError& error) {
    const Judged judged = judge(stage, error);
    throw comm::AgreedError(judged.code, judged.text, error.ranks());
  } catch (const base::Error& error) {
    const Judged judged = judge(stage, error);
    throw base::Error(judged.code, judged.text);
  }
}

void require_output(const deck::Config& config) {
  const deck::OutputConfig& output = config.output;
  const auto path = [&](const std::string& name) { return fs::path(output.dir) / name; };
  for (const deck::WrittenFile& file : deck::written_files(config)) {
    if (file.is_trace()) continue;
    // What is replaced durably is written to a temporary file in the same folder.
    profile::require_writable(file.has_key() || file.name == deck::OutputConfig::kRanks
                                  ? path(file.name)
                                  : fs::path(io::temporary_of(path(file.name).string())));
  }
}

void require_checkpoint_dir(const std::string& folder) {
  if (folder.empty()) return;
  const base::MadeFolders made(folder);
  checkpoint::Directory(folder).make();
  profile::require_writable(fs::path(folder) / "latest.tmp", "set checkpoint.dir to");
}

std::string check_start(const deck::LoadResult& deck) {
  const deck::Config& config = deck.config;
  int threads = 1;
  at_stage(Stage::device, [&] {
    const int asked = threads_from_environment();
    threads = std::max(1, asked);
    // Without OMP_NUM_THREADS the number depends on the ranks of a node.
    if (!deck::on_device(config.mesh) && asked > 0) require_pools(asked, asked);
    require_planned(config);
    if (only_plans(config.mesh) && !deck::carried_by_hosts(config.run))
      warn(
          "mesh.device = cuda: this program was built for hosts and plans the steps of devices; `run` needs a build "
          "for CUDA devices");
  });
  if (const std::string warning = memory_warning(config, threads); !warning.empty()) warn(warning);
  at_stage(Stage::job, [] { slurm_job(base::unix_now()); });
  at_stage(Stage::output, [&] {
    require_output(config);
    if (config.run.skeleton != deck::Skeleton::none) require_no_training(config);
    require_traces(config);
  });
  at_stage(Stage::output_lock, [&] { checkpoint::require_lockable(config.output.dir, "output.dir"); });
  const train::Setup setup = train::Setup::make(config, 0, threads);
  if (config.run.skeleton != deck::Skeleton::none) {
    std::string said;
    at_stage(Stage::data, [&] { project::require_skeleton_times(setup, said); });
    return fmt::format("start      a skeleton of the {}: {}\n", deck::to_string(config.run.skeleton), said);
  }
  at_stage(Stage::gold, [&] { train::gold_of(config); });
  std::string found;
  train::RunDescription run = describe_run(deck);
  run.inputs = look_at_inputs(config, setup, found);
  const std::string folder = train::checkpoint_folder(config);
  at_stage(Stage::checkpoint_dir, [&] { require_checkpoint_dir(folder); });
  at_stage(Stage::checkpoint_lock, [&] {
    if (!folder.empty()) checkpoint::require_lockable(folder, "checkpoint.dir");
  });
  train::Start start;
  at_stage(Stage::start, [&] { start = train::find_start_of(config, folder, run, warn); });
  at_stage(Stage::restore, [&] { train::require_points(start, setup, run, warn); });
  return found + fmt::format("start      {}\n", text_of(start));
}

}  // namespace shard8::app
