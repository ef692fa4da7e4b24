// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
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
  struct Held {
    const std::byte *begin = nullptr, *end = nullptr;  ///< null: free
    std::string_view what;
  };
  std::array<Held, 32> held_{};
};

/// Holds the bytes of up to three tensors from its construction until its end. Move-only: the object that has the Lease
/// is the one that may read the tensors, and who passes the object on passes the memory on.
class Lease {
 public:
  Lease() = default;
  /// `what` the tensors are, for errors; it must outlive the Lease. Tensors that are empty, or lie where one before
  /// lies, are left out. Throws Error(failed), naming both, and holds nothing, if another Lease holds one of the bytes.
  Lease(Leases& leases, std::string_view what, std::initializer_list<tensor::Tensor> tensors) : Lease() {
    for (const tensor::Tensor& t : tensors) hold(leases, what, t);
  }
  Lease(Lease&& other) noexcept : held_(other.held_), count_(std::exchange(other.count_, 0)) {}
  Lease& operator=(Lease&& other) noexcept {
    std::swap(held_, other.held_);
    std::swap(count_, other.count_);
    other.release();
    return *this;
  }
  ~Lease() { release(); }

  /// Holds one more tensor.
  void hold(Leases& leases, std::string_view what, const tensor::Tensor& t) {
    const std::byte *begin = t.data, *end = t.empty() ? begin : begin + t.bytes();
    const auto own = std::span(held_).first(count_);
    if (begin == end || std::ranges::any_of(own, [&](const auto* h) { return h->begin == begin; })) return;
    Leases::Held* free = nullptr;
    for (Leases::Held& h : leases.held_) {
      if (h.begin == nullptr) free = &h;
      if (h.begin < end && begin < h.end)
        base::fail(base::ExitCode::failed, "{} would overwrite {}, which is still in use", what, h.what);
    }
    SHARD8_REQUIRE(free != nullptr && count_ < held_.size(), "there is no room for another lease, of {}", what);
    *free = {begin, end, what};
    held_[count_++] = free;
  }

 private:
  void release() {
    while (count_ > 0) *held_[--count_] = {};
  }
  std::array<Leases::Held*, 3> held_{};
  std::size_t count_ = 0;
};

/// What every module computes with. The trainer owns it and passes it down.
struct Context {
  operation::Executor& executor;
  const comm::Communicator& tensor_group;
  kernels::Workspace workspace;               ///< memory of workspace_bytes(), and the device's libraries
  const fp8::Quantizer* quantizer = nullptr;  ///< null without a recipe
  mutable Leases leases{};

  profile::StepTimer& timer() const { return executor.timer(); }
  /// Whether the step runs on a device, or is recorded as one that does.
  bool device() const { return executor.device(); }
  /// See operation::Executor.
  template <class What, class Work>
  auto issue(const What& what, const Work& work) const {
    return executor.issue(what, work);
  }
  /// See Lease.
  [[nodiscard]] Lease lease(std::string_view what, std::initializer_list<tensor::Tensor> tensors) const {
    return {leases, what, tensors};
  }
};

}  // namespace shard8::model
