// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/vocabulary.hpp"

namespace shard8::kernels {
namespace {

template <class T>
void forward(const Exec& exec, T* y, const T* table, const std::int32_t* tokens, std::int64_t count,
             std::int64_t hidden, std::int64_t first_row, std::int64_t valid_rows) {
  constexpr int kN = kPack<T>;
  const bool fits = packs_fit<kN>(hidden, y, table);
  for_rows(
      exec, "shard8::kernels::embedding_forward", count, SHARD8_LAMBDA(const Team& team, std::int64_t t) {
        const std::int64_t row = tokens[t] - first_row;
        T* out = y + t * hidden;
        if (row >= 0 && row < valid_rows) {
          const T* in = table + row * hidden;
          row_packs<kN>(team, hidden, fits, [=](auto w, std::int64_t i) {
            const auto lanes = w.load(in, i);
            w.fill(out, i, [&](int j) { return lanes.raw(j); });
          });
        } else {
          row_packs<kN>(team, hidden, fits,
                        [=](auto w, std::int64_t i) { w.fill(out, i, [](int) { return static_cast<T>(0.0f); }); });
        }
      });
}

template <class T>
void add_positions(const Exec& exec, T* x, const T* table, std::int64_t rows, std::int64_t hidden,
                   std::int64_t first_token, std::int64_t seq) {
  constexpr int kN = kPack<T>;
  const bool fits = packs_fit<kN>(hidden, x, table);
  for_rows(
      exec, "shard8::kernels::position_forward", rows, SHARD8_LAMBDA(const Team& team, std::int64_t t) {
        T* out = x + t * hidden;
        const T* in = table + (first_token + t) % seq * hidden;
        row_packs<kN>(team, hidden, fits, [=](auto w, std::int64_t i) {
          const auto a = w.load(out, i), b = w.load(in, i);
          w.store(out, i, w.each([&](int j) { return a[j] + b[j]; }));
        });
      });
}

}  // namespace

void embedding_forward(const Exec& exec, const tensor::Tensor& y, const tensor::Tensor& table,
                       const tensor::Tensor& tokens, std::int64_t first_row, std::int64_t valid_rows) {
  const auto hidden = table.cols();
  require_count("embedding_forward", "y", y, tokens.count() * hidden);
  SHARD8_REQUIRE(valid_rows <= table.rows(), "embedding_forward: {} valid rows in a table of {}", valid_rows,
                 table.rows());
  dispatch_real(y.dtype, "embedding_forward", [&]<class T>(std::type_identity<T>) {
    forward(exec, y.as<T>(), table.as<T>(), tokens.as<std::int32_t>(), tokens.count(), hidden, first_row, valid_rows);
  });
}

void position_forward(const Exec& exec, const tensor::Tensor& x, const tensor::Tensor& table, std::int64_t first_token,
                      std::int64_t seq) {
  SHARD8_REQUIRE(table.cols() == x.cols() && table.rows() >= seq,
                 "position_forward: table is {}, at least ({}, {}) needed", tensor::to_string(table.shape), seq,
                 x.cols());
  dispatch_real(x.dtype, "position_forward", [&]<class T>(std::type_identity<T>) {
    add_positions(exec, x.as<T>(), table.as<T>(), x.rows(), x.cols(), first_token, seq);
  });
}

namespace {

[[maybe_unused]] constexpr std::int64_t kColumns = 128;

/// Tokens sorted by table row: order[starts[r] … starts[r+1]) are the tokens of row r, ascending.
struct Sorted {
  std::int32_t *starts, *order;
};

/// The table row of each token; −1 for a token of another rank.
struct TableRows {
  const std::int32_t* tokens;
  std::int64_t first_row, rows;
  KOKKOS_INLINE_FUNCTION std::int64_t operator()(std::int64_t t) const {
    const std::int64_t r = tokens[t] - first_row;
    return r >= 0 && r < rows ? r : -1;
  }
};

/// A stable counting sort: its work is proportional to the tokens plus the rows.
void sort_by_one(const Exec& exec, const Sorted& to, const TableRows& row_of, std::int64_t count) {
  auto *starts = to.starts, *order = to.order;
  Kokkos::parallel_for(
      label_of("shard8::kernels::embedding_backward_sort"), Range(exec, 0, 1), SHARD8_LAMBDA(std::int64_t) {
        const std::int64_t rows = row_of.rows;
        for (std::int64_t r = 0; r <= rows; ++r) starts[r] = 0;
        for (std::int64_t t = 0; t < count; ++t) {
          const std::int64_t r = row_of(t);
          if (r >= 0) ++starts[r];
        }
        std::int32_t end = 0;
        for (std::int64_t r = 0; r < rows; ++r) {
          end += starts[r];
          starts[r] = end;
        }
        starts[rows] = end;
        for (std::int64_t t = count - 1; t >= 0; --t) {
          const std::int64_t r = row_of(t);
          if (r >= 0) order[--starts[r]] = static_cast<std::int32_t>(t);
        }
      });
}

/// Adds the rows on hosts. A task is a table row and a block of its columns.
template <class T>
void add_by_rows(const Exec& exec, float* dtable, const T* dy, const Sorted& sorted, std::int64_t rows,
                 std::int64_t hidden) {
  const std::int64_t blocks = (hidden + kColumns - 1) / kColumns;
  const auto *starts = sorted.starts, *order = sorted.order;
  for_uneven_rows(exec, "shard8::kernels::embedding_backward", rows * blocks, [=](HostTeam team, std::int64_t task) {
    const std::int64_t row = task / blocks, first = task % blocks * kColumns;
    const std::int64_t columns = first + kColumns < hidden ? kColumns : hidden - first;
    float* out = dtable + row * hidden + first;
    for (auto k = starts[row]; k < starts[row + 1]; ++k) {
      const T* in = dy + order[k] * hidden + first;
      row_for(team, columns, [=](std::int64_t i) { out[i] += static_cast<float>(in[i]); });
    }
  });
}

/// Linked lists of the tokens of each table row, on a device, in the order in which threads happen to add them. counts
/// and last: for each row that has tokens, how many it has, and the token that was added last. before: for each token,
/// the token that was added to its row before it. long_rows: the rows with more than kShort tokens; `longs` says how
/// many.
struct Chains {
  static constexpr std::int32_t kNone = -1, kShort = 8;
  std::int32_t *counts, *last, *before, *long_rows, *longs;
};
void link(const Exec& exec, const Chains& chains, const TableRows& row_of, std::int64_t count) {
  for_each(
      exec, "shard8::kernels::embedding_backward_clear", count, SHARD8_LAMBDA(std::int64_t t) {
        if (t == 0) *chains.longs = 0;
        const std::int64_t r = row_of(t);
        if (r < 0) return;
        chains.counts[r] = 0;
        chains.last[r] = Chains::kNone;
      });
  for_each(
      exec, "shard8::kernels::embedding_backward_link", count, SHARD8_LAMBDA(std::int64_t t) {
        const std::int64_t r = row_of(t);
        if (r < 0) return;
        chains.before[t] = Kokkos::atomic_exchange(&chains.last[r], static_cast<std::int32_t>(t));
        if (Kokkos::atomic_fetch_add(&chains.counts[r], 1) == Chains::kShort) {
          chains.long_rows[Kokkos::atomic_fetch_add(chains.longs, 1)] = static_cast<std::int32_t>(r);
        }
      });
}

/// A team of a device adds the gradients of a row's tokens in ascending order. The first teams take the long rows, a
/// block of columns each, and find a row's tokens by reading all tokens. Then there is one team for each token: the
/// team of the token that was added first to a short row handles the row, and finds its tokens along the list.
template <class T>
struct AddTokens {
  static constexpr int kN = kPack<T>, kThreads = 128;
  static constexpr std::int64_t kBlock = kThreads * kN, kSpan = 32 * kThreads, kTeamsOfLong = 1024;
  using Bounds = Kokkos::LaunchBounds<kThreads, sizeof(T) == 2 ? 6 : 5>;
  struct Scratch {
    std::uint32_t marks[kThreads];  ///< one bit for each of kSpan tokens
    std::int32_t list[kSpan];
  };
  float* dtable;
  const T* dy;
  Chains chains;
  TableRows row_of;
  std::int64_t count, hidden;
  bool fits;

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index, Scratch& scratch) const {
    if (index >= kTeamsOfLong) return add_short(team, index - kTeamsOfLong, scratch);
    const std::int64_t blocks = (hidden + kBlock - 1) / kBlock, tasks = *chains.longs * blocks;
    for (std::int64_t task = index; task < tasks; task += kTeamsOfLong) {
      add_long(team, chains.long_rows[task / blocks], task % blocks * kBlock, scratch);
    }
  }

 private:
  /// Handles the row of `token` if the row is short and the token was added to it first.
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void add_short(const AnyMember& team, std::int64_t token, Scratch& scratch) const {
    const std::int64_t row = row_of(token);
    if (row < 0) return;
    const std::int32_t before_it = chains.before[token], length = chains.counts[row];
    if (before_it != Chains::kNone) return;
    float* const out = dtable + row * hidden;
    if (length == 1) {
      row_packs<kN, 2>(team, hidden, fits, [=, in = dy + token * hidden](auto w, std::int64_t i) {
        const auto more = w.load(in, i);
        const auto before = w.load(out, i);
        w.store(out, i, w.each([&](int j) { return before[j] + more[j]; }));
      });
    } else if (length <= Chains::kShort) {
      sort_chain(team, scratch.list, chains.last[row], length);
      add_list(team, out, 0, hidden, scratch.list, length);
    }
  }
  /// Handles a block of columns of a long row.
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void add_long(const AnyMember& team, std::int64_t row, std::int64_t column,
                                       Scratch& scratch) const {
    const std::int64_t columns = hidden - column < kBlock ? hidden - column : kBlock;
    for (std::int64_t first = 0; first < count; first += kSpan) {
      const int found = find(team, scratch, row, first);
      add_list(team, dtable + row * hidden + column, column, columns, scratch.list, found);
    }
  }
  /// Writes the tokens of a short row to `list`, ascending. `last`: the token added last.
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void sort_chain(const AnyMember& team, std::int32_t* list, std::int32_t last,
                                         int length) const {
    std::int32_t* const linked = list + Chains::kShort;
    once(team, [&] {
      for (int n = 0; n < length; ++n, last = chains.before[last]) linked[n] = last;
    });
    team.team_barrier();
    row_for(team, length, [&](std::int64_t n) {
      int place = 0;
      for (int other = 0; other < length; ++other) place += linked[other] < linked[n] ? 1 : 0;
      list[place] = linked[n];
    });
    team.team_barrier();
  }
  /// Writes the row's tokens among the kSpan tokens from `first` on to scratch.list, ascending; returns how many.
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION int find(const AnyMember& team, Scratch& scratch, std::int64_t row, std::int64_t first) const {
    constexpr int kAtOnce = 8;
    const int rank = team.team_rank();
    scratch.marks[rank] = 0;
    team.team_barrier();
    for (std::int64_t k = rank; k < kSpan && first + k < count; k += kAtOnce * kThreads) {
      std::int64_t other[kAtOnce];
      SHARD8_UNROLL
      for (int u = 0; u < kAtOnce; ++u) {
        const std::int64_t t = first + k + u * kThreads;
        other[u] = t < count ? row_of(t) : -1;
      }
      SHARD8_UNROLL
      for (int u = 0; u < kAtOnce; ++u) {
        const std::int64_t at = k + u * kThreads;
        if (other[u] == row) Kokkos::atomic_or(&scratch.marks[at / 32], std::uint32_t{1} << (at % 32));
      }
    }
    team.team_barrier();
    int found = 0, place = 0;
    for (int word = 0; word < kThreads; ++word) {
      if (word == rank) place = found;
      found += Kokkos::popcount(scratch.marks[word]);
    }
    for (std::uint32_t marks = scratch.marks[rank]; marks != 0; marks &= marks - 1) {
      scratch.list[place++] = static_cast<std::int32_t>(first + 32 * rank + Kokkos::countr_zero(marks));
    }
    team.team_barrier();
    return found;
  }
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void add_list(const AnyMember& team, float* out, std::int64_t column, std::int64_t columns,
                                       const std::int32_t* list, int length) const {
    constexpr int kAtOnce = 8;
    if (length == 0) return;
    row_packs<kN, 1>(team, columns, fits, [=, this, from = dy + column](auto w, std::int64_t i) {
      const auto before = w.load(out, i);
      auto sum = w.each([&](int j) { return before[j]; });
      for (int n = 0; n < length; n += kAtOnce) {
        decltype(w.load(from, i)) more[kAtOnce];
        SHARD8_UNROLL
        for (int u = 0; u < kAtOnce; ++u) {
          if (n + u < length) more[u] = w.load(from + list[n + u] * hidden, i);
        }
        SHARD8_UNROLL
        for (int u = 0; u < kAtOnce; ++u) {
          if (n + u < length) sum = w.each([&](int j) { return sum[j] + more[u][j]; });
        }
      }
      w.store(out, i, sum);
    });
  }
};

template <class T>
void add_rows(const Exec& exec, float* dtable, const T* dy, const Sorted& sorted, const TableRows& row_of,
              std::int64_t count, std::int64_t hidden) {
  if constexpr (kHostExec) {
    sort_by_one(exec, sorted, row_of, count);
    add_by_rows(exec, dtable, dy, sorted, row_of.rows, hidden);
  } else {
    if (count == 0) return;
    using Add = AddTokens<T>;
    const std::int64_t rows = row_of.rows;
    auto *memory = sorted.starts, *of_tokens = memory + 2 * rows;
    const Chains chains{memory, memory + rows, of_tokens, of_tokens + count, of_tokens + 2 * count};
    link(exec, chains, row_of, count);
    const bool fits = packs_fit<Add::kN>(hidden, dtable, dy);
    for_rows_with<typename Add::Scratch, typename Add::Bounds>(
        exec, "shard8::kernels::embedding_backward", Add::kTeamsOfLong + count,
        Add{dtable, dy, chains, row_of, count, hidden, fits}, Add::kThreads);
  }
}

template <class T>
void add_position_gradients(const Exec& exec, float* dtable, const T* dx, std::int64_t rows, std::int64_t hidden,
                            std::int64_t first_token, std::int64_t seq) {
  constexpr int kN = kPack<float>;
  const bool fits = packs_fit<kN>(hidden, dtable, dx);
  for_rows(
      exec, "shard8::kernels::position_backward", seq < rows ? seq : rows,
      SHARD8_LAMBDA(const Team& team, std::int64_t first) {
        float* out = dtable + (first_token + first) % seq * hidden;
        for (std::int64_t t = first; t < rows; t += seq) {
          const T* in = dx + t * hidden;
          row_packs<kN>(team, hidden, fits, [=](auto w, std::int64_t i) {
            const auto a = w.load(out, i);
            const auto b = w.load(in, i);
            w.store(out, i, w.each([&](int j) { return a[j] + b[j]; }));
          });
        }
      });
}

}  // namespace

std::size_t embedding_workspace_bytes(std::int64_t tokens, std::int64_t local_rows, bool device) {
  return static_cast<std::size_t>((device ? 2 : 1) * (tokens + local_rows) + 1) * sizeof(std::int32_t);
}

void embedding_backward(const Exec& exec, const tensor::Tensor& dtable, const tensor::Tensor& dy,
                        const tensor::Tensor& tokens, std::int64_t first_row, std::int64_t valid_rows,
                        const tensor::Tensor& workspace) {
  const auto count = tokens.count(), hidden = dtable.cols();
  require_count("embedding_backward", "dy", dy, count * hidden);
  SHARD8_REQUIRE(valid_rows <= dtable.rows(), "embedding_backward: {} valid rows in a table of {}", valid_rows,
                 dtable.rows());
  require_workspace("embedding_backward", workspace, embedding_workspace_bytes(count, valid_rows));
  auto* starts = reinterpret_cast<std::int32_t*>(workspace.as<std::uint8_t>());
  auto* order = starts + valid_rows + 1;
  const Sorted sorted{starts, order};
  const TableRows row_of{tokens.as<std::int32_t>(), first_row, valid_rows};
  dispatch_real(dy.dtype, "embedding_backward", [&]<class T>(std::type_identity<T>) {
    add_rows(exec, dtable.as<float>(), dy.as<T>(), sorted, row_of, count, hidden);
  });
}

void position_backward(const Exec& exec, const tensor::Tensor& dtable, const tensor::Tensor& dx,
                       std::int64_t first_token, std::int64_t seq) {
  SHARD8_REQUIRE(dtable.cols() == dx.cols() && dtable.rows() >= seq,
                 "position_backward: dtable is {}, at least ({}, {}) needed", tensor::to_string(dtable.shape), seq,
                 dx.cols());
  dispatch_real(dx.dtype, "position_backward", [&]<class T>(std::type_identity<T>) {
    add_position_gradients(exec, dtable.as<float>(), dx.as<T>(), dx.rows(), dx.cols(), first_token, seq);
  });
}

}  // namespace shard8::kernels
