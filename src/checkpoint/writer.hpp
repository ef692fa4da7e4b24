// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/directory.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/state_tensor.hpp"
#include "comm/communicator.hpp"
#include "io/box.hpp"
#include "io/io_thread.hpp"
#include "tensor/runtime.hpp"
#include "tensor/transfer.hpp"

namespace shard8::checkpoint {

/// The parts of the persistent tensors that this rank writes, as they were at one moment between two steps, for a
/// thread that reads them while training goes on.
///
/// On a device take() starts copies of all parts into pinned memory, group by group. A group is changed only when its
/// copies are complete: before_change() makes the device wait for them, and the host never waits.
///
/// On hosts take() copies nothing. The reading thread reads the tensors themselves. What it has not read of a group
/// when the group is about to change is copied first: before_change() does this.
class Snapshot {
 public:
  /// A part that this rank writes: parts[part] of tensors[tensor].
  struct Piece {
    std::size_t tensor = 0, part = 0;
    std::size_t bytes = 0;
  };

  /// `tensors`, and the memory of their parts, must outlive the snapshot. Takes memory for copies of all pieces:
  /// bytes(). Error(environment) when it cannot be had.
  Snapshot(const std::vector<StateTensor>& tensors, const base::Place& place);

  /// Bytes of host memory that the constructor takes. On hosts pages are used only when they are written.
  static std::size_t bytes(const std::vector<StateTensor>& tensors, const base::Place& place);

  const std::vector<Piece>& pieces() const { return pieces_; }

  /// From now on the snapshot holds the state after the work that `exec` was given. The snapshot before must have been
  /// released.
  void take(const tensor::Exec& exec);
  /// Whether a snapshot is held and before_change() has not been called for the group since.
  bool holds(int group) const;
  /// The tensors of the group are about to be changed by what `exec` is given next. Does nothing unless holds(group).
  void before_change(const tensor::Exec& exec, int group);
  /// The state is no longer needed. Any thread may call it.
  void release();
  bool held() const { return held_; }

  using Use = std::function<void(std::span<const std::byte>)>;
  /// Calls use() with elements [first, first + count) of a piece, in row-major order of the piece's box in coordinates
  /// of the whole tensor: where they lie if their order there is that of the box, else in `buffer`. When the elements
  /// were changed during use(), it is called once more, with the right ones; before_change() never waits for use().
  /// Only the one thread that reads may call this function. `first` must not be smaller than in the call before for the
  /// same piece plus its count: each element is read in order.
  void read(std::size_t piece, std::int64_t first, std::int64_t count, std::vector<std::byte>& buffer, const Use& use);

 private:
  struct Source {
    const std::byte* data = nullptr;  ///< the tensor's memory, or its copy
    std::int64_t read = 0;            ///< elements that read() has returned
    bool copied = false;
  };
  const StateTensor& tensor_of(const Piece& piece) const { return tensors_[piece.tensor]; }
  const LocalPart& part_of(const Piece& piece) const { return tensor_of(piece).parts[piece.part]; }
  void copy(std::size_t piece);

  const std::vector<StateTensor>& tensors_;
  std::vector<Piece> pieces_;
  std::vector<std::size_t> offsets_;              ///< by piece: in copies_
  std::vector<std::vector<std::size_t>> groups_;  ///< pieces of each group
  tensor::HostCopies copies_;
  std::vector<Source> sources_;  ///< by piece
  std::vector<bool> changed_;    ///< by group, since take()
  std::atomic<bool> held_ = false;
  std::mutex mutex_;  ///< of sources_, and of the tensors while they are read, on hosts
};

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
  /// The name of the file that this rank or its node makes; with `next` = 1, of the file that the next rank or node
  /// makes.
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
