// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::tensor {

/// Host memory into which tensors are copied while the execution space goes on working. On a device the memory is
/// pinned, and copies run on a stream of their own. On hosts the memory takes no pages until it is written, and a copy
/// is made by the caller.
///
/// Copies are made in rounds. In a round each group of tensors is copied once; groups are numbered from 0.
class HostCopies {
 public:
  /// Throws Error(environment) with the size when the memory cannot be had.
  HostCopies(std::size_t bytes, int groups);
  ~HostCopies();
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  /// Whether copies run beside the caller and beside `exec`, as on a device. Otherwise the caller makes them.
  static bool concurrent();
  std::byte* data() const;
  std::size_t bytes() const;

  /// Begins a round: copies of this round see what `exec` was given before. The round before must be complete.
  void begin(const Exec& exec);
  /// Copies a tensor of the execution space to `to` in data().
  void copy(std::byte* to, const Tensor& from);
  /// All copies of the group in this round have been given to copy().
  void end_group(int group);
  /// Work that `exec` is given from now on waits for the copies of the group. The host does not wait.
  void hold(const Exec& exec, int group) const;
  /// Waits on the host for the copies of the group. Any thread may call it.
  void wait(int group) const;

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace shard8::tensor
