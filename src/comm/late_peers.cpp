// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/late_peers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shard8::comm {
namespace {

/// Ranks in words: "rank 1 of the group" or "ranks 1, 2 of the group".
struct Ranks {
  std::string names;
  int count = 0;

  void add(int rank) {
    names += fmt::format("{}{}", count == 0 ? "" : ", ", rank);
    ++count;
  }
  std::string named() const { return fmt::format("{} {} of the group", count == 1 ? "rank" : "ranks", names); }
};

}  // namespace

std::string late_peers(const CallNumbers& call, std::span<const std::uint32_t> ready,
                       std::span<const std::uint32_t> done) {
  const int chunks = static_cast<std::int32_t>(call.last - call.first) + 1;
  const auto since_first = [&](std::uint32_t number) {
    return std::int64_t{static_cast<std::int32_t>(number - call.first)} + 1;
  };
  const auto given = [&](int r) {
    return static_cast<int>(std::clamp<std::int64_t>(since_first(done[static_cast<std::size_t>(r)]), 0, chunks));
  };
  // In turns, the stream of this rank waits for the first chunk that not all peers have given.
  int all_gave = chunks;
  for (int r = 0; r < call.size; ++r)
    if (r != call.rank) all_gave = std::min(all_gave, given(r));
  if (all_gave == chunks) return {};
  const int ready_for = call.in_turns ? all_gave + 1 : 1;
  const int awaited = call.in_turns ? all_gave + 1 : chunks;

  Ranks absent, late;
  std::string of_chunks;
  const auto add_chunks = [&](int r) {
    of_chunks += fmt::format("{}rank {} of the group has given {} of {} chunks", of_chunks.empty() ? "" : ", ", r,
                             given(r), chunks);
  };
  for (int r = 0; r < call.size; ++r) {
    if (r == call.rank || since_first(ready[static_cast<std::size_t>(r)]) >= ready_for) continue;
    absent.add(r);
    add_chunks(r);
  }
  // A rank that is there waits for the absent ones, so it may not have given its chunk either. It is not to blame.
  if (absent.count > 0)
    return all_gave > 0 ? of_chunks
                        : fmt::format("{} {} not come to it", absent.named(), absent.count == 1 ? "has" : "have");
  for (int r = 0; r < call.size; ++r) {
    if (r == call.rank || given(r) >= awaited) continue;
    late.add(r);
    add_chunks(r);
  }
  return chunks > 1 ? of_chunks : fmt::format("the data of {} have not arrived", late.named());
}

}  // namespace shard8::comm
