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

#include "fp8/recipe.hpp"
#include "kernels/attention_shape.hpp"
#include "profile/collective_log.hpp"
#include "profile/phase.hpp"
#include "tensor/operand.hpp"

namespace shard8::model {

/// The queues of a rank's work. On a device each is a stream; on hosts the first is the program itself, and the others
/// are collectives under way beside it.
enum class Stream : std::uint8_t { compute, gather, reduce };
std::string_view name_of(Stream stream);

/// The groups of ranks of a mesh (comm::Mesh), under the names that profile::CollectiveLog gives them.
enum class Group : std::uint8_t { tensor, shard, replicate, model, data, world };
std::string_view name_of(Group group);

/// What of the model an operation belongs to.
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
/// Bytes of so many elements and of their inverse scales.
std::uint64_t bytes_of(const Format& format, std::int64_t elements);

/// What an operation may be.
namespace operation {

/// out (rows, cols) = left (rows, inner) · right (inner, cols), added to what is there with `accumulate`.
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

/// A kernel bound by memory bandwidth, by the name of its function in kernels/.
struct Kernel {
  std::string_view name;
  std::int64_t rows = 0, cols = 0;  ///< of the matrix that it works on
  tensor::DType in = tensor::DType::fp32, out = tensor::DType::fp32;
};

/// A call of a group of more than one rank.
struct Collective {
  /// What it moves of one dtype, counted as profile::CollectiveKey does.
  struct Part {
    tensor::DType dtype = tensor::DType::fp32;
    std::uint64_t bytes = 0;
  };
  profile::Collective op = profile::Collective::all_gather;
  Group group = Group::tensor;
  int ranks = 1;
  std::vector<Part> parts{};
  int items = 1;             ///< tensors
  bool host_values = false;  ///< a few values of the host, by MPI: profile::CollectiveLog does not count it
  std::uint64_t bytes() const;
};

}  // namespace operation

/// One operation of a training step on one rank: shapes and bytes, no memory.
///
/// Order. The operations of a stream run one after the other, as they are listed. One on another stream than compute
/// also starts only after every operation of the compute stream that is listed before it.
struct Operation {
  using Product = operation::Product;
  using Attention = operation::Attention;
  using Kernel = operation::Kernel;
  using Collective = operation::Collective;

  Site site;
  profile::Phase phase = profile::Phase::other;
  Stream stream = Stream::compute;
  /// The same was computed before in this step (deck key model.recompute): it adds no model FLOPs.
  bool recomputed = false;
  std::uint64_t read = 0, written = 0;  ///< bytes of this rank's memory; 0 of a collective
  /// Collectives, as indices in the list, that are waited for just before this operation is issued: what follows on
  /// the compute stream starts after them. Each is waited for once. −1 − k is entry k of Operations::ahead of the
  /// step before.
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
  std::vector<int> ahead;  ///< gathers in it that bring weights for the next step, which waits for them
};

/// What an operation computes or moves, on one line: of a product shapes and formats, and so on.
std::string to_text(const Operation::Product& product);
std::string to_text(const Operation::Attention& attention);
std::string to_text(const Operation::Kernel& kernel);
std::string to_text(const Operation::Collective& collective);
/// All of an operation on one line.
std::string to_text(const Operation& operation);

/// Hands operations on, one by one in their order, so that a step of many micro-batches takes no memory. Site, phase
/// and `recomputed` are set by the caller and hold until they are changed.
class OperationWriter {
 public:
  using Sink = std::function<void(const Operation& operation)>;
  explicit OperationWriter(Sink sink) : sink_(std::move(sink)) {}

  Site site;
  profile::Phase phase = profile::Phase::other;
  bool recomputed = false;

  void product(const Operation::Product& product);
  void attention(const Operation::Attention& attention);
  void kernel(const Operation::Kernel& kernel, std::uint64_t read, std::uint64_t written);
  /// Returns its index. Does nothing, and returns nothing, in a group of one rank. Parts of one dtype are added up.
  std::optional<int> collective(const Operation::Collective& collective, Stream stream);
  /// The collective is waited for before the next operation; nothing is none.
  void wait(std::optional<int> collective);

  /// The gathers from now on bring weights for the next step.
  void gathers_are_ahead() { ahead_now_ = true; }
  /// Their indices.
  const std::vector<int>& ahead() const { return ahead_; }

 private:
  void write(Operation operation);
  Sink sink_;
  int count_ = 0;
  std::vector<int> waits_, ahead_;
  bool ahead_now_ = false;
};

}  // namespace shard8::model
