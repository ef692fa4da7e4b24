// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "kernels/check/arguments.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

/// The elements of a tensor as unsigned integers of the same size.
template <class T>
T* bits(const tensor::Tensor& t) {
  return reinterpret_cast<T*>(t.data);
}

template <class Out, class In>
void convert(const Exec& exec, Out* out, const In* in, std::int64_t count) {
  constexpr int kN = kPack<Out, In>;
  const bool fits = packs_fit<kN>(kN, out, in);
  for_spans(
      exec, "shard8::kernels::cast", count, SHARD8_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        row_packs<kN, 4>(team, n, fits, [to = out + first, from = in + first](auto w, std::int64_t i) {
          w.store(to, i, w.load(from, i));
        });
      });
}

/// Casts of several tensors by one kernel; each tensor has its own spans.
template <class Out, class In>
struct ConvertEach {
  static constexpr std::int64_t kSpan = 8192;
  struct One {
    Out* out;
    const In* in;
    std::int64_t count, end;  ///< end: how many spans this tensor and all before it have
    bool fits;
  };
  One each[kCastsAtOnce];
  std::int64_t spans = 0;

  void add(std::size_t at, const Cast& cast) {
    Out* const out = cast.out.as<Out>();
    const In* const in = cast.in.as<In>();
    spans += (cast.out.count() + kSpan - 1) / kSpan;
    each[at] = {out, in, cast.out.count(), spans, packs_fit<kPack<Out, In>>(kPack<Out, In>, out, in)};
  }
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t span) const {
    int which = 0;
    std::int64_t before = 0;
    for (; span >= each[which].end; ++which) before = each[which].end;
    const One& one = each[which];
    const std::int64_t first = (span - before) * kSpan, rest = one.count - first;
    row_packs<kPack<Out, In>, 4>(
        team, rest < kSpan ? rest : kSpan, one.fits,
        [to = one.out + first, from = one.in + first](auto w, std::int64_t i) { w.store(to, i, w.load(from, i)); });
  }
};

template <class Out, class In>
void convert_each(const Exec& exec, std::span<const Cast> casts) {
  ConvertEach<Out, In> all;
  for (std::size_t i = 0; i < casts.size(); ++i) all.add(i, casts[i]);
  for_rows(exec, "shard8::kernels::cast", all.spans, all);
}

template <class T>
void copy(const Exec& exec, T* out, const T* in, std::int64_t count) {
  constexpr int kN = kPack<T>;
  const bool fits = packs_fit<kN>(kN, out, in);
  for_spans(
      exec, "shard8::kernels::cast", count, SHARD8_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        row_packs<kN, 4>(team, n, fits, [to = out + first, from = in + first](auto w, std::int64_t i) {
          const auto lanes = w.load(from, i);
          w.fill(to, i, [&](int j) { return lanes.raw(j); });
        });
      });
}

template <class T>
void fill(const Exec& exec, const char* label, T* out, T value, std::int64_t count) {
  constexpr int kN = kPack<T>;
  const bool fits = packs_fit<kN>(kN, out);
  for_spans(
      exec, label, count, SHARD8_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        row_packs<kN, 4>(team, n, fits, [to = out + first, value](auto w, std::int64_t i) {
          w.fill(to, i, [&](int) { return value; });
        });
      });
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;

/// The finaliser of splitmix64 (Steele, Lea & Flood 2014, constants of Stafford's variant 13).
KOKKOS_INLINE_FUNCTION std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

void cast(const Exec& exec, const tensor::Tensor& out, const tensor::Tensor& in) {
  require_count("cast", "in", in, out.count());
  const auto count = out.count();
  if (out.dtype == in.dtype) {
    switch (tensor::size_of(out.dtype)) {
      case 4:
        return copy(exec, bits<std::uint32_t>(out), bits<std::uint32_t>(in), count);
      case 2:
        return copy(exec, bits<std::uint16_t>(out), bits<std::uint16_t>(in), count);
      default:
        return copy(exec, bits<std::uint8_t>(out), bits<std::uint8_t>(in), count);
    }
  }
  dispatch_real(out.dtype, "cast", [&]<class Out>(std::type_identity<Out>) {
    dispatch_real(in.dtype, "cast",
                  [&]<class In>(std::type_identity<In>) { convert(exec, out.as<Out>(), in.as<In>(), count); });
  });
}

void cast_each(const Exec& exec, std::span<const Cast> casts) {
  const auto alike = [&](const Cast& cast) {
    return cast.out.dtype == casts.front().out.dtype && cast.in.dtype == casts.front().in.dtype &&
           cast.out.dtype != cast.in.dtype;
  };
  if (kHostExec || casts.size() > kCastsAtOnce || !std::all_of(casts.begin(), casts.end(), alike)) {
    for (const Cast& one : casts) cast(exec, one.out, one.in);
    return;
  }
  if (casts.empty()) return;
  for (const Cast& cast : casts) require_count("cast_each", "in", cast.in, cast.out.count());
  dispatch_real(casts.front().out.dtype, "cast_each", [&]<class Out>(std::type_identity<Out>) {
    dispatch_real(casts.front().in.dtype, "cast_each",
                  [&]<class In>(std::type_identity<In>) { convert_each<Out, In>(exec, casts); });
  });
}

void fill_zero(const Exec& exec, const tensor::Tensor& out) {
  constexpr auto kLabel = "shard8::kernels::fill_zero";
  const auto count = out.count();
  switch (tensor::size_of(out.dtype)) {
    case 4:
      return fill(exec, kLabel, bits<std::uint32_t>(out), std::uint32_t{0}, count);
    case 2:
      return fill(exec, kLabel, bits<std::uint16_t>(out), std::uint16_t{0}, count);
    default:
      return fill(exec, kLabel, bits<std::uint8_t>(out), std::uint8_t{0}, count);
  }
}

void fill_one(const Exec& exec, const tensor::Tensor& out) {
  constexpr auto kLabel = "shard8::kernels::fill_one";
  const auto count = out.count();
  switch (out.dtype) {
    case tensor::DType::i32:
      return fill(exec, kLabel, out.as<std::int32_t>(), std::int32_t{1}, count);
    case tensor::DType::u8:
      return fill(exec, kLabel, out.as<std::uint8_t>(), std::uint8_t{1}, count);
    default:
      dispatch_real(out.dtype, "fill_one", [&]<class T>(std::type_identity<T>) {
        fill(exec, kLabel, out.as<T>(), static_cast<T>(1.0f), count);
      });
  }
}

void normal_fill(const Exec& exec, const tensor::Tensor& out, std::uint64_t key, const GlobalIndex& index,
                 double standard_deviation) {
  float* values = out.as<float>();
  // A tensor of one column, such as every tensor with one extent, is filled as one row.
  const bool column = out.cols() == 1;
  const std::int64_t rows = column ? 1 : out.rows(), cols = column ? out.rows() : out.cols();
  const std::int64_t stride = column ? index.row_stride : index.col_stride;
  constexpr std::int64_t kLength = 4096;
  const std::int64_t parts = (cols + kLength - 1) / kLength;
  for_rows(
      exec, "shard8::kernels::normal_fill", rows * parts, SHARD8_LAMBDA(const Team& team, std::int64_t part) {
        const std::int64_t r = part / parts, first = (part - r * parts) * kLength, rest = cols - first;
        row_for(team, rest < kLength ? rest : kLength, [=](std::int64_t at) {
          const std::int64_t c = first + at;
          // Outputs 2i + 1 and 2i + 2 of the splitmix64 stream that starts at the key.
          const auto i = static_cast<std::uint64_t>(index.offset + r * index.row_stride + c * stride);
          const std::uint64_t h1 = mix(key + (2 * i + 1) * kGolden), h2 = mix(key + (2 * i + 2) * kGolden);
          const double u1 = static_cast<double>((h1 >> 11) + 1) * 0x1p-53;  // (0, 1]
          const double u2 = static_cast<double>(h2 >> 11) * 0x1p-53;        // [0, 1)
          const double normal = Kokkos::sqrt(-2.0 * Kokkos::log(u1)) * Kokkos::cos(6.283185307179586 * u2);
          values[r * cols + c] = static_cast<float>(standard_deviation * normal);
        });
      });
}

std::uint64_t random_key(std::uint64_t seed, const char* name) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char* p = name; *p != '\0'; ++p) {
    hash = (hash ^ static_cast<unsigned char>(*p)) * 0x100000001b3u;
  }
  return mix(mix(seed + kGolden) ^ hash);
}

}  // namespace shard8::kernels
