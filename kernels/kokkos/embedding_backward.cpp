// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

[[maybe_unused]] constexpr std::int64_t kColumns = 128;

/// Where the tokens of each table row are: order[starts[r] … starts[r+1]) are those of row r, ascending.
struct Sorted {
  std::int32_t *starts, *order;
  std::int32_t* unsorted;  ///< (T) on devices
};

/// The table row of each token, −1 of another rank's.
struct TableRows {
  const std::int32_t* tokens;
  std::int64_t first_row, rows;
  KOKKOS_INLINE_FUNCTION std::int64_t operator()(std::int64_t t) const {
    const std::int64_t r = tokens[t] - first_row;
    return r >= 0 && r < rows ? r : -1;
  }
};

/// A stable counting sort, for work in proportion to one pass over the tokens and the rows.
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

/// Of how many there are in a row, how many there are in those before it.
struct CountsToStarts {
  using value_type = std::int32_t;
  std::int32_t* counts;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t r, std::int32_t& sum, bool last) const {
    const std::int32_t here = counts[r];
    if (last) counts[r] = sum;
    sum += here;
  }
};

/// The same by many threads: each token takes a place in its row as it comes, then counts those of
/// its row that are before it.
void sort_by_many(const Exec& exec, const Sorted& to, const TableRows& row_of, std::int64_t count) {
  auto *starts = to.starts, *order = to.order, *unsorted = to.unsorted;
  const std::int64_t rows = row_of.rows;
  for_each(
      exec, "shard8::kernels::embedding_backward_clear", rows + 1, SHARD8_LAMBDA(std::int64_t r) { starts[r] = 0; });
  for_each(
      exec, "shard8::kernels::embedding_backward_count", count, SHARD8_LAMBDA(std::int64_t t) {
        const std::int64_t r = row_of(t);
        if (r >= 0) order[t] = Kokkos::atomic_fetch_add(&starts[r], 1);
      });
  Kokkos::parallel_scan(label_of("shard8::kernels::embedding_backward_starts"), Range(exec, 0, rows + 1),
                        CountsToStarts{starts});
  for_each(
      exec, "shard8::kernels::embedding_backward_place", count, SHARD8_LAMBDA(std::int64_t t) {
        const std::int64_t r = row_of(t);
        if (r >= 0) unsorted[starts[r] + order[t]] = static_cast<std::int32_t>(t);
      });
  for_each(
      exec, "shard8::kernels::embedding_backward_sort", count, SHARD8_LAMBDA(std::int64_t t) {
        const std::int64_t r = row_of(t);
        if (r < 0) return;
        std::int32_t before = 0;
        for (auto k = starts[r]; k < starts[r + 1]; ++k) before += unsorted[k] < t ? 1 : 0;
        order[starts[r] + before] = static_cast<std::int32_t>(t);
      });
}

/// A host's task: a table row and a block of its columns.
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

/// A device's team: the first of the tokens of a table row, and a block of columns; the others of that
/// row have nothing to do.
template <class T>
struct AddTokens {
  static constexpr int kN = kPack<T>, kThreads = 64;
  static constexpr std::int64_t kBlock = kThreads * kN;
  float* dtable;
  const T* dy;
  Sorted sorted;
  TableRows row_of;
  std::int64_t hidden, blocks;
  bool fits;

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t task) const {
    const std::int64_t place = task / blocks, first = (task - place * blocks) * kBlock;
    const auto *starts = sorted.starts, *order = sorted.order;
    if (place >= starts[row_of.rows]) return;
    const std::int64_t row = row_of(order[place]);
    if (starts[row] != place) return;
    const std::int32_t end = starts[row + 1];
    float* const out = dtable + row * hidden + first;
    const T* const in = dy + first;
    row_packs<kN, 1>(team, hidden - first < kBlock ? hidden - first : kBlock, fits, [=, *this](auto w, std::int64_t i) {
      const auto before = w.load(out, i);
      auto sum = w.each([&](int j) { return before[j]; });
      for (auto k = static_cast<std::int32_t>(place); k < end; ++k) {
        const auto more = w.load(in + order[k] * hidden, i);
        sum = w.each([&](int j) { return sum[j] + more[j]; });
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
    using Add = AddTokens<T>;
    sort_by_many(exec, sorted, row_of, count);
    const std::int64_t blocks = (hidden + Add::kBlock - 1) / Add::kBlock;
    const bool fits = packs_fit<Add::kN>(hidden, dtable, dy);
    for_rows(exec, "shard8::kernels::embedding_backward", count * blocks,
             Add{dtable, dy, sorted, row_of, hidden, blocks, fits}, Add::kThreads);
  }
}

template <class T>
void add_positions(const Exec& exec, float* dtable, const T* dx, std::int64_t rows, std::int64_t hidden,
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

std::size_t embedding_workspace_bytes(std::int64_t tokens, std::int64_t local_rows) {
  return static_cast<std::size_t>((kHostExec ? 1 : 2) * tokens + local_rows + 1) * sizeof(std::int32_t);
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
  const Sorted sorted{starts, order, order + count};
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
    add_positions(exec, dtable.as<float>(), dx.as<T>(), dx.rows(), dx.cols(), first_token, seq);
  });
}

}  // namespace shard8::kernels
