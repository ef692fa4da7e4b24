// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoints.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/lock.hpp"
#include "comm/agree.hpp"
#include "comm/node.hpp"
#include "train/state.hpp"
#include "train/training_file.hpp"

namespace shard8::train {

using checkpoint::Manifest;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// The ranks of this rank's node, ordered as in the world.
comm::Communicator make_node_group(const comm::Communicator& world) {
  std::string mine;
  comm::agree(world, [&] { mine = comm::node_identity(); });
  const auto all = world.all_gather(mine);
  int color = 0;
  while (all[static_cast<std::size_t>(color)] != mine) ++color;
  return world.split(color, world.rank(), "node");
}

/// Waits until this rank sees the lock that rank 0 took. Error(environment) when it does not.
void require_shared(const std::string& folder, const std::string& run) {
  constexpr double kLongest = 10;  // chosen: above the seconds for which file systems of clusters may keep old entries
  const auto begin = Clock::now();
  for (;;) {
    const auto holder = checkpoint::lock_holder(folder);
    if (holder && holder->run == run) return;
    if (seconds_since(begin) > kLongest)
      base::fail(base::ExitCode::environment,
                 "checkpoint.dir is not shared: rank 0 holds the lock of '{}', and this rank does not see it; set "
                 "checkpoint.dir to a folder that all nodes see",
                 folder);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

std::string new_run_id(const comm::Communicator& world) {
  std::string id;
  comm::agree_on_root(world, 0, [&] { id = draw_id(); });
  world.broadcast(id, 0);
  return id;
}

CheckpointFolder::CheckpointFolder(const comm::Communicator& world, const std::string& path, const Say& say,
                                   bool is_locked)
    : directory_(path) {
  const auto restore = [&] {  // nothing is removed before it is known whose the folder is
    for (const std::string& change : directory_.recover(false).renamed)
      say(fmt::format("renamed in {}: {}", path, change));
  };
  if (is_locked) {
    comm::agree_on_root(world, 0, restore);
    return;
  }
  const std::string holder = new_run_id(world);
  comm::agree_on_root(world, 0, [&] {
    made_.emplace(path);
    checkpoint::LockOptions options;
    options.say = say;
    held_ = make_and_hold(path, holder, options, [&] { directory_.make(); });
    restore();
  });
  comm::agree(world, [&] { require_shared(path, holder); });
}

void CheckpointFolder::recover(const comm::Communicator& world, const Say& say) const {
  comm::agree_on_root(world, 0, [&] {
    const std::string& path = directory_.path();
    const auto done = directory_.recover();
    for (const std::string& name : done.removed)
      say(fmt::format("removed {}/{}, which a run that was killed had left", path, name));
    for (const std::string& change : done.renamed) say(fmt::format("renamed in {}: {}", path, change));
    for (const std::string& trouble : done.trouble) say(trouble);
  });
}

CheckpointFolder::~CheckpointFolder() = default;

std::string CheckpointFolder::lost() const { return held_ ? held_->lost() : std::string(); }

Checkpoints::Checkpoints(Assembly& assembly, const CheckpointFolder& folder, const RunDescription& run,
                         const Manifest* from, Say say)
    : assembly_(assembly),
      folder_(folder),
      say_(std::move(say)),
      every_(assembly.setup().config.checkpoint.every),
      async_(assembly.setup().config.checkpoint.async),
      tensors_(state_tensors(assembly.setup(), assembly.trainer().state())) {
  const deck::Config& config = assembly.setup().config;
  const comm::Communicator& world = assembly.mesh().world;
  comm::agree(world, [&] { snapshot_ = std::make_unique<checkpoint::Snapshot>(tensors_, assembly.setup().place); });
  if (config.checkpoint.files == deck::CheckpointFiles::node) node_.emplace(make_node_group(world));
  writer_ = std::make_unique<checkpoint::Writer>(world, node_ ? &*node_ : nullptr, tensors_, *snapshot_, assembly.io(),
                                                 folder.directory(), common(run), config.checkpoint.keep,
                                                 [&folder] { return folder.lost(); });
  // A thread that writes on hosts takes its time from those that train; on a device these only wait.
  if (async_ && !assembly.setup().dims.device) writer_->use_direct_io();
  assembly.trainer().before_change([this](int group) {
    if (!snapshot_->holds(group)) return;
    const auto phase = assembly_.timer().phase(profile::Phase::checkpoint_stall);
    snapshot_->before_change(assembly_.exec(), group);
  });
  if (from != nullptr) finish_retention(*from);
}

void Checkpoints::finish_retention(const Manifest& from) {
  comm::agree_on_root(assembly_.mesh().world, 0, [&] {
    const checkpoint::Directory& directory = folder_.directory();
    const std::int64_t keep = assembly_.setup().config.checkpoint.keep;
    const auto latest = directory.latest();
    const bool is_behind = latest && *latest < from.step;
    // A scan examines every file of every checkpoint: not where there is nothing to do.
    if (!is_behind && static_cast<std::int64_t>(directory.steps().size()) <= keep) return;
    const auto scan = directory.scan();
    if (scan.usable.empty() || scan.usable.front().step != from.step || from.run != writer_->training()) return;
    if (is_behind) directory.set_latest(from.step);
    for (const std::string& trouble : directory.retain(keep, writer_->training()).trouble) say_(trouble);
  });
}

Checkpoints::~Checkpoints() { assembly_.trainer().before_change({}); }

Manifest Checkpoints::common(const RunDescription& run) const {
  const deck::Config& config = assembly_.setup().config;
  Manifest m;
  m.program = run.program;
  m.git_hash = run.git_hash;
  m.run = run.identity.id;
  m.parent = run.identity.parent;
  m.data = run.inputs.data;
  m.validation = run.inputs.validation;
  m.weights = run.inputs.weights;
  m.mesh = assembly_.setup().mesh;
  m.data_seed = config.data.seed;
  m.init_seed = config.model.init_seed;
  m.deck = run.deck;
  const kernels::Libraries* libraries = assembly_.trainer().libraries();
  m.plan = plan_text({libraries != nullptr ? libraries->algorithms() : std::string(), run.overlap});
  return m;
}

void Checkpoints::note(const checkpoint::Outcome& outcome) {
  for (const std::string& warning : outcome.warnings) say_(warning);
  if (outcome.written) {
    const checkpoint::Written& w = *outcome.written;
    ++counts_.written;
    counts_.bytes += w.bytes;
    counts_.durable_s += w.seconds;
    counts_.longest_s = std::max(counts_.longest_s, w.seconds);
    counts_.own_bytes += w.own_bytes;
    counts_.own_s += w.own_seconds;
    last_step_ = w.step;
  }
  if (!outcome.failed.empty()) failed(outcome.failed);
}

/// Counts a failed checkpoint and says why. Called with the same text on every rank.
void Checkpoints::failed(const std::string& why) {
  ++counts_.failed;
  failure_ = why;
  if (assembly_.mesh().world.rank() == 0) say_(fmt::format("no checkpoint was written: {}; training goes on", why));
}

void Checkpoints::begin(std::int64_t done, double loss) {
  try {
    comm::agree(assembly_.mesh().world, [&] {
      if (const std::string why = folder_.lost(); !why.empty()) base::fail(base::ExitCode::checkpoint, "{}", why);
    });
    writer_->begin(assembly_.exec(), {done, assembly_.loader().sequences_before(done), loss});
  } catch (const comm::AgreedError& e) {
    failed(e.what());
  }
}

/// The loop waits for `action`. The time belongs to the step that follows, if there is one.
void Checkpoints::stall(const std::function<void()>& action) {
  profile::StepTimer& timer = assembly_.timer();
  timer.begin_early();
  const auto phase = timer.phase(profile::Phase::checkpoint_stall, "checkpoint");
  const auto began = Clock::now();
  action();
  counts_.after_last_s += seconds_since(began);
}

void Checkpoints::between_steps(std::int64_t done, double loss) {
  counts_.after_last_s = 0;  // what came before is in the step that has ended
  const bool due = every_ > 0 && done % every_ == 0;
  if (!due && !writer_->under_way()) return;
  stall([&] {
    if (!due) return note(writer_->advance());
    if (writer_->under_way()) note(writer_->advance());
    if (writer_->under_way()) {  // one at a time
      ++counts_.waited;
      note(writer_->finish());
    }
    begin(done, loss);
    if (!async_) note(writer_->finish());
  });
}

bool Checkpoints::write_now(std::int64_t done, double loss) {
  stall([&] {
    note(writer_->finish());
    if (last_step_ == done) return;
    begin(done, loss);
    note(writer_->finish());
  });
  return last_step_ == done;
}

void Checkpoints::finish() {
  if (writer_->under_way()) stall([&] { note(writer_->finish()); });
}

HeldFolder::HeldFolder(const std::string& folder, const std::string& holder, const checkpoint::LockOptions& options)
    : lock_(folder, holder, options),
      counts_(
          std::chrono::milliseconds(std::lround(1e3 * options.limit_s / 6)), [this] { return count(); },
          [](const std::string&) {}) {}  // whoever calls lost() finds out, too

std::string HeldFolder::lost() {
  const std::lock_guard guard(mutex_);
  try {
    lock_.require_held();
  } catch (const base::Error& e) {
    return e.what();
  }
  return {};
}

/// Why the lock is lost, if it is. A heartbeat that could not be written is tried again.
std::optional<std::string> HeldFolder::count() {
  const std::lock_guard guard(mutex_);
  try {
    lock_.beat();
  } catch (const base::Error& e) {
    if (e.code() == base::ExitCode::checkpoint) return e.what();
  }
  return std::nullopt;
}

std::unique_ptr<HeldFolder> make_and_hold(const std::string& folder, const std::string& holder,
                                          const checkpoint::LockOptions& options, const std::function<void()>& make) {
  constexpr int kAttempts = 100;  // chosen; each one more means that the folder was removed just now
  for (int attempt = 1;; ++attempt) {
    make();
    try {
      return std::make_unique<HeldFolder>(folder, holder, options);
    } catch (const base::Error&) {
      std::error_code ignored;
      if (std::filesystem::exists(folder, ignored) || attempt == kAttempts) throw;
    }
  }
}

}  // namespace shard8::train
