// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/plain_file.hpp"
#include "checkpoint/directory.hpp"
#include "checkpoint/lock.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/writer.hpp"
#include "comm/host_waits.hpp"
#include "profile/figures.hpp"
#include "train/assembly.hpp"
#include "train/start.hpp"

namespace shard8::train {

/// The lock of a folder, held while the object lives. A thread of its own counts the heartbeat, so that other machines
/// see that this process lives. One rank has the object.
class HeldFolder {
 public:
  /// `holder` names this process in the lock: an id that differs from run to run. Errors are those of checkpoint::Lock.
  HeldFolder(const std::string& folder, const std::string& holder, const checkpoint::LockOptions& options);

  /// Why the lock is lost; empty while it is held. Any thread may call it.
  std::string lost();

 private:
  std::optional<std::string> count();

  checkpoint::Lock lock_;
  std::mutex mutex_;       // of lock_
  comm::Watchdog counts_;  // last: it uses the others
};

/// Calls `make`, which makes the folder, and holds it. Another run that looks at folders may remove an empty one
/// between the two: then it is made again.
std::unique_ptr<HeldFolder> make_and_hold(const std::string& folder, const std::string& holder,
                                          const checkpoint::LockOptions& options, const std::function<void()>& make);

/// What a manifest says of the program and the deck, which app knows.
struct RunDescription {
  std::string program, git_hash;
  std::vector<checkpoint::ManifestKey> deck;
  std::string overlap{};  ///< the chosen overlap methods, as in SavedChoices
  Inputs inputs{};        ///< by content; only rank 0 needs them to find a start
  Identity identity{};    ///< only Checkpoints needs it, for its manifests
  bool requeued = false;  ///< as in StartQuestion
  std::string slurm_job{};
};

/// draw_id() of rank 0, on every rank. Collective.
std::string new_run_id(const comm::Communicator& world);

/// Tells the user something; called on rank 0.
using Say = std::function<void(const std::string&)>;

/// The folder checkpoint.dir, to which this run alone writes while the object lives. Rank 0 holds the folder's lock and
/// counts its heartbeat from a thread of its own. The constructor and the destructor are collective.
class CheckpointFolder {
 public:
  /// Makes the folder if it is missing and takes its lock, unless `is_locked`: then this run holds it already, as
  /// output.dir's. AgreedError: (checkpoint) when another run that lives holds the lock, (environment) when the folder
  /// cannot be written.
  CheckpointFolder(const comm::Communicator& world, const std::string& path, const Say& say, bool is_locked = false);
  /// Puts the folder in order after a run that was killed. Collective.
  void recover(const comm::Communicator& world, const Say& say) const;
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  const checkpoint::Directory& directory() const { return directory_; }
  /// Why the lock is lost; empty while it is held, and on ranks that do not hold it.
  std::string lost() const;

 private:
  checkpoint::Directory directory_;
  std::optional<base::MadeFolders> made_;  ///< on rank 0: a folder that stays empty is not left behind
  std::unique_ptr<HeldFolder> held_;       ///< on rank 0
};

/// A checkpoint from which a run can go on.
struct RestartPoint {
  std::string folder;  ///< of the checkpoint
  checkpoint::Manifest manifest;
  /// Set by restore(). The checkpoint's optimizer.decay_steps, which replaces the default of this run's deck.
  std::optional<std::int64_t> decay_steps{};
  std::vector<std::string> remarks{};  ///< set by restore(): lines for the header, which say how the decks differ
};

/// Where a run starts, and the checkpoint from which it goes on.
struct RestartPoints {
  Start start;
  std::optional<RestartPoint> first;  ///< the point of start.points.front(); none: a new run
};

/// Where this run looks for checkpoints and writes them: checkpoint.dir. If the deck names none and restart is `auto`,
/// the folder that an earlier run of this deck used by default, if there is one; else empty.
std::string checkpoint_folder(const deck::Config& config);
/// checkpoint_folder() as rank 0 finds it, on all ranks. Collective.
std::string checkpoint_folder(const deck::Config& config, const comm::Communicator& world);

/// find_start(), and refuse_others() unless `shares_folders`. One process calls the function.
Start find_start_of(const deck::Config& config, const std::string& folder, const RunDescription& run, const Say& say,
                    bool shares_folders = false);

/// Error(checkpoint) unless a checkpoint from which the run may go on holds what rank 0 needs of every tensor: all
/// boxes with their dtypes and shapes. Values are not read. Says which checkpoints are passed over. One process calls
/// the function.
void require_points(const Start& start, const Setup& setup, const RunDescription& run, const Say& say);

/// find_start_of() by rank 0, on every rank. `say` is called on rank 0. Collective. Errors are AgreedErrors.
RestartPoints find_restart(const deck::Config& config, const std::string& folder, const comm::Communicator& world,
                           const RunDescription& run, const Say& say, bool shares_folders = false);

/// Fills the training state from the first of the points that can be read, after Assembly::start(). Returns that point;
/// none if there are no points. The data's cursor is that of the point. Tensors whose dtype differs are converted
/// (Reader::require). If the deck's keys of FP8 differ, weights in FP8 are cast from the masters, and scales and
/// histories are those of a start. If decay_steps is set in the point, the assembly has it. Collective.
/// AgreedError(checkpoint) when no point can be read, or when the deck of the one that is tried differs in keys that
/// may not change.
std::optional<RestartPoint> restore(const RestartPoints& restart, Assembly& assembly, const RunDescription& run,
                                    const Say& say);

/// Writes the checkpoints of a run. Every function is collective.
class Checkpoints {
 public:
  /// `from` is the manifest of the checkpoint from which the run goes on, or null for a new one. If it is the newest
  /// one of `folder`, `latest` names it and surplus checkpoints are removed: a run may have been killed after it wrote
  /// a checkpoint and before it did both. The assembly has started. All that is passed by reference, but `from`, must
  /// outlive the object. AgreedError(environment) when the memory for copies of the state cannot be had.
  Checkpoints(Assembly& assembly, const CheckpointFolder& folder, const RunDescription& run,
              const checkpoint::Manifest* from, Say say);
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// Between steps, after every one, when `done` steps have been trained: looks after the checkpoint that is being
  /// written, and begins one if one is due. `loss` is that of the last step. The time that this takes belongs to the
  /// step that follows, as profile::Phase::checkpoint_stall.
  void between_steps(std::int64_t done, double loss);
  /// Writes a checkpoint of the state behind `done` steps and waits for it, unless there is one. True if there is one
  /// now.
  bool write_now(std::int64_t done, double loss);
  /// Waits for the checkpoint that is being written.
  void finish();

  /// The step of the last checkpoint that this object has written, if any.
  std::optional<std::int64_t> last() const { return last_step_ < 0 ? std::nullopt : std::optional(last_step_); }
  /// The checkpoints as this rank counts them.
  const profile::CheckpointCounts& counts() const { return counts_; }
  /// Why the last checkpoint that failed was not written; empty if none failed.
  const std::string& failure() const { return failure_; }

 private:
  void stall(const std::function<void()>& action);
  void begin(std::int64_t done, double loss);
  void note(const checkpoint::Outcome& outcome);
  void failed(const std::string& why);
  void finish_retention(const checkpoint::Manifest& from);
  checkpoint::Manifest common(const RunDescription& run) const;

  Assembly& assembly_;
  const CheckpointFolder& folder_;
  Say say_;
  std::int64_t every_;
  bool async_;
  std::vector<checkpoint::StateTensor> tensors_;
  std::unique_ptr<checkpoint::Snapshot> snapshot_;
  std::optional<comm::Communicator> node_;
  std::unique_ptr<checkpoint::Writer> writer_;
  profile::CheckpointCounts counts_;
  std::string failure_;
  std::int64_t last_step_ = -1;  ///< of the last checkpoint that was written
};

}  // namespace shard8::train
