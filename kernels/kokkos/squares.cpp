// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/rounding.hpp"
#include "kernels/kokkos/square_segments.hpp"

namespace shard8::kernels {
namespace {

using base::ExactSum;

std::uint64_t* require_exact_total(const char* kernel, const tensor::Tensor& total, std::int64_t terms) {
  SHARD8_REQUIRE(total.bytes() == kExactTotalBytes, "{}: total of {} bytes; {}, an exact sum, are needed", kernel,
                 total.bytes(), kExactTotalBytes);
  SHARD8_REQUIRE(terms <= ExactSum::kMostTerms, "{}: {} terms; an exact sum takes at most {}", kernel, terms,
                 ExactSum::kMostTerms);
  return words_of<std::uint64_t>(total);
}

const double* require_parts(const char* kernel, const tensor::Tensor& parts, std::int64_t count) {
  SHARD8_REQUIRE(parts.bytes() == static_cast<std::size_t>(count) * sizeof(double),
                 "{}: parts of {} bytes are not {} doubles", kernel, parts.bytes(), count);
  return words_of<double>(parts);
}

/// The squares of segments, as terms of a sum.
struct SegmentTerms {
  const float* x;
  SquareSegments segments;
  bool fits;

  static SegmentTerms of(const tensor::Tensor& x) {
    const float* const values = x.as<float>();
    return {values, SquareSegments::of(x), packs_fit<kPack<float>>(x.cols(), values)};
  }
  std::int64_t count() const { return segments.count(); }

#if defined(__CUDACC__)
  /// Terms of a warp, at most one for each lane.
  __host__ __device__ int of_warp() const { return segments.of_warp(4 * kSquareSegment); }
  /// Term first + lane, 0 beyond the warp's terms.
  __device__ double of_lane(std::int64_t first, int lane) const {
    if (segments.by_lanes()) {
      const std::int64_t s = first + lane;
      return s < segments.count() ? segment_squares(x + segments.first(s), segments.cols) : 0.0;
    }
    double mine = 0;
    for (int k = 0; k < of_warp() && first + k < segments.count(); ++k) {
      const double sum = by_warp(x + segments.first(first + k), segments.length(first + k), lane);
      if (lane == k) mine = sum;
    }
    return mine;
  }
  __device__ double by_warp(const float* from, std::int64_t n, int lane) const {
    constexpr int kN = kPack<float>, kPacks = static_cast<int>(kSquareSegment) / (kWarp * kN);
    double sum = 0;
    const auto add = [&](auto w, const auto& v) {
      SHARD8_UNROLL
      for (int j = 0; j < decltype(w)::kCount; ++j) sum += static_cast<double>(v[j]) * static_cast<double>(v[j]);
    };
    if (fits && n == kSquareSegment) {  // all loads first
      const Packed<kN, kPacks> w{kWarp * kN};
      add(w, w.load(from, lane * kN));
    } else {
      warp_packs(lane, n, fits, [&](auto w, std::int64_t i) { add(w, w.load(from, i)); });
    }
    return warp_sum(sum);
  }
#else
  double one(std::int64_t s) const { return segment_squares(x + segments.first(s), segments.length(s)); }
  /// Terms that a host thread adds at once: so much work that the words of a sum cost nothing compared with the
  /// additions.
  std::int64_t of_block() const {
    return std::clamp<std::int64_t>((std::int64_t{1} << 16) / segments.longest(), 1, 4096);
  }
#endif
};

/// The inverse scales of a matrix, in rows of `across` scales. Row r of the matrix has the row of scales
/// min((first_row + r) / block_rows, last), in which a scale is that of 2^shift neighbours.
template <class Inverse>
struct RowScales {
  static constexpr int kWhole = 62;  ///< a shift with which all elements of a row have the first scale

  const Inverse* inverses;
  std::int64_t first_row, block_rows, last, across;
  int shift;

  KOKKOS_INLINE_FUNCTION const Inverse* of_row(std::int64_t row) const {
    const std::int64_t block = (first_row + row) / block_rows;
    return inverses + (block < last ? block : last) * across;
  }
  /// The square of the scale of column c, in double. `of_row`: its row of scales.
  KOKKOS_INLINE_FUNCTION double squared(const Inverse* of_row, std::int64_t c) const {
    const auto scale = static_cast<double>(static_cast<float>(of_row[c >> shift]));
    return scale * scale;
  }
};

/// An FP8 matrix times its inverse scales.
template <class Q, class Inverse>
struct ScaledRows {
  const Q* x;
  std::int64_t rows, cols;
  RowScales<Inverse> scales;

  /// Σ (x·scale_inv)² over columns [begin, end) of a row, each of which has its own scale.
  KOKKOS_INLINE_FUNCTION double of_columns(const Q* row, const Inverse* inverses, std::int64_t begin,
                                           std::int64_t end) const {
    double sum = 0;
    for (std::int64_t c = begin; c < end; ++c) {
      const auto value = static_cast<double>(static_cast<float>(row[c]));
      sum += value * value * scales.squared(inverses, c);
    }
    return sum;
  }
};

#if defined(__CUDACC__)
/// Adds the squares of rows to an exact sum, each row as one term. A team's warps take its rows in turns.
template <class Q, class Inverse>
struct AddScaledRows {
  static constexpr int kN = kPack<Q>;
  struct Scratch {
    std::uint64_t words[ExactSum::kWords];
  };
  ScaledRows<Q, Inverse> matrix;
  std::int64_t of_team;  ///< rows
  bool fits;
  std::uint64_t* total;

  template <class AnyMember>
  __device__ void operator()(const AnyMember& team, std::int64_t index, Scratch& scratch) const {
    row_for(team, ExactSum::kWords, [&](std::int64_t i) { scratch.words[i] = 0; });
    team.team_barrier();
    const int lane = team.team_rank() % kWarp, warp = team.team_rank() / kWarp, warps = team.team_size() / kWarp;
    const std::int64_t end = (index + 1) * of_team < matrix.rows ? (index + 1) * of_team : matrix.rows;
    for (std::int64_t row = index * of_team + warp; row < end; row += warps) {
      const double sum = warp_sum(of_lane(row, lane));
      const ExactSum::Term term = ExactSum::term(sum);
      if (lane < 3 && sum != 0.0)
        atomicAdd(reinterpret_cast<unsigned long long*>(scratch.words + term.word + lane),
                  static_cast<unsigned long long>(lane == 0 ? term.amount[0]
                                                            : (lane == 1 ? term.amount[1] : term.amount[2])));
    }
    team.team_barrier();
    row_for(team, ExactSum::kWords, [&](std::int64_t i) {
      const auto amount = static_cast<unsigned long long>(scratch.words[i]);
      if (amount != 0) atomicAdd(reinterpret_cast<unsigned long long*>(total + i), amount);
    });
  }
  /// The packs of a row that a lane adds: each 32nd.
  __device__ double of_lane(std::int64_t row, int lane) const {
    const Q* const from = matrix.x + row * matrix.cols;
    const Inverse* const inverses = matrix.scales.of_row(row);
    double sum = 0;
    std::int64_t c = lane * kN;
    if (matrix.scales.shift == 0) {
      for (; c < matrix.cols; c += kWarp * kN)
        sum += matrix.of_columns(from, inverses, c, c + kN < matrix.cols ? c + kN : matrix.cols);
      return sum;
    }
    constexpr int kAtOnce = 4, kStride = kWarp * kN;
    for (; fits && c + (kAtOnce - 1) * kStride < matrix.cols; c += kAtOnce * kStride) {
      Words<kN> codes[kAtOnce];
      SHARD8_UNROLL
      for (int u = 0; u < kAtOnce; ++u) codes[u] = load_words<kN>(from + c + u * kStride);
      SHARD8_UNROLL
      for (int u = 0; u < kAtOnce; ++u) {
        float values[kN];
        decode_numbers<Q>(values, codes[u]);
        sum += of_pack(values, inverses, c + u * kStride);
      }
    }
    for (; c < matrix.cols; c += kStride) {
      float values[kN] = {};
      if (fits) {
        decode_numbers<Q>(values, load_words<kN>(from + c));
      } else {
        for (int k = 0; k < kN && c + k < matrix.cols; ++k) values[k] = static_cast<float>(from[c + k]);
      }
      sum += of_pack(values, inverses, c);
    }
    return sum;
  }
  __device__ double of_pack(const float (&values)[kN], const Inverse* inverses, std::int64_t c) const {
    float squares = 0;
    SHARD8_UNROLL
    for (int k = 0; k < kN; ++k) squares += values[k] * values[k];
    return static_cast<double>(squares) * matrix.scales.squared(inverses, c);
  }
};
#else
/// The squares of rows, as terms of a sum.
template <class Q, class Inverse>
struct ScaledTerms {
  ScaledRows<Q, Inverse> matrix;

  std::int64_t count() const { return matrix.rows; }
  double one(std::int64_t row) const {
    const Q* const from = matrix.x + row * matrix.cols;
    const Inverse* const inverses = matrix.scales.of_row(row);
    const int shift = matrix.scales.shift;
    if (shift == 0) return matrix.of_columns(from, inverses, 0, matrix.cols);
    double sum = 0;
    for (std::int64_t c = 0, next = 0; c < matrix.cols; c = next) {
      next = std::min(matrix.cols, ((c >> shift) + 1) << shift);
      double squares = 0;
      for (std::int64_t k = c; k < next; ++k) squares += squares_of_codes()[from[k].bits];
      sum += squares * matrix.scales.squared(inverses, c);
    }
    return sum;
  }
  static const std::array<double, 256>& squares_of_codes() {
    static const std::array<double, 256> kSquares = [] {
      std::array<double, 256> squares{};
      for (std::size_t code = 0; code < squares.size(); ++code) {
        Q q;
        q.bits = static_cast<std::uint8_t>(code);
        const auto value = static_cast<double>(static_cast<float>(q));
        squares[code] = value * value;
      }
      return squares;
    }();
    return kSquares;
  }
  std::int64_t of_block() const {
    return std::clamp<std::int64_t>((std::int64_t{1} << 16) / std::max<std::int64_t>(matrix.cols, 1), 1, 4096);
  }
};
#endif

/// Doubles in memory, as terms of a sum.
struct PartTerms {
  const double* parts;
  std::int64_t n;

  std::int64_t count() const { return n; }
#if defined(__CUDACC__)
  __host__ __device__ int of_warp() const { return kWarp; }
  __device__ double of_lane(std::int64_t first, int lane) const { return first + lane < n ? parts[first + lane] : 0.0; }
#else
  double one(std::int64_t i) const { return parts[i]; }
  std::int64_t of_block() const { return 4096; }
#endif
};

#if defined(__CUDACC__)
/// Adds the terms of a team to an exact sum: first to words that the team shares, because atomic additions to the
/// total of the whole tensor would wait for each other.
template <class Terms>
struct AddExactly {
  struct Scratch {
    std::uint64_t words[ExactSum::kWords];
  };
  Terms terms;
  std::uint64_t* total;

  template <class AnyMember>
  __device__ void operator()(const AnyMember& team, std::int64_t index, Scratch& scratch) const {
    row_for(team, ExactSum::kWords, [&](std::int64_t i) { scratch.words[i] = 0; });
    team.team_barrier();
    const int lane = team.team_rank() % kWarp, warp = team.team_rank() / kWarp, warps = team.team_size() / kWarp;
    const std::int64_t first = (index * warps + warp) * terms.of_warp();
    warp_add_exactly(scratch.words, lane, terms.of_lane(first, lane));
    team.team_barrier();
    row_for(team, ExactSum::kWords, [&](std::int64_t i) {
      const auto amount = static_cast<unsigned long long>(scratch.words[i]);
      if (amount != 0) atomicAdd(reinterpret_cast<unsigned long long*>(total + i), amount);
    });
  }
};
#endif

template <class Terms>
void add_exactly(const Exec& exec, const char* label, std::uint64_t* total, const Terms& terms) {
  const std::int64_t count = terms.count();
  if (count == 0) return;
#if defined(__CUDACC__)
  const std::int64_t of_team = static_cast<std::int64_t>(kTeamThreads / kWarp) * terms.of_warp();
  using Add = AddExactly<Terms>;
  for_rows_with<typename Add::Scratch>(exec, label, (count + of_team - 1) / of_team, Add{terms, total});
#else
  const std::int64_t block = terms.of_block(), blocks = (count + block - 1) / block;
  Kokkos::parallel_for(label_of(label), Range(exec, 0, blocks), [=](std::int64_t b) {
    ExactSum sum;
    const std::int64_t last = std::min((b + 1) * block, count);
    for (std::int64_t s = b * block; s < last; ++s) sum.add(terms.one(s));
    for (std::size_t i = 0; i < ExactSum::kWords; ++i)
      if (sum.words()[i] != 0) Kokkos::atomic_add(total + i, sum.words()[i]);
  });
#endif
}

}  // namespace

void sum_of_squares(const Exec& exec, const tensor::Tensor& total, const tensor::Tensor& x) {
  const auto terms = SegmentTerms::of(x);
  add_exactly(exec, "shard8::kernels::sum_of_squares", require_exact_total("sum_of_squares", total, terms.count()),
              terms);
}

void sum_of_scaled_squares(const Exec& exec, const tensor::Tensor& total, const tensor::Operand& x,
                           std::int64_t rows_of_scale, std::int64_t first_row) {
  constexpr auto kName = "sum_of_scaled_squares";
  constexpr auto kLabel = "shard8::kernels::sum_of_scaled_squares";
  using tensor::Scaling;
  SHARD8_REQUIRE(x.scaling != Scaling::none && !x.transposed && x.matrix_scale_inv == nullptr,
                 "{}: a plain or transposed matrix, or one with two levels of scales; one with scales, not transposed, "
                 "is needed",
                 kName);
  const bool whole = x.scaling == Scaling::tensor;
  if (!whole)
    require_count(kName, "scale_inv", x.scale_inv, tensor::scale_shape(x.scaling, x.rows(), x.cols()).count());
  SHARD8_REQUIRE(!whole || (x.scale_inv.count() >= 1 && (rows_of_scale > 0 || x.scale_inv.count() == 1)),
                 "{}: {} scales of {} rows each", kName, x.scale_inv.count(), rows_of_scale);
  const auto add = [&]<class Q, class Inverse>(std::type_identity<Q>, std::type_identity<Inverse>) {
    RowScales<Inverse> scales{.inverses = x.scale_inv.as<Inverse>(),
                              .first_row = whole ? first_row : 0,
                              .block_rows = whole ? rows_of_scale : tensor::block_rows(x.scaling),
                              .last = x.scale_inv.count() - 1,
                              .across = 1,
                              .shift = RowScales<Inverse>::kWhole};
    if (scales.block_rows == 0) scales.block_rows = std::max<std::int64_t>(x.rows(), 1);
    if (!whole) {
      const auto across = static_cast<std::uint64_t>(tensor::block_cols(x.scaling));
      scales.shift = std::countr_zero(across);  // of 1, 32 or 128
      scales.across = x.cols() >> scales.shift;
      scales.last = x.rows() / scales.block_rows - 1;
    }
    const ScaledRows<Q, Inverse> matrix{x.data.as<Q>(), x.rows(), x.cols(), scales};
    std::uint64_t* const words = require_exact_total(kName, total, matrix.rows);
    if (x.data.count() == 0) return;
#if defined(__CUDACC__)
    // Chosen: as many teams as a device runs at once, but at least a row for each warp.
    constexpr std::int64_t kTeams = 1024, kWarps = kTeamThreads / kWarp;
    const std::int64_t of_team = std::max(kWarps, (matrix.rows + kTeams - 1) / kTeams);
    using Add = AddScaledRows<Q, Inverse>;
    for_rows_with<typename Add::Scratch>(exec, kLabel, (matrix.rows + of_team - 1) / of_team,
                                         Add{matrix, of_team, packs_fit<kPack<Q>>(matrix.cols, matrix.x), words});
#else
    add_exactly(exec, kLabel, words, ScaledTerms<Q, Inverse>{matrix});
#endif
  };
  dispatch_float8(x.data.dtype, kName, [&]<class Q>(std::type_identity<Q> q) {
    if (!whole && tensor::scale_dtype(x.scaling) == tensor::DType::e8m0)
      add(q, std::type_identity<tensor::E8M0>{});
    else
      add(q, std::type_identity<float>{});
  });
}

void square_parts(const Exec& exec, const tensor::Tensor& parts, const tensor::Tensor& x) {
  const auto terms = SegmentTerms::of(x);
  require_parts("square_parts", parts, terms.count());
  if (terms.count() == 0) return;
  auto* const to = words_of<double>(parts);
  constexpr auto kLabel = "shard8::kernels::square_parts";
#if defined(__CUDACC__)
  const std::int64_t of_team = static_cast<std::int64_t>(kTeamThreads / kWarp) * terms.of_warp();
  for_rows(
      exec, kLabel, (terms.count() + of_team - 1) / of_team, SHARD8_LAMBDA(const Team& team, std::int64_t index) {
        const int lane = team.team_rank() % kWarp, warp = team.team_rank() / kWarp, warps = team.team_size() / kWarp;
        const std::int64_t first = (index * warps + warp) * terms.of_warp();
        const double sum = terms.of_lane(first, lane);
        if (lane < terms.of_warp() && first + lane < terms.segments.count()) to[first + lane] = sum;
      });
#else
  const std::int64_t block = terms.of_block(), count = terms.count();
  Kokkos::parallel_for(label_of(kLabel), Range(exec, 0, (count + block - 1) / block), [=](std::int64_t b) {
    const std::int64_t last = std::min((b + 1) * block, count);
    for (std::int64_t s = b * block; s < last; ++s) to[s] = terms.one(s);
  });
#endif
}

void add_square_parts(const Exec& exec, const tensor::Tensor& total, const tensor::Tensor& parts) {
  constexpr auto kName = "add_square_parts";
  const auto count = static_cast<std::int64_t>(parts.bytes() / sizeof(double));
  const PartTerms terms{require_parts(kName, parts, count), count};
  add_exactly(exec, "shard8::kernels::add_square_parts", require_exact_total(kName, total, count), terms);
}

}  // namespace shard8::kernels
