// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tensor/runtime.hpp"
#include "tensor/tensor.hpp"

namespace shard8::tensor {

/// Copies between the host's memory and the execution space's memory. A copy runs after all work given to `exec` before
/// it.

/// Copies to.bytes() bytes from `from`, in the host's memory, to the tensor `to`. The caller may overwrite `from` once
/// this returns, if `from` is ordinary (pageable) memory, not pinned.
void to_device(const Exec& exec, const Tensor& to, const void* from);

/// Copies the from.bytes() bytes of the tensor `from` to `to`, in the host's memory. Waits for all work of `exec`, so
/// the bytes are there once this returns.
void to_host(const Exec& exec, void* to, const Tensor& from);

/// The bytes of a tensor as elements of T; waits as to_host() does. T need not be the type of the dtype. Bytes that do
/// not make a whole T must not remain: sizeof(T) must divide from.bytes().
template <class T>
std::vector<T> to_host(const Exec& exec, const Tensor& from) {
  std::vector<T> elements(from.bytes() / sizeof(T));
  if (!elements.empty()) to_host(exec, elements.data(), from);
  return elements;
}

/// The bytes of the tensor where the host can read them: where they lie on hosts, else copied to `copy`, which must
/// then live as long as they are read. Waits as to_host() does.
std::span<const std::byte> read_on_host(const Exec& exec, const Tensor& from, std::vector<std::byte>& copy);

/// Calls write(host) with a tensor like `to` in the host's memory, all of which write() must fill: on hosts `to`
/// itself, else one that is copied to `to` afterwards.
void write_on_host(const Exec& exec, const Tensor& to, const std::function<void(const Tensor& host)>& write);

/// Waits until all work given to `exec` is done. Work on other streams is not waited for.
void finish(const Exec& exec);

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

  /// Whether copies are overlapped with the caller and with `exec`, as on a device. Otherwise the caller makes them.
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
