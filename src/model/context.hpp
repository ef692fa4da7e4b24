// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "comm/communicator.hpp"
#include "fp8/quantizer.hpp"
#include "kernels/libraries.hpp"
#include "operation/executor.hpp"

namespace shard8::model {

using operation::At;

/// The scratch memory that is in use at the moment. Matrices that are never in use at the same time share scratch
/// memory; model/activations.cpp lays out which ones do. Whoever writes a matrix there holds its bytes by a Lease. So
/// two matrices in the same bytes are an error of every step that is run or recorded: `plan` finds it for its deck.
class Leases {
 public:
  Leases() = default;
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

 private:
  friend class Lease;
  static constexpr int kMost = 32;
  std::uint32_t held_ = 0;  ///< a bit for each place that is held; the entries of other places are old
  std::array<const std::byte*, kMost> begin_{}, end_{};
  std::array<std::string_view, kMost> what_{};
};

/// Holds the bytes of tensors from its construction until its end. Move-only: the object that has the Lease is the one
/// that may read the tensors, and who passes the object on passes the memory on.
class Lease {
 public:
  /// The bytes of a tensor.
  struct Bytes {
    const std::byte *begin = nullptr, *end = nullptr;
    Bytes() = default;
    Bytes(const tensor::Tensor& t)  // NOLINT: a tensor is its bytes
        : begin(t.data), end(t.data == nullptr ? nullptr : t.data + t.bytes()) {}
  };

  Lease() = default;
  /// `what` the tensors are, for errors; it must outlive the Lease. Tensors that are empty, or lie where one before
  /// lies, are left out. Throws Error(failed), naming both, and holds nothing, if another Lease holds one of the bytes.
  Lease(Leases& leases, std::string_view what, std::initializer_list<Bytes> tensors) : Lease() {
    for (const Bytes& bytes : tensors) hold(leases, what, bytes);
  }
  Lease(Lease&& other) noexcept : leases_(other.leases_), held_(std::exchange(other.held_, 0)) {}
  Lease& operator=(Lease&& other) noexcept {
    std::swap(leases_, other.leases_);
    std::swap(held_, other.held_);
    other.release();
    return *this;
  }
  ~Lease() { release(); }

  /// Holds one more tensor, of the same Leases.
  void hold(Leases& leases, std::string_view what, const Bytes& bytes);

 private:
  void release() {
    if (held_ != 0) leases_->held_ &= ~std::exchange(held_, 0);
  }
  Leases* leases_ = nullptr;
  std::uint32_t held_ = 0;  ///< a bit for each place of *leases_ that this Lease holds
};

/// What every module computes with. The trainer owns it and passes it down.
struct Context {
  operation::Executor& executor;
  const comm::Communicator& tensor_group;
  kernels::Workspace workspace;                      ///< memory of workspace_bytes(), and the device's libraries
  const fp8::Quantizer* quantizer = nullptr;         ///< null without a recipe
  const comm::Communicator* expert_group = nullptr;  ///< null if each rank holds all experts, or there are none
  comm::PushMemory* push_memory = nullptr;           ///< of the expert group, if it pushes rows (ExpertExchange)
  const tensor::Exec* push_exec = nullptr;           ///< on the stream of push_memory
  mutable Leases leases{};

  profile::StepTimer& timer() const { return executor.timer(); }
  /// Whether the step runs on a device, or is recorded as one that does.
  bool device() const { return executor.device(); }
  /// See operation::Executor.
  template <class What, class Work>
  auto issue(const What& what, const Work& work) const {
    return executor.issue(what, work);
  }
  /// Executor::wait() for a collective that belongs to `exchange`. If it is under way, the time of the wait counts as
  /// that exchange's.
  void wait(profile::Exchange exchange, operation::Issued<comm::Request>& collective) const;
  /// See Lease.
  [[nodiscard]] Lease lease(std::string_view what, std::initializer_list<Lease::Bytes> tensors) const {
    return {leases, what, tensors};
  }
};

}  // namespace shard8::model
