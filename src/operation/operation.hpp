// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/axes.hpp"
#include "kernels/attention.hpp"
#include "kernels/quantize.hpp"
#include "profile/collective_log.hpp"
#include "profile/phase.hpp"
#include "tensor/operand.hpp"

namespace shard8::operation {

/// The queues of a rank's work: kernels and the tensor group's collectives; gathers, of weights and of tokens;
/// reductions of gradients and sums of tokens. Rows of experts that overlap with products are on gather, their results
/// on reduce. On a device each is a stream. On hosts `compute` is the thread of the program, and the others are
/// collectives that were issued and not yet waited for.
enum class Stream : std::uint8_t { compute, gather, reduce };
std::string_view name_of(Stream stream);

/// A group of ranks: comm::Mesh::group. The group's name is the one that profile::CollectiveLog gives it.
using Group = base::AxisSet;

/// The four linear layers of a transformer layer.
enum class Linear : std::uint8_t { qkv, proj, fc1, fc2 };
inline constexpr int kLinears = 4;
std::string_view name_of(Linear linear);

/// The part of the model that an operation belongs to.
struct Location {
  int unit = -1;  ///< number of the unit of weights; -1: no single unit
  std::optional<Linear> linear{};
  bool operator==(const Location&) const = default;
};

/// How the elements of a matrix are stored.
struct Format {
  tensor::DType dtype = tensor::DType::fp32;
  tensor::Scaling scaling = tensor::Scaling::none;
  bool transposed = false;  ///< see tensor::Operand
  bool operator==(const Format&) const = default;
};
Format format_of(const tensor::Operand& matrix);
/// Bytes of `elements` elements and of their inverse scales.
std::uint64_t bytes_of(const Format& format, std::int64_t elements);

/// Bytes that a kernel moves to read or write these: nothing for empty ones. An operand has its inverse scales, too.
inline std::uint64_t bytes_of(const tensor::Tensor& t) { return t.empty() ? 0 : t.bytes(); }
inline std::uint64_t bytes_of(const tensor::Operand& m) { return bytes_of(m.data) + bytes_of(m.scale_inv); }
std::uint64_t bytes_of(const kernels::Outputs& outputs);
std::uint64_t bytes_of(const tensor::PartialSums& partial_sums);
/// The dtype of what is written: of the cast, if there is one.
tensor::DType dtype_of(const kernels::Outputs& outputs);

/// out (rows, cols) = left (rows, inner) · right (inner, cols); with `accumulate` it is added to out.
/// A matrix product, or the products of a layer's experts: groups of tokens, each with a weight of its own.
struct Product {
  /// y = x·wᵀ, dx = dy·w, dw = dyᵀ·x; left and right are x and w, dy and w, dy and x.
  enum class Kind : std::uint8_t { fprop, dgrad, wgrad };
  Kind kind = Kind::fprop;
  std::int64_t rows = 0, cols = 0, inner = 0;  ///< M, N, K; the tokens are those of all groups together
  Format left{}, right{};
  tensor::DType out = tensor::DType::fp32;
  bool accumulate = false, bias = false, residual = false;
  std::int64_t groups = 1;
  bool operator==(const Product&) const = default;
  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(inner);
  }
};

std::string_view name_of(Product::Kind kind);
/// Bytes that a product reads and writes, all groups together.
std::uint64_t bytes_read(const Product& p);
std::uint64_t bytes_written(const Product& p);

/// Causal attention of this rank's heads.
struct Attention {
  bool backward = false;
  kernels::AttentionShape shape{};
  tensor::DType dtype = tensor::DType::fp32;
  bool operator==(const Attention&) const = default;
};

/// A kernel bound by memory bandwidth. `name`, static text, is the name of its function in kernels/.
struct Kernel {
  std::string_view name;
  std::int64_t rows = 0, cols = 0;  ///< of the matrix that it works on
  tensor::DType in = tensor::DType::fp32, out = tensor::DType::fp32;
  std::uint64_t read = 0, written = 0;  ///< bytes of this rank's memory

  /// The kernel `name` on a matrix, which writes the matrix's own dtype.
  static Kernel on(std::string_view name, const tensor::Tensor& matrix) {
    return {name, matrix.rows(), matrix.cols(), matrix.dtype, matrix.dtype};
  }
  /// This kernel, with these tensors among those that it reads or writes: tensors, operands, outputs or partial sums.
  template <class... T>
  Kernel reads(const T&... of) const {
    Kernel k = *this;
    ((k.read += bytes_of(of)), ...);
    return k;
  }
  template <class... T>
  Kernel writes(const T&... of) const {
    Kernel k = *this;
    ((k.written += bytes_of(of)), ...);
    return k;
  }
};

/// One collective of a group of more than one rank.
struct Collective {
  /// What a collective moves of one dtype, counted as profile::CollectiveKey does.
  struct Payload {
    tensor::DType dtype = tensor::DType::fp32;
    std::uint64_t bytes = 0;
  };
  profile::Collective op = profile::Collective::all_gather;
  Group group{};
  int ranks = 1;
  std::vector<Payload> payloads{};
  int items = 1;                ///< tensors in this one call
  bool by_parts = false;        ///< the exchange's parts are used one by one: Communicator::parts_memory on hosts
  bool ring = false;            ///< by parts, round a ring of neighbours
  bool host_values = false;     ///< moves a few numbers of the host by MPI: profile::CollectiveLog does not count it
  std::uint64_t bytes() const;  ///< of all payloads
};

/// One operation of a training step on one rank: shapes and bytes, no memory.
///
/// Order: the operations of a stream run one after the other, as they are listed. An operation on the stream gather or
/// reduce also starts only after every operation of the compute stream that is listed before it.
struct Operation {
  Location location;
  profile::Phase phase = profile::Phase::other;
  Stream stream = Stream::compute;
  /// Forward has computed the same in this step, and backward repeats it (deck key model.recompute): the repeated
  /// operation adds no model FLOPs.
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
std::string to_text(const Product& product);
std::string to_text(const Attention& attention);
std::string to_text(const Kernel& kernel);
std::string to_text(const Collective& collective);
/// All of an operation on one line.
std::string to_text(const Operation& operation);

}  // namespace shard8::operation
