// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/communicator.hpp"
#include "comm/mpi/group.hpp"
#include "comm/sum_order.hpp"
#include "tensor/dtype.hpp"

namespace shard8::comm {

/// How one all-reduce of host memory is done. Every way gives the same bits: each element is summed in the group's
/// order.
struct AllReducePlan {
  enum class Way : std::uint8_t {
    all,        ///< Every rank sends everything to every other rank and reduces everything.
    cut,        ///< Every rank reduces its share of the elements and sends the result to every other rank.
    relay_all,  ///< As `all`, but ranks pass on what they received, so that few messages are sent.
    relay_cut,  ///< As `cut`, likewise.
  };
  Way way = Way::all;
  /// Bytes that one rank sends to another for it to reduce (relay_cut: in one round), rounded up to 4.
  std::size_t block_bytes = 0;
  std::size_t rounds = 1;         ///< of relay_cut, one after the other
  std::size_t scratch_bytes = 0;  ///< memory while the call is under way
  std::size_t messages = 0;       ///< messages that a rank sends; above Limits::message_bytes they are cut
};

/// The plan for `items` tensors of together `bytes`; an upper bound of the other figures where items have gaps
/// between them. `ranks` is at least 2.
AllReducePlan plan_all_reduce(std::size_t bytes, std::size_t items, int ranks, const Limits& limits);

/// Messages that a rank sends to bring one block to, or from, every other rank by relays: with distances between ranks
/// written in digits of base r = relay_radix(), at most r − 1 for each digit.
int relay_radix(const Limits& limits);
std::size_t relay_messages(int ranks, int radix);

/// An all-reduce by relays, started.
Request::Pending relayed_all_reduce(const std::shared_ptr<Group>& group, std::span<const tensor::Tensor> items,
                                    Communicator::Reduce reduce, const AllReducePlan& plan);

/// Items begin at multiples of 4 bytes, so that fp32 after bf16 is aligned.
constexpr std::size_t aligned_item(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

/// Reduces `count` elements of the sources. Sums are added in `order`.
void combine(std::byte* out, std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype,
             Communicator::Reduce reduce, SumOrder order);

/// out[i] = the sum of sources[0][i], sources[1][i], … in fp32, added in `order`, then addend[i] unless `addend` is
/// null; bf16 is rounded once, at the end. The dtype is fp32 or bf16. out may be one of the sources, or the addend.
void sum_in_order(std::byte* out, std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype,
                  SumOrder order = SumOrder::ranks, const std::byte* addend = nullptr);

/// out[i] = begin[i] + sources[0][i] + sources[1][i] + …, added in that order in fp32. Sources are of `dtype`, out is
/// of `out_dtype`; both are fp32 or bf16. `begin` may be null: then the sum begins with sources[0]. out may be `begin`,
/// or one of the sources if it has their dtype.
void add_in_order(std::byte* out, tensor::DType out_dtype, const float* begin,
                  std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype);

/// out[i] = the largest of sources[0][i], sources[1][i], …; NaN is larger than any number. The dtype may also be i32,
/// compared as signed integers.
void max_in_order(std::byte* out, std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype);

}  // namespace shard8::comm
