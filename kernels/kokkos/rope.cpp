// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.hpp"

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

/// (x1, x2) → (x1·cos − sign·x2·sin, x2·cos + sign·x1·sin) in a row of qkv.
template <class T>
struct Rotate {
  static constexpr int kN = kPack<T>, kThreads = 64,
                       kHeads = 5;                    ///< heads of a thread: 64 threads then have 40 heads of 128
  using Bounds = Kokkos::LaunchBounds<kThreads, 10>;  ///< chosen by measurement
  T* qkv;
  const float* table;
  std::int64_t width, seq, half, rotated_heads;
  float sign;
  bool fits;

  template <class W, class Angles>
  KOKKOS_FORCEINLINE_FUNCTION void rotate(const W& w, T* first, std::int64_t i, const Angles& c,
                                          const Angles& s) const {
    T* const second = first + half;
    const auto x1 = w.load(first, i), x2 = w.load(second, i);
    constexpr int kAngles = Angles::kCount;
    const auto rotated1 = w.each([&](int j) { return x1[j] * c[j % kAngles] - x2[j] * (sign * s[j % kAngles]); });
    const auto rotated2 = w.each([&](int j) { return x2[j] * c[j % kAngles] + x1[j] * (sign * s[j % kAngles]); });
    w.store_lanes(first, i, w.template round_results<T>(rotated1));
    w.store_lanes(second, i, w.template round_results<T>(rotated2));
  }

  void operator()(const HostTeam& team, std::int64_t row) const {
    const float *cosine = table + (row % seq) * half, *sine = cosine + seq * half;
    const float direction = sign;
    for (std::int64_t head = 0; head < rotated_heads; ++head) {
      T *first = qkv + row * width + head * 2 * half, *second = first + half;
      row_for(team, half, [=](std::int64_t i) {
        const float x1 = static_cast<float>(first[i]), x2 = static_cast<float>(second[i]);
        const float c = cosine[i], s = direction * sine[i];
        first[i] = static_cast<T>(x1 * c - x2 * s);
        second[i] = static_cast<T>(x2 * c + x1 * s);
      });
    }
  }
  /// All heads that a thread rotates have the same angles.
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t row) const {
    const float *cosine = table + (row % seq) * half, *sine = cosine + seq * half;
    const int lanes = fits ? kN : 1, per_head = static_cast<int>(half) / lanes;
    const int size = team.team_size(), heads = static_cast<int>(rotated_heads);
    for (int at = team.team_rank(); at < (size > per_head ? size / per_head * per_head : per_head); at += size) {
      const int step = size > per_head ? size / per_head : 1;
      const std::int64_t i = static_cast<std::int64_t>(at % per_head) * lanes;
      T* const first = qkv + row * width;
      if (fits) {
        const Packed<kN, 1> one{0};
        const auto c = one.load(cosine, i), s = one.load(sine, i);
        const Packed<kN, kHeads> some{step * 2 * half};
        int head = at / per_head;
        for (; head + (kHeads - 1) * step < heads; head += kHeads * step)
          rotate(some, first + head * 2 * half, i, c, s);
        for (; head < heads; head += step) rotate(one, first + head * 2 * half, i, c, s);
      } else {
        const auto c = Single{}.load(cosine, i), s = Single{}.load(sine, i);
        for (int head = at / per_head; head < heads; head += step) rotate(Single{}, first + head * 2 * half, i, c, s);
      }
    }
  }
};

template <class T>
void rotate(const Exec& exec, const char* label, T* qkv, const float* table, std::int64_t rows, std::int64_t width,
            std::int64_t seq, std::int64_t half, std::int64_t rotated_heads, float sign) {
  constexpr int kN = Rotate<T>::kN;
  const bool fits = half % kN == 0 && packs_fit<kN>(width, qkv) && packs_fit<kN>(half, table);
  using Rotation = Rotate<T>;
  for_rows<typename Rotation::Bounds>(
      exec, label, rows, Rotation{qkv, table, width, seq, half, rotated_heads, sign, fits}, Rotation::kThreads);
}

void rotate(const Exec& exec, const char* kernel, const char* label, const tensor::Tensor& qkv,
            const tensor::Tensor& table, std::int64_t rotated_heads, float sign) {
  SHARD8_REQUIRE(table.shape.rank() == 3 && table.shape[0] == 2, "{}: table is {}, (2, seq, head_dim/2) needed", kernel,
                 tensor::to_string(table.shape));
  const auto seq = table.shape[1], half = table.shape[2];
  SHARD8_REQUIRE(rotated_heads * 2 * half <= qkv.cols(), "{}: {} heads of {} in a row of {}", kernel, rotated_heads,
                 2 * half, qkv.cols());
  dispatch_real(qkv.dtype, kernel, [&]<class T>(std::type_identity<T>) {
    rotate(exec, label, qkv.as<T>(), table.as<float>(), qkv.rows(), qkv.cols(), seq, half, rotated_heads, sign);
  });
}

}  // namespace

void rope_table(const Exec& exec, const tensor::Tensor& table, float theta) {
  SHARD8_REQUIRE(table.shape.rank() == 3 && table.shape[0] == 2, "rope_table: table is {}, (2, seq, head_dim/2) needed",
                 tensor::to_string(table.shape));
  const auto seq = table.shape[1], half = table.shape[2];
  float* cosine = table.as<float>();
  float* sine = cosine + seq * half;
  for_rows(
      exec, "shard8::kernels::rope_table", seq, SHARD8_LAMBDA(const Team& team, std::int64_t position) {
        row_for(team, half, [=](std::int64_t i) {
          // Every step is rounded to fp32, as in the reference; sine and cosine themselves are computed in double.
          const float exponent = static_cast<float>(2 * i) / static_cast<float>(2 * half);
          const auto power = static_cast<float>(Kokkos::pow(static_cast<double>(theta), static_cast<double>(exponent)));
          const float angle = static_cast<float>(position) * (1.0f / power);
          cosine[position * half + i] = static_cast<float>(Kokkos::cos(static_cast<double>(angle)));
          sine[position * half + i] = static_cast<float>(Kokkos::sin(static_cast<double>(angle)));
        });
      });
}

void rope_forward(const Exec& exec, const tensor::Tensor& qkv, const tensor::Tensor& table,
                  std::int64_t rotated_heads) {
  rotate(exec, "rope_forward", "shard8::kernels::rope_forward", qkv, table, rotated_heads, 1.0f);
}

void rope_backward(const Exec& exec, const tensor::Tensor& dqkv, const tensor::Tensor& table,
                   std::int64_t rotated_heads) {
  rotate(exec, "rope_backward", "shard8::kernels::rope_backward", dqkv, table, rotated_heads, -1.0f);
}

}  // namespace shard8::kernels
