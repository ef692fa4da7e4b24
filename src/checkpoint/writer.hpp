// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/directory.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/snapshot.hpp"
#include "comm/communicator.hpp"
#include "io/io_thread.hpp"
#include "io/shard_box.hpp"

namespace shard8::checkpoint {

/// A checkpoint that was written.
struct Written {
  std::int64_t step = 0;        ///< steps done
  double seconds = 0;           ///< from the begin until the checkpoint was durable
  std::uint64_t bytes = 0;      ///< of all files
  double own_seconds = 0;       ///< from the begin until this rank's bytes were durable
  std::uint64_t own_bytes = 0;  ///< of the tensors that this rank writes
};

/// What became of a checkpoint; both empty while it is under way or when there is none.
struct Outcome {
  std::optional<Written> written;
  std::string failed;                 ///< why no checkpoint was written; training may go on
  std::vector<std::string> warnings;  ///< on rank 0
};

/// The moment of a training that a checkpoint keeps.
struct Moment {
  std::int64_t step = 0;       ///< steps done
  std::int64_t sequences = 0;  ///< sequences trained
  double loss = 0;             ///< of the last step
};

/// Writes checkpoints, one at a time, while training goes on. A thread of each rank writes; it calls no MPI. The main
/// threads agree on what these threads have done whenever all ranks call advance(): then the next stage begins.
///
/// Stages: with a file for each node the node's first rank lays the file out; every rank writes its tensors and fsyncs;
/// with a file for each node the first rank writes the index; each rank that made a file looks for it and for the next
/// rank's; rank 0 writes the manifest and commits.
class Writer {
 public:
  /// `world` has all ranks, `node` those of this node if one file serves a node, else null. `common` is the manifest of
  /// all checkpoints of the run, without step, sequences, loss, serial, tensors and files. All that is passed by
  /// reference must outlive the writer. Rank 0 holds the lock of the directory; `lost` says on rank 0, on any thread,
  /// why the lock is lost, and is empty while it is held. What is being written then is neither committed nor removed.
  Writer(const comm::Communicator& world, const comm::Communicator* node, const std::vector<StateTensor>& tensors,
         Snapshot& snapshot, io::IoThread& io, Directory directory, Manifest common, std::int64_t keep,
         std::function<std::string()> lost = {});
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Begins to write the checkpoint of the state at this moment; none may be under way. Collective. AgreedError when
  /// rank 0 cannot make the folder.
  void begin(const tensor::Exec& exec, const Moment& moment);
  /// The id of the training whose checkpoints these are.
  const std::string& training() const { return common_.run; }
  /// From now on data are written with direct I/O where the file system can (io::RawFile::write_direct), to leave the
  /// processors to training.
  void use_direct_io() { direct_io_ = true; }
  bool under_way() const { return stage_ != Stage::none; }
  /// Looks what all ranks have done, and begins the next stage when all have ended one. Waits for no I/O. Collective.
  Outcome advance();
  /// Calls advance() until the checkpoint is written or has failed. Collective.
  Outcome finish();

 private:
  enum class Stage { none, layout, write, index, check, commit };
  struct Work;

  bool leads_node() const { return node_ == nullptr || node_->rank() == 0; }
  /// Of the file that this rank or its node makes, or of the one that the next rank or node makes.
  std::string file_name(int next = 0) const;
  std::vector<io::ShardBox> own_boxes() const;
  void begin_layout();
  void begin_write();
  void begin_index();
  void begin_check();
  void begin_commit();
  void begin_stage_after();
  Outcome end_failed();
  Outcome end_written();

  const comm::Communicator& world_;
  const comm::Communicator* node_;
  const std::vector<StateTensor>& tensors_;
  Snapshot& snapshot_;
  io::IoThread& io_;
  Directory directory_;
  Manifest common_;
  std::int64_t keep_;
  std::function<std::string()> lost_;
  bool direct_io_ = false;
  int node_index_ = 0;  ///< this node's number among the nodes
  int files_ = 1;       ///< of a checkpoint

  Stage stage_ = Stage::none;
  Moment moment_;
  std::uint64_t bytes_ = 0;  ///< of all files
  double own_seconds_ = 0;
  std::chrono::steady_clock::time_point began_;
  std::unique_ptr<Work> work_;
};

}  // namespace shard8::checkpoint
