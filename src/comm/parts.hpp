// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "tensor/operand.hpp"
#include "tensor/tensor.hpp"

/// Collectives under way: as a whole (Request), or by parts that are used one by one, each as soon as it is there, so
/// that a matrix product of one rank's rows runs while the rows of other ranks are on their way.

namespace shard8::comm {

/// How the rows of an exchange by parts are sent.
enum class Route : std::uint8_t {
  direct,  ///< from each rank to each other one: in memory that they share, or by messages
  ring     ///< from each rank to one neighbour, which passes them on; by messages, on hosts only
};

/// Memory of all ranks of a group on one node, which each rank reads and writes directly. While an owner holds it, the
/// exchanges of its group go through it. See Communicator::parts_memory.
class PartsMemory {
 public:
  /// Collective. All exchanges must be finished. During an exception the destructor frees nothing: the process ends.
  virtual ~PartsMemory() = default;
  /// Bytes that this rank holds of the memory.
  virtual std::size_t bytes() const = 0;
};

/// An all-gather under way, as one way to move the rows implements it. See GatherParts for its members.
class GatherExchange {
 public:
  virtual void await(int rank) = 0;
  virtual tensor::Tensor part(std::size_t i, int rank) const = 0;
  virtual void finish() = 0;
  /// Called when an exception has left the exchange under way. False: the exchange must be leaked, because peers may
  /// still write to its memory.
  virtual bool abandon() noexcept = 0;
  /// Destroys the exchange. The memory of the exchange goes back to where it came from.
  virtual void give_back() noexcept = 0;

 protected:
  ~GatherExchange() = default;
};

/// A reduce-scatter under way. See ScatterParts for its members.
class ScatterExchange {
 public:
  virtual tensor::Tensor whole() = 0;
  virtual void give(int rank) = 0;
  /// See ScatterParts::give. Exchanges on devices implement this function. An exchange on hosts throws Error(failed).
  virtual void give(int rank, std::int64_t first, std::int64_t rows);
  virtual void finish() = 0;
  /// As finish(), or, if it returns partial sums, without the sum: see ScatterParts::finish_partial_sums.
  virtual std::optional<tensor::PartialSums> finish_partial_sums() {
    finish();
    return std::nullopt;
  }
  virtual bool abandon() noexcept = 0;    ///< as GatherExchange::abandon
  virtual void give_back() noexcept = 0;  ///< as GatherExchange::give_back

 protected:
  ~ScatterExchange() = default;
};

/// Finishes an exchange that is dropped, where nothing can be thrown: an error ends the rank. During an exception it
/// does not wait for peers that may never take part again; what they may still write to is leaked.
struct DropExchange {
  void operator()(GatherExchange* exchange) const noexcept;
  void operator()(ScatterExchange* exchange) const noexcept;
};
using GatherExchangePtr = std::unique_ptr<GatherExchange, DropExchange>;
using ScatterExchangePtr = std::unique_ptr<ScatterExchange, DropExchange>;

/// The rank of `size` ranks to which rank `rank` gives its partial sums k-th, k = 1 … size, so that no rank gets the
/// rows of all others at once. The last one is `rank` itself.
inline int destination(int k, int rank, int size) { return (rank + k) % size; }

/// An all-gather whose parts, the rows of each rank, are waited for one by one. Made by Communicator::all_gather_parts.
/// Move-only. The destructor finishes it. A finished or moved-from object may only be destroyed or assigned to; other
/// calls are an Error(failed).
class GatherParts {
 public:
  GatherParts() = default;
  GatherParts(GatherExchangePtr exchange, int rank, int size)
      : exchange_(std::move(exchange)), rank_(rank), size_(size) {}

  /// What is read from now on sees the rows of rank `rank`: on hosts the call blocks until they are there, on a device
  /// the compute stream waits. The rows of this rank are there at once.
  void await(int rank);
  /// The rows (R, ...) of rank `rank` of tensor i, where a product reads them after await(rank). This rank's rows are
  /// own[i]. The rows of another rank are in whole[i], or in the memory of that rank.
  tensor::Tensor part(std::size_t i, int rank) const;
  /// The rank whose rows come k-th, k = 0 … size − 1. The first one is this rank.
  int arrival(int k) const { return (rank_ - k + size_) % size_; }
  /// This rank reads no part any more. On hosts it blocks until this rank's rows may be changed. Parts outside of
  /// whole[i] must not be read afterwards.
  void finish();
  bool active() const { return exchange_ != nullptr; }

 private:
  GatherExchangePtr exchange_;
  int rank_ = 0, size_ = 1;
};

/// A reduce-scatter to which this rank gives its partial sums part by part. Made by Communicator::reduce_scatter_parts.
/// Move-only. The destructor finishes it. A finished or moved-from object may only be destroyed or assigned to; other
/// calls are an Error(failed).
class ScatterParts {
 public:
  ScatterParts() = default;
  ScatterParts(ScatterExchangePtr exchange, int rank, int size)
      : exchange_(std::move(exchange)), rank_(rank), size_(size) {}

  /// Where this rank writes its partial sums (N·R, ...): item.whole, or memory that peers read. On hosts it blocks
  /// until peers have read what was there before.
  tensor::Tensor whole() const;
  /// The rows of whole() that rank `rank` sums are written, in the order of the execution space, and are not changed
  /// any more. Every rank, this one too, is given once, after whole() was called.
  void give(int rank);
  /// Gives a piece of the rows for `rank`: `rows` of them, from number `first` on. The piece is sent while the rows
  /// behind it are still being computed. The caller gives each row once, in ascending order. All ranks must cut the
  /// rows for every other rank into the same pieces, otherwise later exchanges of the group wait for the wrong pieces.
  /// Throws Error(failed) on hosts and in a group of one rank, where all rows for a rank are given at once.
  void give(int rank, std::int64_t first, std::int64_t rows);
  /// See comm::destination().
  int destination(int k) const { return comm::destination(k, rank_, size_); }
  /// item.out = Σ over ranks of their rows for this rank, plus item.addend, in the order of the route: on hosts it
  /// blocks until the sum is there, on a device what the compute stream is given afterwards sees it. All ranks must
  /// have been given.
  void finish();
  /// As finish(), but the sum may be left to its reader: item.out is then not written, and the returned partial sums,
  /// in rank order and the addend last, make it. What the compute stream is given afterwards sees them, until it is
  /// given the group's next reduce-scatter. The caller must not change whole() and the addend before it has read them.
  /// If nothing is returned, the sum is in item.out.
  [[nodiscard]] std::optional<tensor::PartialSums> finish_partial_sums();
  bool active() const { return exchange_ != nullptr; }

 private:
  ScatterExchangePtr exchange_;
  int rank_ = 0, size_ = 1;
};

class DeviceCall;
class PendingCollective;

/// Destroys a collective, whose memory goes back to its group.
struct GiveBack {
  void (*give_back)(PendingCollective*) noexcept = nullptr;
  void operator()(PendingCollective* pending) const noexcept { give_back(pending); }
};

/// A collective under way. Move-only. An empty request is complete.
///
/// On hosts wait() blocks as the communicator's Waiting says, and records the call. On a device wait() returns at once,
/// and what the compute stream is given afterwards waits; a collective on the compute stream itself gives an empty
/// request. The destructor of a request that was never waited for waits.
class Request {
 public:
  using Pending = std::unique_ptr<PendingCollective, GiveBack>;

  Request();
  explicit Request(Pending pending);
  /// `call` may be null: complete in the order of the compute stream.
  explicit Request(DeviceCall* call);
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();

  void wait();
  /// Lets the library make progress. True when the collective is complete; wait() then returns at once.
  bool test();
  bool active() const { return pending_ != nullptr || call_ != nullptr; }

 private:
  void wait_or_die() noexcept;
  Pending pending_;
  DeviceCall* call_ = nullptr;
};

}  // namespace shard8::comm
