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
#include "fsdp/weight_forms.hpp"
#include "kernels/gemm.hpp"
#include "kernels/libraries.hpp"
#include "model/dims.hpp"
#include "operation/executor.hpp"
#include "tensor/arena.hpp"
#include "tensor/operand.hpp"

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

/// Weight and bias of a norm, or the gradients of weight and bias of a norm or linear layer. `bias` is empty where the
/// architecture has none.
struct Affine {
  tensor::Tensor weight, bias;
};

/// Gradients (fp32) of a linear layer. `accumulate`: the weight's gradient already holds a sum of this step, so the
/// product adds to it; otherwise the product overwrites it. Gradients of biases and norm weights are always added to.
struct AffineGradient {
  Affine sum;
  bool accumulate = false;
};

/// A gathered weight (out, in), plain or in FP8, as products read it: fprop reads `forward`, dgrad reads `backward`. If
/// a weight has two copies, only the copy for the current pass is gathered; the other one is empty. `stamp` says
/// whether the copies are still the ones that were gathered; copy_for() throws Error(failed) if they are not.
using Weight = fsdp::GatheredWeight;

/// Weight and bias of a linear layer.
struct LinearWeights {
  Weight weight;
  tensor::Tensor bias;
};

// The matrix products of kernels/gemm.hpp, with its shapes, timed as gemm. The context's observer is told before each,
// and collectives under way advance after each.

/// y = x·wᵀ + bias + residual; bias and residual may be empty.
void fprop(const Context& context, const tensor::Tensor& y, const tensor::Operand& x, const Weight& w,
           const tensor::Tensor& bias, const tensor::Tensor& residual = {});
/// dx = dy·w.
void dgrad(const Context& context, const tensor::Tensor& dx, const tensor::Operand& dy, const Weight& w);
/// dw = dyᵀ·x, added to dw with `accumulate`.
void wgrad(const Context& context, const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x,
           bool accumulate);

/// Some of the groups of rows that a grouped product multiplies, consecutive ones.
struct GroupPart {
  kernels::RowGroups groups;        ///< of the part
  std::int64_t first = 0, all = 0;  ///< the part's first group, and how many groups there are without regard to parts
  /// Tokens of the part that descriptions of products have: a device may alone know how many there are.
  std::int64_t tokens = 0;
  int spared = 0;  ///< on a device: multiprocessors that the product leaves to other kernels

  std::int64_t count() const { return groups.rows.count(); }
  /// The part's share of `n`, of which all groups have equal shares. The shares of all parts add up to n.
  std::int64_t share_of(std::int64_t n) const { return n * (first + count()) / all - n * first / all; }
};

// The products of kernels/gemm.hpp for a part of the groups. Shapes are those of all groups.

void grouped_fprop(const Context& context, const tensor::Tensor& y, const tensor::Operand& x, const Weight& w,
                   const GroupPart& part);
void grouped_dgrad(const Context& context, const tensor::Tensor& dx, const tensor::Operand& dy, const Weight& w,
                   const GroupPart& part);
void grouped_wgrad(const Context& context, const tensor::Tensor& dw, const tensor::Operand& dy,
                   const tensor::Operand& x, const GroupPart& part, bool accumulate);

/// What a norm keeps for its backward, (rows) fp32 each; mean is empty for RMSNorm.
struct NormStatistics {
  tensor::Tensor mean, rstd;
  static NormStatistics allocate(deck::Arch arch, std::int64_t rows, tensor::Arena& arena);
  /// The statistics of rows [first, first + n), in the same memory.
  NormStatistics slice(std::int64_t first, std::int64_t n) const {
    return {mean.empty() ? mean : mean.slice(first, n), rstd.slice(first, n)};
  }
};

/// `rmsnorm` (llama: weight only) and `layernorm` (gpt2: weight and bias) under one interface.
struct Norm {
  deck::Arch arch = deck::Arch::llama;
  float eps = 1e-5f;

  /// Writes y (rows, H) of x (rows, H), plain or cast to FP8, and the statistics. Writes the sum of x if x is still
  /// partial sums.
  void forward(const Context& context, const kernels::Outputs& y, const NormStatistics& statistics,
               const tensor::SumOfPartials& x, const Affine& w) const;
  /// Writes the same y as forward did, from the statistics that forward wrote.
  void recompute(const Context& context, const kernels::Outputs& y, const NormStatistics& statistics,
                 const tensor::Tensor& x, const Affine& w) const;
  /// Writes dx (rows, H) = residual (rows, H) + gradient of x; `residual` may be dx itself, or empty. Adds to dw
  /// (fp32).
  void backward(const Context& context, const tensor::Tensor& dx, const Affine& dw, const tensor::PartialSums& dy,
                const tensor::Tensor& x, const NormStatistics& statistics, const Affine& w,
                const tensor::Tensor& residual) const;
};

}  // namespace shard8::model
