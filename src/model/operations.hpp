// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/axes.hpp"
#include "fp8/recipe.hpp"
#include "kernels/attention_shape.hpp"
#include "profile/collective_log.hpp"
#include "profile/phase.hpp"
#include "tensor/operand.hpp"

namespace shard8::model {

/// The queues of a rank's work: kernels and the tensor group's collectives, gathers of weights, reductions of
/// gradients. On a device each is a stream. On hosts `compute` is the thread of the program, and the others are
/// collectives that were issued and not yet waited for.
enum class Stream : std::uint8_t { compute, gather, reduce };
std::string_view name_of(Stream stream);

/// A group of ranks: comm::Mesh::group. Its name is that which profile::CollectiveLog gives it.
using Group = base::AxisSet;

/// The part of the model that an operation belongs to.
struct Site {
  int unit = -1;  ///< embedding_unit(), layer_unit() or root_unit() (the head); -1: no single unit
  std::optional<fp8::Linear> linear{};
  bool operator==(const Site&) const = default;
};

/// How the elements of a matrix are stored.
struct Format {
  tensor::DType dtype = tensor::DType::fp32;
  tensor::Scaling scaling = tensor::Scaling::none;
  bool transposed = false;  ///< see tensor::Operand
  bool operator==(const Format&) const = default;
};
/// Bytes of `elements` elements and of their inverse scales.
std::uint64_t bytes_of(const Format& format, std::int64_t elements);

/// The kinds of operations.
namespace operation {

/// out (rows, cols) = left (rows, inner) · right (inner, cols); with `accumulate` it is added to out.
struct Product {
  /// y = x·wᵀ, dx = dy·w, dw = dyᵀ·x; left and right are x and w, dy and w, dy and x.
  enum class Kind : std::uint8_t { fprop, dgrad, wgrad };
  Kind kind = Kind::fprop;
  std::int64_t rows = 0, cols = 0, inner = 0;  ///< M, N, K
  Format left{}, right{};
  tensor::DType out = tensor::DType::fp32;
  bool accumulate = false, bias = false, residual = false;
  bool operator==(const Product&) const = default;
  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(inner);
  }
};

/// Causal attention of this rank's heads.
struct Attention {
  bool backward = false;
  kernels::AttentionShape shape{};
  tensor::DType dtype = tensor::DType::fp32;
  bool operator==(const Attention&) const = default;
};

/// A kernel bound by memory bandwidth. `name` is the name of its function in kernels/.
struct Kernel {
  std::string_view name;
  std::int64_t rows = 0, cols = 0;  ///< of the matrix that it works on
  tensor::DType in = tensor::DType::fp32, out = tensor::DType::fp32;
};

/// One collective of a group of more than one rank.
struct Collective {
  /// What it moves of one dtype, counted as profile::CollectiveKey does.
  struct Part {
    tensor::DType dtype = tensor::DType::fp32;
    std::uint64_t bytes = 0;
  };
  profile::Collective op = profile::Collective::all_gather;
  Group group{};
  int ranks = 1;
  std::vector<Part> parts{};
  int items = 1;                ///< tensors in this one call
  bool by_parts = false;        ///< its parts are used one by one: comm::Communicator::parts_memory on hosts
  bool ring = false;            ///< by parts, round a ring of neighbours
  bool host_values = false;     ///< moves a few numbers of the host by MPI: profile::CollectiveLog does not count it
  std::uint64_t bytes() const;  ///< of all parts
};

}  // namespace operation

/// One operation of a training step on one rank: shapes and bytes, no memory.
///
/// Order: the operations of a stream run one after the other, as they are listed. An operation on the stream gather or
/// reduce also starts only after every operation of the compute stream that is listed before it.
struct Operation {
  using Product = operation::Product;
  using Attention = operation::Attention;
  using Kernel = operation::Kernel;
  using Collective = operation::Collective;

  Site site;
  profile::Phase phase = profile::Phase::other;
  Stream stream = Stream::compute;
  /// Forward has computed the same in this step, and backward repeats it (deck key model.recompute): it adds no model
  /// FLOPs.
  bool recomputed = false;
  std::uint64_t read = 0, written = 0;  ///< bytes of this rank's memory; 0 for a collective
  /// Collectives that are waited for just before this operation is issued: this operation and those that follow on the
  /// compute stream start after them. Each collective is waited for once. An entry k >= 0 is the index of a collective
  /// in the list; −1 − k is entry k of Operations::ahead of the step before.
  std::vector<int> waits;
  std::variant<Product, Attention, Kernel, Collective> what;

  const Product* product() const { return std::get_if<Product>(&what); }
  const Attention* attention() const { return std::get_if<Attention>(&what); }
  const Kernel* kernel() const { return std::get_if<Kernel>(&what); }
  const Collective* collective() const { return std::get_if<Collective>(&what); }
};

/// The operations of a step, in the order in which they are issued.
struct Operations {
  std::vector<Operation> list;
  std::vector<int>
      ahead;  ///< indices of the gathers that bring weights for the next step; the next step waits for them
};

/// What an operation computes or moves, on one line: shapes and formats of a product, bytes of a collective, ...
std::string to_text(const Operation::Product& product);
std::string to_text(const Operation::Attention& attention);
std::string to_text(const Operation::Kernel& kernel);
std::string to_text(const Operation::Collective& collective);
/// All of an operation on one line.
std::string to_text(const Operation& operation);

/// Passes operations to a function, one by one in their order, so that a step of many micro-batches takes no memory.
/// The caller sets site, phase and `recomputed`; they hold until the caller changes them.
class OperationWriter {
 public:
  using Sink = std::function<void(const Operation& operation)>;
  explicit OperationWriter(Sink sink) : sink_(std::move(sink)) {}

  Site site;
  profile::Phase phase = profile::Phase::other;
  bool recomputed = false;

  /// Each writes one operation. Bytes of a product and of attention follow from their shapes. A kernel on a matrix
  /// without elements is not written.
  void product(const Operation::Product& product);
  void attention(const Operation::Attention& attention);
  void kernel(const Operation::Kernel& kernel, std::uint64_t read, std::uint64_t written);
  /// Returns the index of the operation. A collective in a group of one rank is not written and has no index. Parts of
  /// the same dtype are added up.
  std::optional<int> collective(const Operation::Collective& collective, Stream stream);
  /// Adds the collective to the `waits` of the next operation. Does nothing without an index.
  void wait(std::optional<int> collective);

  /// From now on, collectives on the stream gather bring weights for the next step.
  void gathers_are_ahead() { ahead_now_ = true; }
  /// The indices of these collectives.
  const std::vector<int>& ahead() const { return ahead_; }

 private:
  void write(Operation operation);
  Sink sink_;
  int count_ = 0;
  std::vector<int> waits_, ahead_;
  bool ahead_now_ = false;
};

}  // namespace shard8::model
