// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kokkos/scaling.hpp"
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast.hpp"
#include "kernels/moe.hpp"
#include "kernels/quantize.hpp"

namespace shard8::kernels {
namespace {

template <class Source>
void largest_magnitude(const Exec& exec, std::int32_t* amax, const Source& x, std::int64_t count, const RowEnd& end) {
  constexpr int kN = kPack<typename Source::Type>;
  const bool fits = packs_fit<kN>(kN, x.x);
  for_stretches_until(
      exec, "shard8::kernels::amax", count,
      SHARD8_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        const CastTotals totals = CastTotals{amax, nullptr}.seen(team);
        totals.add(team, {row_magnitude<kN>(team, n, fits, x.from(first)), 0, 0});
      },
      end);
}

/// Computes the new scale of one tensor.
struct DelayedUpdate {
  float* scales;
  std::int32_t *changes, *past, *now;
  std::int64_t stride, row, filled;
  AmaxOf of;
  ScaleRule rule;

  /// On a host: for tensor i. The host calls it for one tensor after the other.
  template <class Index>
  KOKKOS_INLINE_FUNCTION void operator()(Index i) const {
    past[row * stride + i] = now[i];
    std::int32_t bits = now[i];
    for (std::int64_t h = 0; of == AmaxOf::all && h < filled; ++h)
      bits = past[h * stride + i] > bits ? past[h * stride + i] : bits;
    write_scale(i, bits);
  }
  /// On a device: for tensor i, by a team whose threads read the history together.
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t i) const {
    const std::int32_t newest = now[i];
    std::int32_t bits = newest;
    if (of == AmaxOf::all) {
      const std::int32_t older =
          row_largest(team, filled, [=, *this](std::int64_t h) { return h == row ? newest : past[h * stride + i]; });
      bits = older > bits ? older : bits;
    }
    row_barrier(team);
    once(team, [=, *this] {
      past[row * stride + i] = newest;
      write_scale(i, bits);
    });
  }

 private:
  KOKKOS_INLINE_FUNCTION void write_scale(std::int64_t i, std::int32_t bits) const {
    now[i] = 0;
    const float before = scales[i];
    const float after = scale_from_amax(std::bit_cast<float>(bits), rule, before);
    changes[i] = largest_change(changes[i], before, after);
    scales[i] = after;
  }
};

template <class Update>
void update_all(const Exec& exec, const char* label, std::int64_t tensors, const Update& update) {
  if constexpr (kHostExec) {
    for_each(exec, label, tensors, update);
  } else {
    for_rows(exec, label, tensors, update);
  }
}

}  // namespace

void amax(const Exec& exec, const tensor::Tensor& amax, const tensor::Tensor& x, const CastOptions& options) {
  require_count("amax", "amax", amax, 1);
  auto* bits = amax.as<std::int32_t>();
  const RowEnd end{row_end("amax", options.end), x.cols(), nullptr, 1};
  dispatch_source(x, options.through_bf16, "amax",
                  [&](const auto& source) { largest_magnitude(exec, bits, source, x.count(), end); });
}

void scale_of_amax(const Exec& exec, const tensor::Tensor& scale, const tensor::Tensor& change,
                   const tensor::Tensor& amax, const ScaleRule& rule, bool clear, bool keep) {
  constexpr auto kName = "scale_of_amax";
  const std::int64_t n = amax.count();
  require_count(kName, "scale", scale, n);
  if (!change.empty()) require_count(kName, "change", change, n);
  auto* scales = scale.as<float>();
  auto* changes = change.empty() ? nullptr : change.as<std::int32_t>();
  auto* bits = amax.as<std::int32_t>();
  for_each(
      exec, "shard8::kernels::scale_of_amax", n, SHARD8_LAMBDA(std::int64_t i) {
        if (keep && bits[i] == 0) return;
        const float after = scale_from_amax(std::bit_cast<float>(bits[i]), rule, 1.0f);
        if (changes != nullptr) changes[i] = largest_change(changes[i], scales[i], after);
        scales[i] = after;
        if (clear) bits[i] = 0;
      });
}

void inverse_scales(const Exec& exec, const tensor::Tensor& inverses, const tensor::Tensor& scales) {
  const std::int64_t n = scales.count();
  require_count("inverse_scales", "inverses", inverses, n);
  auto* out = inverses.as<float>();
  const auto* scale = scales.as<float>();
  for_each(
      exec, "shard8::kernels::inverse_scales", n, SHARD8_LAMBDA(std::int64_t i) { out[i] = 1.0f / scale[i]; });
}

void delayed_update(const Exec& exec, const tensor::Tensor& scale, const tensor::Tensor& change,
                    const tensor::Tensor& history, const tensor::Tensor& amax, std::int64_t row, std::int64_t filled,
                    AmaxOf of, const ScaleRule& rule) {
  constexpr auto kName = "delayed_update";
  const std::int64_t n = scale.count(), stride = history.cols();
  require_count(kName, "change", change, n);
  require_count(kName, "amax", amax, n);
  SHARD8_REQUIRE(stride == n && row < history.rows() && filled >= 1 && filled <= history.rows(),
                 "{}: row {} and {} filled rows of a history {} of {} tensors", kName, row, filled,
                 tensor::to_string(history.shape), n);
  auto* scales = scale.as<float>();
  auto *changes = change.as<std::int32_t>(), *past = history.as<std::int32_t>(), *now = amax.as<std::int32_t>();
  constexpr auto kLabel = "shard8::kernels::delayed_update";
  const DelayedUpdate update{scales, changes, past, now, stride, row, filled, of, rule};
  update_all(exec, kLabel, n, update);
}

}  // namespace shard8::kernels
