// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda/lt_case.hpp"

#include <algorithm>
#include <cmath>

#include "tests/kernels/cuda/lt_reference.cuh"

namespace shard8::test {
namespace {

constexpr std::uint64_t kLeftSeed = 11, kRightSeed = 22, kBiasSeed = 33, kOutSeed = 44;
constexpr float kSentinel = 0x1p-100f;

/// Calls f with a value of the type.
template <class F>
auto with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::bf16:
      return f(__nv_bfloat16{});
    case DType::e4m3:
      return f(__nv_fp8_e4m3{});
    case DType::e5m2:
      return f(__nv_fp8_e5m2{});
    default:
      return f(float{});
  }
}

constexpr unsigned kGrid = 1056, kThreads = 256;

std::size_t bytes_of(DType dtype, std::int64_t count, std::int64_t offset) {
  return tensor::size_of(dtype) * static_cast<std::size_t>(count) + static_cast<std::size_t>(offset);
}

std::size_t scale_bytes(const LtFactor& factor, std::int64_t outer, std::int64_t depth) {
  return sizeof(float) * static_cast<std::size_t>(kernels::cuda::scale_count(factor.scaling, outer, depth));
}

// Fourteen indices: the two ends, both sides of a tile's edge, and some between.
std::vector<std::int64_t> sampled(std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> indices = {0, count - 1, std::min<std::int64_t>(127, count - 1),
                                       std::min<std::int64_t>(128, count - 1)};
  for (std::uint64_t i = 0; i < 10; ++i) {
    indices.push_back(static_cast<std::int64_t>(mix(seed + i) % static_cast<std::uint64_t>(count)));
  }
  return indices;
}

double bias_at(const LtGemmKey& key, std::int64_t c) {
  const float value = number(kBiasSeed, static_cast<std::uint64_t>(c), false);
  return kernels::cuda::bias_dtype(key) == DType::bf16 ? static_cast<float>(__nv_bfloat16(value)) : value;
}

}  // namespace

CaseRunner::CaseRunner(LtGemm& gemm, cudaStream_t stream, const Case& c)
    : gemm_(gemm),
      stream_(stream),
      case_(c),
      left_(bytes_of(c.key.left.dtype, c.key.rows * c.key.depth, c.offset)),
      right_(bytes_of(c.key.right.dtype, c.key.cols * c.key.depth, c.offset)),
      out_(bytes_of(c.key.out, c.key.rows * c.key.cols, c.offset)),
      left_scale_(scale_bytes(c.key.left, c.key.rows, c.key.depth)),
      right_scale_(scale_bytes(c.key.right, c.key.cols, c.key.depth)),
      bias_(bytes_of(DType::fp32, c.key.cols, 0)),
      workspace_(kernels::cuda::kLtWorkspaceBytes),
      scan_(sizeof(Scan)) {
  args_.out = out_.data() + c.offset;
  args_.left = left_.data() + c.offset;
  args_.right = right_.data() + c.offset;
  if (key().addend) args_.addend = args_.out;
  args_.workspace = workspace_.data();
  args_.workspace_bytes = kernels::cuda::kLtWorkspaceBytes;
  fill_factor(left_.data() + c.offset, key().left, key().rows, kLeftSeed);
  fill_factor(right_.data() + c.offset, key().right, key().cols, kRightSeed);
  if (key().left.scaling != LtScaling::none) {
    upload_scales(left_scale_.data(), key().left, key().rows, kLeftSeed);
    upload_scales(right_scale_.data(), key().right, key().cols, kRightSeed);
    args_.left_scale_inv = reinterpret_cast<const float*>(left_scale_.data());
    args_.right_scale_inv = reinterpret_cast<const float*>(right_scale_.data());
  }
  if (key().bias) {
    args_.bias = bias_.data();
    with_type(kernels::cuda::bias_dtype(key()), [&](auto type) {
      using T = decltype(type);
      fill<T>
          <<<kGrid, kThreads, 0, stream_>>>(reinterpret_cast<T*>(bias_.data()), key().cols, 1, true, kBiasSeed, false);
    });
    SHARD8_CUDA_CHECK_LAUNCH("fill");
  }
}

void CaseRunner::fill_factor(char* to, const LtFactor& factor, std::int64_t outer, std::uint64_t seed) {
  with_type(factor.dtype, [&](auto type) {
    using T = decltype(type);
    fill<T><<<kGrid, kThreads, 0, stream_>>>(reinterpret_cast<T*>(to), outer, key().depth, factor.depth_contiguous,
                                             seed, case_.positive);
  });
  SHARD8_CUDA_CHECK_LAUNCH("fill");
}

std::vector<double> CaseRunner::row(const LtFactor& factor, std::int64_t i, std::uint64_t seed) const {
  return with_type(factor.dtype, [&](auto type) {
    return row_of<decltype(type)>(factor.scaling, i, key().depth, seed, case_.positive);
  });
}

void CaseRunner::upload_scales(char* to, const LtFactor& factor, std::int64_t outer, std::uint64_t seed) {
  const auto scales = scales_of(factor, outer, key().depth, seed, stretch_of(factor.dtype));
  SHARD8_CUDA_CHECK(cudaMemcpyAsync(to, scales.data(), sizeof(float) * scales.size(), cudaMemcpyHostToDevice, stream_));
  SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream_));
}

void CaseRunner::set_out_to(float value) {
  with_type(key().out, [&](auto type) {
    using T = decltype(type);
    fill_constant<T><<<kGrid, kThreads, 0, stream_>>>(static_cast<T*>(args_.out), key().rows * key().cols, value);
  });
  SHARD8_CUDA_CHECK_LAUNCH("fill_constant");
}

void CaseRunner::set_out_to_number() {
  with_type(key().out, [&](auto type) {
    using T = decltype(type);
    fill<T><<<kGrid, kThreads, 0, stream_>>>(static_cast<T*>(args_.out), key().rows, key().cols, true, kOutSeed, false);
  });
  SHARD8_CUDA_CHECK_LAUNCH("fill");
}

Scan CaseRunner::look(float sentinel) {
  SHARD8_CUDA_CHECK(cudaMemsetAsync(scan_.data(), 0, sizeof(Scan), stream_));
  with_type(key().out, [&](auto type) {
    using T = decltype(type);
    scan<T><<<kGrid, kThreads, 0, stream_>>>(reinterpret_cast<Scan*>(scan_.data()), static_cast<const T*>(args_.out),
                                             key().rows * key().cols, sentinel);
  });
  SHARD8_CUDA_CHECK_LAUNCH("scan");
  Scan result;
  SHARD8_CUDA_CHECK(cudaMemcpyAsync(&result, scan_.data(), sizeof(result), cudaMemcpyDeviceToHost, stream_));
  SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream_));
  return result;
}

float CaseRunner::out_at(std::int64_t r, std::int64_t c) {
  return with_type(key().out, [&](auto type) {
    decltype(type) value;
    SHARD8_CUDA_CHECK(cudaMemcpyAsync(&value, static_cast<const decltype(type)*>(args_.out) + r * key().cols + c,
                                      sizeof(value), cudaMemcpyDeviceToHost, stream_));
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream_));
    return static_cast<float>(value);
  });
}

CaseRunner::Reference CaseRunner::reference(const std::vector<double>& left, const std::vector<double>& right,
                                            std::int64_t r, std::int64_t c, bool from_numbers) const {
  Reference result;
  for (std::size_t k = 0; k < left.size(); ++k) {
    result.value += left[k] * right[k];
    result.magnitude += std::fabs(left[k] * right[k]);
  }
  if (key().bias) result.value += bias_at(key(), c);
  if (reads_out() && from_numbers) {
    const float before = number(kOutSeed, static_cast<std::uint64_t>(r * key().cols + c), false);
    result.value += key().out == DType::bf16 ? static_cast<float>(__nv_bfloat16(before)) : before;
  }
  return result;
}

bool CaseRunner::compare(std::int64_t r, std::int64_t c, const Reference& ref, Outcome& outcome) {
  const double got = out_at(r, c);
  const double error = std::fabs(got - ref.value);
  const double bound =
      0x1p-8 * std::fabs(ref.value) + allowed_eps(sum_of(key()), key().depth, case_.positive) * ref.magnitude;
  // Where nothing else is rounded, the error is that of the sum alone.
  if (key().out == DType::fp32 && !reads_out() && !key().bias) {
    outcome.eps = std::max(outcome.eps, error / ref.magnitude);
  }
  if (error <= bound) return true;  // false for a NaN
  std::printf("WRONG  %s: %s: element (%lld, %lld) is %.9g, should be %.9g; error %.3g, allowed %.3g\n",
              case_.name.c_str(), describe(key()).c_str(), static_cast<long long>(r), static_cast<long long>(c), got,
              ref.value, error, bound);
  return false;
}

bool CaseRunner::complain(const char* what) const {
  std::printf("WRONG  %s: %s: %s\n", case_.name.c_str(), describe(key()).c_str(), what);
  return false;
}

// Every element that is not written must be found. So `out` first holds NaN; or, where it is read, a number too small
// to change a sum. That number is still there afterwards if the sum is exactly zero: tensor cores cut FP8 sums to 13
// bits, and about one in a million random sums is 0. So of the elements that kept their number as many as are listed,
// taken at random, must be sums near 0, and at most one in 10,000 may keep its number.
bool CaseRunner::check_run(bool from_numbers, Outcome& outcome) {
  const auto reset = [&] { return from_numbers ? set_out_to_number() : set_out_to(reads_out() ? kSentinel : NAN); };
  reset();
  gemm_.run(stream_, key(), args_);
  const Scan seen = look(kSentinel);
  outcome.zeros = std::max(outcome.zeros, seen.suspects);
  const auto most = static_cast<unsigned long long>(key().rows * key().cols / 10000 + kMostSuspects);
  if (seen.suspects > most) return complain("elements are not written or not finite");

  for (unsigned long long i = 0; i < std::min<unsigned long long>(seen.suspects, kMostSuspects); ++i) {
    const std::int64_t r = seen.where[i] / key().cols, c = seen.where[i] % key().cols;
    const auto left = row(key().left, r, kLeftSeed), right = row(key().right, c, kRightSeed);
    if (!compare(r, c, reference(left, right, r, c, from_numbers), outcome)) return false;
  }
  std::vector<std::vector<double>> rights;
  const auto columns = sampled(key().cols, 7);
  for (const std::int64_t c : columns) rights.push_back(row(key().right, c, kRightSeed));
  for (const std::int64_t r : sampled(key().rows, 5)) {
    const auto left = row(key().left, r, kLeftSeed);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (!compare(r, columns[i], reference(left, rights[i], r, columns[i], from_numbers), outcome)) return false;
    }
  }
  reset();
  gemm_.run(stream_, key(), args_);
  return look(kSentinel).checksum == seen.checksum || complain("a second run gives other bytes");
}

void CaseRunner::time(Outcome& outcome) {
  constexpr std::size_t kRuns = 20;
  std::vector<tensor::cuda::Event> events;
  while (events.size() <= kRuns) events.emplace_back(tensor::cuda::Event::Times::yes);
  std::size_t before = 0, after = 0, total = 0;
  SHARD8_CUDA_CHECK(cudaMemGetInfo(&before, &total));
  for (int i = 0; i < 3; ++i) gemm_.run(stream_, key(), args_);
  events.front().record(stream_);
  for (std::size_t i = 1; i <= kRuns; ++i) {
    gemm_.run(stream_, key(), args_);
    events[i].record(stream_);
  }
  events.back().synchronize();
  std::vector<float> times;
  for (std::size_t i = 1; i <= kRuns; ++i)
    times.push_back(static_cast<float>(events[i].seconds_since(events[i - 1]) * 1e6));
  SHARD8_CUDA_CHECK(cudaMemGetInfo(&after, &total));
  if (before != after) outcome.good = complain("runs after the preparation took device memory");
  std::sort(times.begin(), times.end());
  outcome.microseconds = (times[kRuns / 2 - 1] + times[kRuns / 2]) / 2;
}

bool CaseRunner::prepare() {
  set_out_to(0.0f);
  return gemm_.try_prepare(stream_, key(), args_);
}

unsigned long long CaseRunner::checksum() { return look(0.0f).checksum; }

Outcome CaseRunner::run() {
  Outcome outcome;
  outcome.supported = prepare();
  if (!outcome.supported) return outcome;
  outcome.good = check_run(false, outcome) && (!reads_out() || check_run(true, outcome));
  if (case_.timed) time(outcome);
  return outcome;
}

}  // namespace shard8::test
