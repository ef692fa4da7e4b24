// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace shard8::comm {

/// The numbers of a call. The data of each rank may go in several chunks, and chunk i has the number `first` + i on
/// every rank. With these numbers the ranks of a group tell each other how far they are. After 2³² − 1 comes 0.
struct CallNumbers {
  int rank = 0, size = 1;  ///< this rank in the group
  std::uint32_t first = 0, last = 0;
  /// True: every rank tells for each chunk that it is ready, and begins no chunk before all ranks have given the chunk
  /// before. False: every rank tells once that it is ready, with the first number.
  bool in_turns = false;

  /// The call has chunks up to this number, at least.
  void extend_to(std::uint32_t number) {
    if (static_cast<std::int32_t>(number - last) > 0) last = number;
  }
};

/// Says which peers this rank waits for, and what of each is missing: "rank 1 of the group has not come to it". Empty
/// if nothing is missing. ready[r] and done[r] are the last numbers that rank r has told this rank: r is ready for the
/// chunk of this number, and has given the chunk of this number. A peer that itself waits for a rank that is not ready
/// is not named.
std::string late_peers(const CallNumbers& call, std::span<const std::uint32_t> ready,
                       std::span<const std::uint32_t> done);

}  // namespace shard8::comm
