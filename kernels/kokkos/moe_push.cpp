// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "kernels/kokkos/moe_common.hpp"
#include "kernels/moe.hpp"

namespace shard8::kernels {
namespace {

constexpr int kBytes = 16;  ///< of a load or store

/// Rows of bytes, copied by one warp each.
struct RowBytes {
  std::int64_t count;
  bool fits;  ///< rows are whole packs of kBytes, on all ranks

  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void copy(const AnyTeam& team, std::byte* to, const std::byte* from) const {
    constexpr int kPacks = 4;  // a row of 2 KiB at once
    row_packs<kBytes, kPacks>(
        team, count, fits,
        [out = reinterpret_cast<std::uint8_t*>(to), in = reinterpret_cast<const std::uint8_t*>(from)](
            auto w, std::int64_t i) { w.store_lanes(out, i, w.load(in, i)); });
  }
};

RowBytes bytes_of_rows(const tensor::Tensor& from, const RankAddresses& to, int ranks) {
  const auto bytes = from.cols() * static_cast<std::int64_t>(tensor::size_of(from.dtype));
  bool fits = packs_fit<kBytes>(bytes, reinterpret_cast<const std::uint8_t*>(from.data));
  for (int r = 0; r < ranks; ++r) fits = fits && packs_fit<kBytes>(bytes, reinterpret_cast<std::uint8_t*>(to.of[r]));
  return {bytes, fits};
}

/// Calls f(team, i) for i in [0, f.workers): f works on items i, i + f.workers, and so on. Sets f.workers. There are at
/// most `most` items; how many there are is known on the device alone. `multiprocessors`: see DispatchPart.
template <class F>
void for_workers(const Exec& exec, const char* label, std::int64_t most, int multiprocessors, F f) {
  constexpr std::int64_t kTeams = 32;  // at once on a multiprocessor of a device: half of the threads it can have
  if (!kHostExec && multiprocessors > 0) {
    f.workers = std::min(most, kTeams * multiprocessors);
    return for_warp_rows_in_large_blocks(exec, label, f.workers, f);
  }
  const std::int64_t at_once = exec.concurrency() / (kHostExec ? 1 : 2 * kWarp);
  f.workers = std::min(most, std::max<std::int64_t>(at_once, 1));
  for_warp_rows(exec, label, f.workers, f);
}

struct PushRows {
  RankAddresses rows, numbers;
  DispatchTable table;
  RowBytes row;
  const std::byte* tokens;
  const std::int32_t* source;
  const float* values;  ///< may be null
  std::int64_t round;
  int first, experts;  ///< of each receiver
  std::int32_t per_token;
  std::int64_t workers = 1;

  /// Consecutive items are rows of different ranks, so that all links are used from the beginning to the end. Each rank
  /// begins with another one.
  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t worker) const {
    std::int32_t most = 0;
    for (int to = 0; to < table.ranks; ++to) {
      const std::int32_t n = until(to) - from(to);
      most = n > most ? n : most;
    }
    const auto ranks = static_cast<std::uint32_t>(table.ranks);
    const std::uint32_t items = static_cast<std::uint32_t>(most) * ranks, step = static_cast<std::uint32_t>(workers);
    for (std::uint32_t i = static_cast<std::uint32_t>(worker); i < items; i += step) {
      const auto to = static_cast<int>((i + static_cast<std::uint32_t>(table.rank) + 1) % ranks);
      const auto p = from(to) + static_cast<std::int32_t>(i / ranks);
      if (p < until(to)) push(team, to, p);
    }
  }

 private:
  /// The first sorted row of this rank for rank `to`, and the first one behind these, of the round and its part.
  KOKKOS_FORCEINLINE_FUNCTION std::int32_t from(int to) const {
    const std::int32_t of_round = table.bounds[round * table.ranks + to], of_part = begin_of(to, first);
    return of_part > of_round ? of_part : of_round;
  }
  KOKKOS_FORCEINLINE_FUNCTION std::int32_t until(int to) const {
    const std::int32_t of_round = table.bounds[(round + 1) * table.ranks + to];
    if (first + experts == table.local) return of_round;
    const std::int32_t of_part = begin_of(to, first + experts);
    return of_part < of_round ? of_part : of_round;
  }
  /// Where this rank's rows for an expert of rank `to` begin.
  KOKKOS_FORCEINLINE_FUNCTION std::int32_t begin_of(int to, int expert) const {
    return table.begin[std::int64_t{table.rank} * table.experts + to * table.local + expert];
  }
  /// Sends the sorted row p to rank `to`.
  template <class AnyTeam>
  KOKKOS_FORCEINLINE_FUNCTION void push(const AnyTeam& team, int to, std::int32_t p) const {
    const std::int32_t* const begin = table.begin + std::int64_t{table.rank} * table.experts;
    const int expert = to * table.local + last_at_most(begin + to * table.local, table.local, p);
    const std::int64_t at = std::int64_t{table.place[std::int64_t{expert} * table.ranks + table.rank]} + p -
                            begin[expert] - round * table.round_rows;
    const std::int32_t pair = source[p];
    row.copy(team, rows.of[to] + at * row.count, tokens + pair / per_token * row.count);
    if (values != nullptr) once(team, [&] { reinterpret_cast<float*>(numbers.of[to])[at] = values[pair]; });
  }
};

struct PushResults {
  RankAddresses rows, numbers;
  DispatchTable table;
  RowBytes row;
  const std::byte* results;
  const float* values;  ///< may be null
  const std::int32_t* end;
  std::int64_t round;
  int first, experts;
  std::int64_t workers = 1;

  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t worker) const {
    const std::int64_t rows_of_round = end[round], first_expert = std::int64_t{table.rank} * table.local;
    const std::int32_t* const place = table.place + first_expert * table.ranks;  // ascending: experts, then ranks
    const auto begin_of = [&](int expert) {  // where the rows of an expert begin in the round
      if (expert == table.local) return rows_of_round;
      const std::int64_t of_expert = place[std::int64_t{expert} * table.ranks] - round * table.round_rows;
      return of_expert < 0 ? 0 : (of_expert < rows_of_round ? of_expert : rows_of_round);
    };
    const std::int64_t end_of_part = begin_of(first + experts);
    for (std::int64_t at = begin_of(first) + worker; at < end_of_part; at += workers) {
      const std::int64_t position = round * table.round_rows + at;
      const int run = last_at_most(place, table.local * table.ranks, position);
      const int to = run % table.ranks;
      const std::int64_t of_run = std::int64_t{to} * table.experts + first_expert + run / table.ranks;
      const std::int64_t number = position - place[run];
      if (number >= table.counts[of_run]) continue;  // padding
      const std::int64_t p = table.begin[of_run] + number;
      row.copy(team, rows.of[to] + p * row.count, results + at * row.count);
      if (values != nullptr) once(team, [&] { reinterpret_cast<float*>(numbers.of[to])[p] = values[at]; });
    }
  }
};

/// Throws unless rows of this dtype can be sent.
void require_copied(const char* kernel, tensor::DType dtype) {
  const auto bytes = tensor::size_of(dtype);
  SHARD8_REQUIRE(bytes == 1 || bytes == 2 || bytes == 4, "{}: rows of {}; allowed are 1, 2 and 4 bytes an element",
                 kernel, tensor::name_of(dtype));
}

}  // namespace

void moe_push_rows(const Exec& exec, const RankAddresses& rows, const RankAddresses& numbers,
                   const MoeDispatch& dispatch, const DispatchPart& part, const tensor::Tensor& tokens,
                   const tensor::Tensor& source, const tensor::Tensor& values) {
  constexpr auto kName = "moe_push_rows";
  require_part(kName, dispatch, part);
  require_copied(kName, tokens.dtype);
  const std::int64_t pairs = source.count(), per_token = tokens.rows() == 0 ? 1 : pairs / tokens.rows();
  require_count(kName, "source", source, tokens.rows() * per_token);
  if (!values.empty()) require_count(kName, "values", values, pairs);
  SHARD8_REQUIRE(pairs * dispatch.ranks() <= std::numeric_limits<std::int32_t>::max(),
                 "{}: {} rows on each of {} ranks; allowed are 2^31 - 1 together", kName, pairs, dispatch.ranks());
  if (part.experts == 0) return;
  for_workers(
      exec, "shard8::kernels::moe_push_rows", pairs * dispatch.ranks(), part.multiprocessors,
      PushRows{rows, numbers, DispatchTable(dispatch), bytes_of_rows(tokens, rows, dispatch.ranks()), tokens.data,
               source.as<std::int32_t>(), values.empty() ? nullptr : values.as<float>(), part.round,
               static_cast<int>(part.first), static_cast<int>(part.experts), static_cast<std::int32_t>(per_token)});
}

void moe_push_results(const Exec& exec, const RankAddresses& rows, const RankAddresses& numbers,
                      const MoeDispatch& dispatch, const DispatchPart& part, const tensor::Tensor& results,
                      const tensor::Tensor& values) {
  constexpr auto kName = "moe_push_results";
  require_part(kName, dispatch, part);
  require_copied(kName, results.dtype);
  require_count(kName, "results", results, dispatch.round_rows * results.cols());
  if (!values.empty()) require_count(kName, "values", values, dispatch.round_rows);
  if (part.experts == 0) return;
  for_workers(exec, "shard8::kernels::moe_push_results", dispatch.round_rows, part.multiprocessors,
              PushResults{rows, numbers, DispatchTable(dispatch), bytes_of_rows(results, rows, dispatch.ranks()),
                          results.data, values.empty() ? nullptr : values.as<float>(), dispatch.end.as<std::int32_t>(),
                          part.round, static_cast<int>(part.first), static_cast<int>(part.experts)});
}

void moe_zero_padding(const Exec& exec, const tensor::Tensor& rows, const tensor::Tensor& numbers,
                      const MoeDispatch& dispatch, std::int64_t round) {
  constexpr auto kName = "moe_zero_padding";
  require_round(kName, dispatch, round);
  require_count(kName, "rows", rows, dispatch.round_rows * rows.cols());
  if (!numbers.empty()) require_count(kName, "numbers", numbers, dispatch.round_rows);
  const std::int64_t most = dispatch.multiple - 1, bytes = rows.cols() * static_cast<std::int64_t>(size_of(rows.dtype));
  auto* const matrix = reinterpret_cast<std::uint8_t*>(rows.data);
  const bool fits = packs_fit<kBytes>(bytes, matrix);
  auto* const vector = numbers.empty() ? nullptr : numbers.as<float>();
  const std::int64_t multiple = dispatch.multiple, before = round * dispatch.round_rows, all = dispatch.round_rows;
  const DispatchTable table(dispatch);
  for_warp_rows(
      exec, "shard8::kernels::moe_zero_padding", dispatch.local() * most,
      SHARD8_LAMBDA(const Team& team, std::int64_t i) {
        // The rows of each expert begin at a multiple, and rounds are whole multiples.
        const std::int64_t end = table.end_of(std::int64_t{table.rank} * table.local + i / most),
                           at = end + i % most - before;
        if (at < 0 || at >= all || end % multiple == 0 || end % multiple + i % most >= multiple) return;
        row_packs<kBytes>(team, bytes, fits, [to = matrix + at * bytes](auto w, std::int64_t k) {
          w.fill(to, k, [](int) { return std::uint8_t{0}; });
        });
        if (vector != nullptr) once(team, [&] { vector[at] = 0; });
      });
}

}  // namespace shard8::kernels
