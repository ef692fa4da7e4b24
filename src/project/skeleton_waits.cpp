// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "project/skeleton_waits.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "project/projection.hpp"
#include "train/record.hpp"

namespace shard8::project {

namespace {

using operation::Attention;
using operation::Kernel;
using operation::Operation;
using operation::Place;
using operation::Product;

using Key = std::tuple<profile::Phase, std::string_view, std::int64_t, std::int64_t, std::int64_t, std::uint64_t,
                       std::uint64_t>;

std::uint64_t bits(const operation::Format& f) {
  return static_cast<std::uint64_t>(f.dtype) << 16 | static_cast<std::uint64_t>(f.scaling) << 8 |
         static_cast<std::uint64_t>(f.transposed);
}

Key key_of(profile::Phase phase, const Product& p) {
  const std::uint64_t how = static_cast<std::uint64_t>(p.groups) << 16 | static_cast<std::uint64_t>(p.out) << 3 |
                            static_cast<std::uint64_t>(p.accumulate) << 2 | static_cast<std::uint64_t>(p.bias) << 1 |
                            static_cast<std::uint64_t>(p.residual);
  return {phase, name_of(p.kind), p.rows, p.cols, p.inner, bits(p.left) << 32 | bits(p.right), how};
}

Key key_of(profile::Phase phase, const Attention& a) {
  const auto of = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  return {phase,
          a.backward ? "attention backward" : "attention",
          a.shape.batch,
          a.shape.seq,
          a.shape.head_dim,
          of(a.shape.heads) << 32 | of(a.shape.kv_heads),
          static_cast<std::uint64_t>(a.dtype)};
}

Key key_of(profile::Phase phase, const Kernel& k) { return {phase, k.name, k.rows, k.cols, 0, k.read, k.written}; }

template <class What>
Operation operation_of(const Place& place, const What& what) {
  Operation o;
  o.location = place.location;
  o.phase = place.phase;
  o.recomputed = place.recomputed;
  o.what = what;
  if constexpr (std::is_same_v<What, Kernel>) {
    o.read = what.read;
    o.written = what.written;
  }
  return o;
}

}  // namespace

UnevenWaits::UnevenWaits(const ComputingTimes::Spread& spread, int rank, int ranks)
    : random_(static_cast<std::uint64_t>(rank)), spread_(spread) {
  if (ranks < 2) return;
  // The ranks in the order of the fractions of multiples of the golden ratio, in which neighbours are far apart, at the
  // quantiles of a normal distribution: Φ⁻¹((place + 1/2) / ranks), less their mean, by their standard deviation.
  const auto fraction = [](int r) { return std::fmod(r * std::numbers::phi, 1.0); };
  double squares = 0;
  int place = 0;
  for (int r = 0; r < ranks; ++r) {
    const double z = normal_quantile((r + 0.5) / ranks);
    squares += z * z;
    place += fraction(r) < fraction(rank) ? 1 : 0;
  }
  of_rank_ = factor_ = 1 + spread.ranks * normal_quantile((place + 0.5) / ranks) / std::sqrt(squares / (ranks - 1));
}

SkeletonWaits::SkeletonWaits(const tensor::Exec& exec, const train::Setup& setup, std::unique_ptr<ComputingTimes> times)
    : times_(std::move(times)),
      waiter_(exec, 1e9 * setup.config.run.skeleton_load),
      uneven_(times_ == nullptr ? ComputingTimes::Spread{} : times_->spread(), setup.place.rank(),
              static_cast<int>(setup.mesh.ranks())) {
  if (times_ == nullptr) return;
  for (const train::StepOfRun& kind : train::kStepsOfRun) {
    step_s_ = 0;  // of the last kind
    train::record_step(setup, kind, [&](const Operation& o) {
      if (const auto* p = o.product()) step_s_ += look_up(key_of(o.phase, *p), o);
      if (const auto* a = o.attention()) step_s_ += look_up(key_of(o.phase, *a), o);
      if (const auto* k = o.kernel()) step_s_ += look_up(key_of(o.phase, *k), o);
    });
  }
}

double SkeletonWaits::look_up(const Key& key, const Operation& operation) {
  const auto [at, is_new] = seconds_.try_emplace(key, 0);
  if (is_new) at->second = times_->seconds(operation);
  return at->second;
}

template <class What>
void SkeletonWaits::wait_for(const tensor::Exec& exec, const Place& place, const What& what) {
  if (times_ == nullptr) return;
  const Key key = key_of(place.phase, what);
  const auto found = seconds_.find(key);
  // Every operation of a step was recorded. One of a kind of step that was not is looked up now.
  const double seconds = found != seconds_.end() ? found->second : look_up(key, operation_of(place, what));
  waiter_.wait(exec, uneven_.next(seconds));
}

void SkeletonWaits::begin_step() { uneven_.begin_step(); }
void SkeletonWaits::met() { uneven_.met(); }
/// On a device the host advances collectives while kernels wait.
void SkeletonWaits::advanced(double seconds) {
  if (times_ != nullptr && !tensor::kDevice) uneven_.passed(seconds);
}

void SkeletonWaits::wait(const tensor::Exec& exec, const Place& place, const Product& product) {
  wait_for(exec, place, product);
}
void SkeletonWaits::wait(const tensor::Exec& exec, const Place& place, const Attention& attention) {
  wait_for(exec, place, attention);
}
void SkeletonWaits::wait(const tensor::Exec& exec, const Place& place, const Kernel& kernel) {
  wait_for(exec, place, kernel);
}

}  // namespace shard8::project
