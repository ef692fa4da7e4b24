// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

/// The elements as unsigned integers of their size.
template <class T>
T* bits(const tensor::Tensor& t) {
  return reinterpret_cast<T*>(t.data);
}

template <class Out, class In>
void convert(const Exec& exec, Out* out, const In* in, std::int64_t count) {
  constexpr int kN = kPack<Out, In>;
  const bool fits = packs_fit<kN>(kN, out, in);
  for_spans(
      exec, "shard8::kernels::cast", count, KOKKOS_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        row_packs<kN, 4>(team, n, fits, [to = out + first, from = in + first](auto w, std::int64_t i) {
          w.store(to, i, w.load(from, i));
        });
      });
}

template <class T>
void copy(const Exec& exec, T* out, const T* in, std::int64_t count) {
  constexpr int kN = kPack<T>;
  const bool fits = packs_fit<kN>(kN, out, in);
  for_spans(
      exec, "shard8::kernels::cast", count, KOKKOS_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
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
      exec, label, count, KOKKOS_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        row_packs<kN, 4>(team, n, fits, [to = out + first, value](auto w, std::int64_t i) {
          w.fill(to, i, [&](int) { return value; });
        });
      });
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

}  // namespace shard8::kernels
