// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shard8::checkpoint {

/// How elements that a checkpoint holds become those that a run keeps, where the deck asks for another dtype.
enum class Conversion : std::uint8_t {
  none,        ///< the same dtype
  widen,       ///< bf16 to fp32, exact
  round,       ///< fp32 to bf16, to nearest even
  join,        ///< a bf16 master and its i16 remainder to the fp32 master, exact (kernels::join_master)
  upper_half,  ///< an fp32 master to the bf16 half of kernels::split_master
  lower_half,  ///< an fp32 master to the i16 remainder of kernels::split_master
};

/// Converts `count` elements. `remainder` is read by `join` alone. Not for Conversion::none.
void convert(Conversion how, std::byte* out, const std::byte* in, const std::byte* remainder, std::int64_t count);

}  // namespace shard8::checkpoint
