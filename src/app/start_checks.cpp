// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/start_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "app/device.hpp"
#include "app/job.hpp"
#include "app/node_memory.hpp"
#include "app/process.hpp"
#include "app/refusals.hpp"
#include "app/run_trace.hpp"
#include "base/log.hpp"
#include "base/made_folders.hpp"
#include "checkpoint/directory.hpp"
#include "checkpoint/lock.hpp"
#include "data/batch.hpp"
#include "deck/overlap.hpp"
#include "io/durable_file.hpp"
#include "operation/device.hpp"
#include "profile/output_file.hpp"
#include "tensor/exec.hpp"
#include "train/assembly.hpp"
#include "train/checkpoints.hpp"
#include "train/initial_weights.hpp"
#include "train/inputs.hpp"
#include "train/verify.hpp"

namespace shard8::app {

namespace fs = std::filesystem;

using base::ExitCode;

namespace {

void say(const std::string& text) { base::print_coloured(fmt::format("shard8: warning: {}\n", text), stderr); }

void refuse_lock(const std::string& folder, const std::string& key) {
  if (const std::string why = checkpoint::why_locked(folder, key); !why.empty())
    throw base::Error(ExitCode::checkpoint, why);
}

/// The data as rank 0 opens them, and the weights.
train::Inputs look_at_inputs(const deck::Config& config, const train::Setup& setup, std::string& found) {
  io::IoThread io;
  train::Inputs inputs;
  at_stage(Stage::data, [&] {
    const data::Loader loader(setup.data(), config.model.seq, config.model.vocab, config.mesh.data_ranks(), 0, io);
    train::check_steps(loader.dataset(), config);
    found += fmt::format("found      {}\n", loader.dataset().description());
    inputs.data = train::input_of(loader.dataset(), config.data.path, say);
    if (config.verify.unigram_ratio_max > 0) data::unigram_entropy(loader.dataset());
  });
  if (config.model.init_file.empty()) return inputs;
  at_stage(Stage::initial_weights, [&] {
    const auto file = train::open_initial_weights(io, config.model, say);
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

void require_output(const deck::Config& config) {
  const deck::OutputConfig& output = config.output;
  const auto path = [&](const std::string& name) { return fs::path(output.dir) / name; };
  for (const std::string& name :
       {output.metrics, output.timing, output.summary, output.timing_ranks, std::string(deck::OutputConfig::kRanks)})
    if (!name.empty()) profile::require_writable(path(name));
  profile::require_writable(io::temporary_of(path(train::TrainingFile::kName).string()));
  if (!deck::exchanges_with(config, profile::ExchangeMethod::automatic).empty())
    profile::require_writable(io::temporary_of(path(deck::OutputConfig::kOverlap).string()));
  if (tensor::kDevice) profile::require_writable(io::temporary_of(path(deck::OutputConfig::kAlgorithms).string()));
}

void require_checkpoint_dir(const deck::Config& config) {
  const std::string& folder = config.checkpoint.dir;
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
    if (!operation::on_device(config.mesh) && asked > 0) require_pools(asked, asked);
    require_planned(config.mesh);
    if (operation::on_device(config.mesh) && !tensor::kDevice)
      say("mesh.device = cuda: this program was built for hosts and plans the steps of devices; `run` needs a build "
          "for "
          "CUDA devices");
  });
  if (const std::string warning = memory_warning(config, threads); !warning.empty()) say(warning);
  at_stage(Stage::output, [&] {
    require_output(config);
    if (!config.output.trace.empty()) profile::require_writable(trace_file(config.output, 0));
  });
  at_stage(Stage::output_lock, [&] { refuse_lock(config.output.dir, "output.dir"); });
  at_stage(Stage::gold, [&] {
    if (!config.verify.gold.empty()) train::read_gold(config.verify.gold);
  });
  const train::Setup setup = train::Setup::make(config, 0, threads);
  std::string found;
  train::RunDescription run = describe_run(deck);
  run.inputs = look_at_inputs(config, setup, found);
  const std::string folder = train::checkpoint_folder(config);
  at_stage(Stage::checkpoint_dir, [&] { require_checkpoint_dir(config); });
  at_stage(Stage::checkpoint_lock, [&] {
    if (!folder.empty()) refuse_lock(folder, "checkpoint.dir");
  });
  train::Start start;
  at_stage(Stage::start, [&] { start = train::find_start_of(config, folder, run, say); });
  at_stage(Stage::restore, [&] { train::require_points(start, setup, run, say); });
  return found + fmt::format("start      {}\n", text_of(start));
}

}  // namespace shard8::app
