// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "checkpoint/state_tensor.hpp"
#include "tensor/exec.hpp"
#include "tensor/transfer.hpp"

namespace shard8::checkpoint {

/// The parts of the persistent tensors that this rank writes, as they were at one moment between two steps, for a
/// thread that reads them while training goes on.
///
/// On a device take() starts copies of all parts into pinned memory, group by group. A group is changed only when its
/// copies are complete: before_change() makes the device wait for them, and the host never waits.
///
/// On hosts take() copies nothing. That thread reads the tensors themselves. What it has not read of a group when
/// the group is about to change is copied first: before_change() does this.
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
  /// Only for the one thread that reads. `first` must not be smaller than in the call before for the same piece plus
  /// its count: each element is read in order.
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

}  // namespace shard8::checkpoint
