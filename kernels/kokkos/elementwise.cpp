// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/row_sums.hpp"

namespace shard8::kernels {
namespace {

template <class T>
void residual(const Exec& exec, T* out, const T* x, const T* y, std::int64_t count) {
  constexpr int kN = kPack<T>;
  const bool fits = packs_fit<kN>(kN, out, x, y);
  for_spans(
      exec, "shard8::kernels::residual_add", count,
      SHARD8_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        row_packs<kN>(team, n, fits, [to = out + first, from = x + first, more = y + first](auto w, std::int64_t i) {
          const auto a = w.load(from, i), b = w.load(more, i);
          w.store(to, i, w.each([&](int j) { return a[j] + b[j]; }));
        });
      });
}

template <class T>
void residual(const Exec& exec, T* out, const T* x, const T* y, const T* bias, std::int64_t rows, std::int64_t cols) {
  constexpr int kN = kPack<T>;
  const bool fits = packs_fit<kN>(cols, out, x, y, bias);
  for_rows(
      exec, "shard8::kernels::residual_add", rows, SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        row_packs<kN>(team, cols, fits,
                      [=, to = out + row * cols, from = x + row * cols, more = y + row * cols](auto w, std::int64_t i) {
                        const auto a = w.load(from, i), b = w.load(more, i), c = w.load(bias, i);
                        w.store(to, i, w.each([&](int j) { return a[j] + (b[j] + c[j]); }));
                      });
      });
}

template <class T>
void add(const Exec& exec, float* sum, const T* x, std::int64_t count) {
  constexpr int kN = kPack<float>;
  const bool fits = packs_fit<kN>(kN, sum, x);
  for_spans(
      exec, "shard8::kernels::add_gradients", count,
      SHARD8_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        row_packs<kN>(team, n, fits, [to = sum + first, from = x + first](auto w, std::int64_t i) {
          const auto a = w.load(to, i);
          const auto b = w.load(from, i);
          w.store(to, i, w.each([&](int j) { return a[j] + b[j]; }));
        });
      });
}

template <class T>
void sum(const Exec& exec, const tensor::SumOfPartials& x) {
  constexpr int kN = kPack<T>;
  Kokkos::Array<const T*, tensor::PartialSums::kMost> of{};
  const int partial_sums = x.partial_sums.count();
  T* const out = x.sum.as<T>();
  bool fits = packs_fit<kN>(kN, out);
  for (int k = 0; k < partial_sums; ++k) {
    of[static_cast<std::size_t>(k)] = x.partial_sums[k].as<T>();
    fits = fits && packs_fit<kN>(kN, of[static_cast<std::size_t>(k)]);
  }
  for_spans(
      exec, "shard8::kernels::make_sum", x.sum.count(),
      SHARD8_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        row_packs<kN>(team, n, fits, [=](auto w, std::int64_t i) {
          decltype(w.load(of[0], i)) in[tensor::PartialSums::kMost] = {};
          for (int k = 0; k < partial_sums; ++k) in[k] = w.load(of[k] + first, i);
          w.store(out + first, i, w.each([&](int j) {
            float total = in[0][j];
            for (int k = 1; k < partial_sums; ++k) total += in[k][j];
            return total;
          }));
        });
      });
}

/// The column sums of a chunk's rows. On a device a team takes kColumns of the columns and loads several rows ahead.
template <class T>
struct ColumnSums {
  static constexpr std::int64_t kColumns = kTeamThreads * kPack<T>;
  float* partial;
  const T* dy;
  RowChunks chunks;
  std::int64_t hidden;
  bool fits;

  void operator()(const HostTeam& team, std::int64_t chunk) const {
    float* sums = partial + chunk * hidden;
    row_for(team, hidden, [=](std::int64_t i) { sums[i] = 0; });
    for (auto row = chunks.first(chunk); row < chunks.last(chunk); ++row) {
      const T* in = dy + row * hidden;
      row_for(team, hidden, [=](std::int64_t i) { sums[i] += static_cast<float>(in[i]); });
    }
  }
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index) const {
    constexpr int kN = kPack<T>, kAtOnce = 8;
    const std::int64_t parts = teams_across(), chunk = index / parts, start = (index - chunk * parts) * kColumns;
    const T* const from = dy + start;
    float* const to = partial + chunk * hidden + start;
    const std::int64_t columns = hidden - start < kColumns ? hidden - start : kColumns, last = chunks.last(chunk);
    row_packs<kN, 1>(team, columns, fits, [=, *this](auto w, std::int64_t i) {
      auto sum = w.each([](int) { return 0.0f; });
      for (auto row = chunks.first(chunk); row < last; row += kAtOnce) {
        decltype(w.load(from, i)) in[kAtOnce];
        SHARD8_UNROLL
        for (int u = 0; u < kAtOnce; ++u) {
          in[u] = {};
          if (row + u < last) in[u] = w.load(from + (row + u) * hidden, i);
        }
        SHARD8_UNROLL
        for (int u = 0; u < kAtOnce; ++u) sum = w.each([&](int j) { return sum[j] + in[u][j]; });
      }
      w.store(to, i, sum);
    });
  }
  KOKKOS_INLINE_FUNCTION std::int64_t teams_across() const { return (hidden + kColumns - 1) / kColumns; }
};

/// sums += the column sums of all rows, on a device. A team takes 64 bytes of each row. A few neighbouring threads
/// share a row, each group of threads takes another row, and several rows of each group are loaded ahead.
template <class T>
struct SliceSums {
  static constexpr int kN = kPack<T>, kAcross = 4, kThreads = 1024, kGroups = kThreads / kAcross, kAtOnce = 8;
  static constexpr int kColumns = kAcross * kN, kParts = kThreads / kColumns, kGroupsOfPart = kGroups / kParts;
  using Bounds = Kokkos::LaunchBounds<kThreads, 1>;
  struct alignas(16) Scratch {
    float group[kGroups][kColumns], part[kParts][kColumns];
  };

  float* sums;
  const T* dy;
  std::int64_t rows, hidden;

  /// Whether the columns make whole slices, and enough of them to fill a device.
  static bool has(std::int64_t hidden) { return hidden % kColumns == 0 && hidden / kColumns >= 64; }

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t slice, Scratch& scratch) const {
    const int rank = team.team_rank(), group = rank / kAcross, across = rank % kAcross * kN;
    const Packed<kN, 1> w{0};
    const T* const from = dy + slice * kColumns + across;
    auto sum = w.each([](int) { return 0.0f; });
    for (std::int64_t row = group; row < rows; row += kAtOnce * kGroups) {
      decltype(w.load(from, 0)) in[kAtOnce];
      SHARD8_UNROLL
      for (int u = 0; u < kAtOnce; ++u) {
        in[u] = {};
        if (row + u * kGroups < rows) in[u] = w.load(from, (row + u * kGroups) * hidden);
      }
      SHARD8_UNROLL
      for (int u = 0; u < kAtOnce; ++u) sum = w.each([&](int j) { return sum[j] + in[u][j]; });
    }
    w.store(scratch.group[group], across, sum);
    team.team_barrier();
    const int part = rank / kColumns, column = rank % kColumns;
    float total = 0;
    SHARD8_UNROLL
    for (int g = 0; g < kGroupsOfPart; ++g) total += scratch.group[part * kGroupsOfPart + g][column];
    scratch.part[part][column] = total;
    team.team_barrier();
    if (rank >= kColumns) return;
    total = 0;
    SHARD8_UNROLL
    for (int p = 0; p < kParts; ++p) total += scratch.part[p][column];
    sums[slice * kColumns + column] += total;
  }
};

/// Runs SliceSums on a device where it fits, and returns whether it ran.
template <class T>
bool slice_sums(const Exec& exec, float* sums, const T* dy, std::int64_t rows, std::int64_t hidden) {
  if constexpr (kHostExec) {
    return false;
  } else {
    using Sums = SliceSums<T>;
    if (!Sums::has(hidden) || !packs_fit<Sums::kN>(hidden, dy)) return false;
    for_rows_with<typename Sums::Scratch, typename Sums::Bounds>(
        exec, "shard8::kernels::bias_gradient", hidden / Sums::kColumns, Sums{sums, dy, rows, hidden}, Sums::kThreads);
    return true;
  }
}

template <class T>
void column_sums(const Exec& exec, float* partial, const T* dy, const RowChunks& chunks, std::int64_t hidden) {
  const bool fits = packs_fit<kPack<T>>(hidden, partial, dy);
  const ColumnSums<T> sums{partial, dy, chunks, hidden, fits};
  for_rows(exec, "shard8::kernels::bias_gradient", chunks.count() * (kHostExec ? 1 : sums.teams_across()), sums);
}

}  // namespace

void residual_add(const Exec& exec, const tensor::Tensor& out, const tensor::Tensor& x, const tensor::Tensor& y,
                  const tensor::Tensor& bias) {
  require_count("residual_add", "out", out, x.count());
  require_count("residual_add", "y", y, x.count());
  if (!bias.empty()) require_count("residual_add", "bias", bias, x.cols());
  dispatch_real(x.dtype, "residual_add", [&]<class T>(std::type_identity<T>) {
    if (bias.empty()) {
      residual(exec, out.as<T>(), x.as<T>(), y.as<T>(), x.count());
    } else {
      residual(exec, out.as<T>(), x.as<T>(), y.as<T>(), bias.as<T>(), x.rows(), x.cols());
    }
  });
}

void add_gradients(const Exec& exec, const tensor::Tensor& sum, const tensor::Tensor& x) {
  require_count("add_gradients", "x", x, sum.count());
  dispatch_real(x.dtype, "add_gradients",
                [&]<class T>(std::type_identity<T>) { add(exec, sum.as<float>(), x.as<T>(), sum.count()); });
}

void make_sum(const Exec& exec, const tensor::SumOfPartials& x) {
  if (x.made()) return;
  constexpr auto kName = "make_sum";
  for (int k = 0; k < x.partial_sums.count(); ++k)
    require_count(kName, "a partial sum", x.partial_sums[k], x.sum.count());
  dispatch_real(x.sum.dtype, kName, [&]<class T>(std::type_identity<T>) { sum<T>(exec, x); });
}

void bias_gradient(const Exec& exec, const tensor::Tensor& dbias, const tensor::Tensor& dy,
                   const tensor::Tensor& workspace) {
  const auto rows = dy.rows(), hidden = dy.cols();
  require_count("bias_gradient", "dbias", dbias, hidden);
  require_workspace("bias_gradient", workspace, norm_workspace_bytes(rows, hidden));
  const auto chunks = RowChunks::of(rows);
  auto* partial = reinterpret_cast<float*>(workspace.as<std::uint8_t>());
  dispatch_real(dy.dtype, "bias_gradient", [&]<class T>(std::type_identity<T>) {
    if (slice_sums(exec, dbias.as<float>(), dy.as<T>(), rows, hidden)) return;
    column_sums(exec, partial, dy.as<T>(), chunks, hidden);
    add_partial_sums(exec, "shard8::kernels::bias_gradient_total", dbias.as<float>(), partial, chunks.count(), hidden);
  });
}

}  // namespace shard8::kernels
