// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast.hpp"

namespace shard8::kernels {
namespace {

constexpr auto kLabel = "shard8::kernels::dequantize";

/// value·scale_inv, rounded once. With an e8m0 scale, a power of two, the product is exact in fp32: the smallest
/// product, 2^−16·2^−127, is a multiple of 2^−149, the smallest fp32 number.
template <class Out>
KOKKOS_INLINE_FUNCTION Out product(float value, tensor::E8M0 scale_inv) {
#if defined(__CUDA_ARCH__)
  if (value != value) return static_cast<Out>(value);  // a product would lose its sign
#endif
  return static_cast<Out>(value * static_cast<float>(scale_inv));
}
/// value·scale_inv with an fp32 scale, rounded once. The product is exact in double. For bf16 it is first rounded to
/// the odd one of its two fp32 neighbours (if it is not an fp32 number itself). So the rounding to bf16 sees on which
/// side of a tie the product is.
template <class Out>
KOKKOS_INLINE_FUNCTION Out product(float value, float scale_inv) {
  if constexpr (std::is_same_v<Out, float>) {
#if defined(__CUDA_ARCH__)
    if (value != value) return value;
#endif
    return value * scale_inv;
  } else {
#if defined(__CUDA_ARCH__)
    // The result of product() in bf16, from the product in fp32 and its rounding error. The error is an fp32 number
    // unless it is subnormal.
    const float rounded = value * scale_inv, missing = fmaf(value, scale_inv, -rounded);
    if (value == 0 || (fabsf(rounded) >= 0x1p-100f && fabsf(rounded) <= FLT_MAX)) {
      const auto of_rounded = std::bit_cast<std::uint32_t>(rounded);
      const std::uint32_t to_odd = missing == 0 ? 0u : ~of_rounded & 1u;
      return Out(std::bit_cast<float>((missing > 0) == (rounded > 0) ? of_rounded + to_odd : of_rounded - to_odd));
    }
#endif
    const double exact = std::abs(static_cast<double>(value) * static_cast<double>(scale_inv));
    const auto nearest = static_cast<float>(exact);
    const auto bits = std::bit_cast<std::uint32_t>(nearest);
    const std::uint32_t even = ~bits & 1u, below = static_cast<double>(nearest) < exact ? even : 0u;
    const std::uint32_t above = static_cast<double>(nearest) > exact ? even : 0u;
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) ^ std::bit_cast<std::uint32_t>(scale_inv);
    return Out(std::bit_cast<float>((bits + below - above) | (sign & 0x80000000u)));
  }
}

/// The inverse scale of element i of a row. Same: one scale for all elements. Each: one scale for each element.
/// OfBlocks: one scale for 2^shift elements.
template <class Inverse>
struct Same {
  Inverse inverse;
  KOKKOS_FORCEINLINE_FUNCTION Inverse at(std::int64_t) const { return inverse; }
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION Same pack(std::int64_t) const {
    return *this;
  }
  KOKKOS_FORCEINLINE_FUNCTION Inverse operator[](int) const { return inverse; }
};
template <class Inverse>
struct Each {
  const Inverse* inverses;
  KOKKOS_FORCEINLINE_FUNCTION Inverse at(std::int64_t i) const { return inverses[i]; }
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION auto pack(std::int64_t i) const {
    return Raw<N>{load_words<N* static_cast<int>(sizeof(Inverse))>(inverses + i)};
  }
  template <int N>
  struct Raw {
    Words<N* static_cast<int>(sizeof(Inverse))> words;
    KOKKOS_FORCEINLINE_FUNCTION Inverse operator[](int k) const { return words.template at<Inverse>(k); }
  };
};
/// The scales of a pack of columns; several rows share them.
template <class Scales>
struct Held {
  Scales scales;
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION const Scales& pack(std::int64_t) const {
    return scales;
  }
};
template <class Inverse>
struct OfBlocks {
  const Inverse* inverses;
  int shift;
  KOKKOS_FORCEINLINE_FUNCTION Inverse at(std::int64_t i) const { return inverses[i >> shift]; }
  /// A pack never crosses a block.
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION Same<Inverse> pack(std::int64_t i) const {
    return {at(i)};
  }
};

template <class Out, class Q, class Inverses>
KOKKOS_FORCEINLINE_FUNCTION void decode_lanes(const Single&, Out* out, std::int64_t i, const Q* in,
                                              const Inverses& inverses) {
  out[i] = product<Out>(static_cast<float>(in[i]), inverses.at(i));
}
/// Decodes packs by products that are rounded to fp32, then to bf16. Such a result can only be wrong if the fp32
/// product is the middle of two bf16 (products with e8m0 are exact). Such a result is rare, and so is NaN: packs with
/// either are decoded element by element, by product().
template <class Out, class Q, class Inverses, int N, int kPacks>
KOKKOS_FORCEINLINE_FUNCTION void decode_lanes(const Packed<N, kPacks>& w, Out* out, std::int64_t i, const Q* in,
                                              const Inverses& inverses) {
  const auto codes = w.load(in, i);
  SHARD8_UNROLL
  for (int u = 0; u < kPacks; ++u) {
    const std::int64_t at = i + u * w.stride;
    const auto inverse = inverses.template pack<N>(at);
    float values[N], products[N];
    decode_numbers<Q>(values, codes.pack[u]);
    bool rare = any_nan<Q>(codes.pack[u]);
    SHARD8_UNROLL
    for (int k = 0; k < N; ++k) {
      products[k] = values[k] * static_cast<float>(inverse[k]);
      if constexpr (sizeof(Out) == 2 && sizeof(inverse[k]) == 4) {
        rare |= (std::bit_cast<std::uint32_t>(products[k]) & 0xffffu) == 0x8000u;
      }
    }
    Words<N* static_cast<int>(sizeof(Out))> words{};
    if (rare) {
      SHARD8_UNROLL
      for (int k = 0; k < N; ++k) {
        words.put(k, product<Out>(static_cast<float>(codes.pack[u].template at<Q>(k)), inverse[k]));
      }
    } else if constexpr (std::is_same_v<Out, float>) {
      SHARD8_UNROLL
      for (int k = 0; k < N; ++k) words.put(k, products[k]);
    } else {
      SHARD8_UNROLL
      for (int k = 0; k < N; k += 2) words.word[k / 2] = round_pair(products[k], products[k + 1]);
    }
    store_global(out + at, words);
  }
}

/// Decodes a matrix with one scale for all.
template <class Out, class Q>
void whole(const Exec& exec, Out* out, const Q* in, const float* scale_inv, std::int64_t count) {
  constexpr int kN = kPack<Out>;
  const bool fits = packs_fit<kN>(kN, out, in);
  for_stretches(
      exec, kLabel, count, SHARD8_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        const float scale = *scale_inv;
        row_packs<kN, 4>(team, n, fits, [to = out + first, from = in + first, scale](auto w, std::int64_t i) {
          decode_lanes(w, to, i, from, Same<float>{scale});
        });
      });
}

/// How many rows with the same scales a team takes at once on a device.
constexpr std::int64_t kSharing = 4;

/// Decodes the elements c of kSharing rows that share the scales of their columns.
template <class Out, class Q, class Inverse>
struct DecodeSharing {
  Out* out;
  const Q* in;
  const Inverse* scales;
  std::int64_t cols;

  KOKKOS_FORCEINLINE_FUNCTION void operator()(const Single& w, std::int64_t c) const {
    for (std::int64_t r = 0; r < kSharing; ++r)
      decode_lanes(w, out + r * cols, c, in + r * cols, Each<Inverse>{scales});
  }
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION void operator()(const Packed<N, 1>&, std::int64_t c) const {
    const auto held = Each<Inverse>{scales}.template pack<N>(c);
    decode_lanes(Packed<N, kSharing>{cols}, out, c, in, Held<std::remove_const_t<decltype(held)>>{held});
  }
};

/// On a device: decodes a matrix in which each block_rows rows of a column share a scale.
template <class Out, class Q, class Inverse>
void columns(const Exec& exec, Out* out, const Q* in, const Inverse* scale_inv, std::int64_t rows, std::int64_t cols,
             std::int64_t block_rows, bool fits) {
  for_rows(
      exec, kLabel, rows / kSharing, SHARD8_LAMBDA(const Team& team, std::int64_t four) {
        const std::int64_t row = four * kSharing;
        row_packs<kPack<Out>, 1>(team, cols, fits,
                                 DecodeSharing<Out, Q, Inverse>{out + row * cols, in + row * cols,
                                                                scale_inv + row / block_rows * cols, cols});
      });
}

/// Decodes a matrix with blocks of block_rows rows and block_cols columns.
template <class Out, class Q, class Inverse>
void blocks(const Exec& exec, Out* out, const Q* in, const Inverse* scale_inv, std::int64_t rows, std::int64_t cols,
            std::int64_t block_rows, std::int64_t block_cols) {
  const std::int64_t across = cols / block_cols;
  constexpr int kN = kPack<Out>;
  const bool fits = packs_fit<kN>(cols, out, in) && (block_cols > 1 || packs_fit<kN>(cols, scale_inv));
  if constexpr (!kHostExec) {
    if (block_cols == 1 && rows % kSharing == 0) {
      return columns(exec, out, in, scale_inv, rows, cols, block_rows, fits);
    }
  }
  for_rows(
      exec, kLabel, rows, SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        const Inverse* const scales = scale_inv + row / block_rows * across;
        Out* const to = out + row * cols;
        const Q* const from = in + row * cols;
        if (block_cols == 1) {
          row_packs<kN>(team, cols, fits,
                        [=](auto w, std::int64_t c) { decode_lanes(w, to, c, from, Each<Inverse>{scales}); });
          return;
        }
        if constexpr (!kHostExec) {
          // Blocks are 32 or 128 long.
          const int shift = block_cols == 32 ? 5 : 7;
          row_packs<kN>(team, cols, fits, [=](auto w, std::int64_t c) {
            decode_lanes(w, to, c, from, OfBlocks<Inverse>{scales, shift});
          });
        } else {
          for (std::int64_t b = 0; b < across; ++b) {
            const Inverse scale = scales[b];
            const std::int64_t first = b * block_cols;
            row_packs<kN>(team, block_cols, fits,
                          [=](auto w, std::int64_t c) { decode_lanes(w, to, first + c, from, Same<Inverse>{scale}); });
          }
        }
      });
}

template <class Out, class Q>
void decode(const Exec& exec, const tensor::Tensor& out, const tensor::Operand& in) {
  auto* to = out.as<Out>();
  const auto* from = in.data.as<Q>();
  const auto& scales = in.scale_inv;
  if (in.scaling == tensor::Scaling::tensor) return whole(exec, to, from, scales.as<float>(), out.count());
  const auto rows = tensor::block_rows(in.scaling), cols = tensor::block_cols(in.scaling);
  if (tensor::scale_dtype(in.scaling) == tensor::DType::e8m0) {
    blocks(exec, to, from, scales.as<tensor::E8M0>(), in.rows(), in.cols(), rows, cols);
  } else {
    blocks(exec, to, from, scales.as<float>(), in.rows(), in.cols(), rows, cols);
  }
}

}  // namespace

void dequantize(const Exec& exec, const tensor::Tensor& out, const tensor::Operand& in) {
  SHARD8_REQUIRE(in.scaling != tensor::Scaling::none, "dequantize: a plain matrix; one with scales is needed");
  require_count("dequantize", "data", in.data, out.count());
  require_count("dequantize", "scale_inv", in.scale_inv, tensor::scale_shape(in.scaling, in.rows(), in.cols()).count());
  if (out.count() == 0) return;
  dispatch_real(out.dtype, "dequantize", [&]<class Out>(std::type_identity<Out>) {
    dispatch_float8(in.data.dtype, "dequantize",
                    [&]<class Q>(std::type_identity<Q>) { decode<Out, Q>(exec, out, in); });
  });
}

}  // namespace shard8::kernels
