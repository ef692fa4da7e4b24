// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/lt_problem.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "kernels/cuda/library_check.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::kernels::cuda {
namespace {

using tensor::cuda::Event;

constexpr std::size_t kRounds = 5;
constexpr float kBatchMicroseconds = 300.0f;
constexpr float kMostRepeats = 20.0f;

struct Contender {
  std::size_t index = 0;
  int repeats = 1;
  std::array<float, kRounds> microseconds{};
};

float median(std::array<float, kRounds> values) {
  std::sort(values.begin(), values.end());
  return values[kRounds / 2];
}

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFinalists = 24, kRefined = 3, kFinalistsOfRefined = 6;
constexpr std::array<std::int32_t, 5> kSplits = {2, 3, 4, 6, 8};
constexpr std::uint32_t kMostOptions = 16;  // tried of an algorithm, which may have many more

template <class T>
T capability(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoCapAttributes_t attribute) {
  T value{};
  std::size_t written = 0;
  SHARD8_CUBLAS_CHECK(cublasLtMatmulAlgoCapGetAttribute(&algorithm, attribute, &value, sizeof(value), &written));
  return value;
}

/// The values of an attribute; the single value 0 if the algorithm has none.
std::vector<std::uint32_t> capabilities(const cublasLtMatmulAlgo_t& algorithm,
                                        cublasLtMatmulAlgoCapAttributes_t attribute) {
  std::size_t bytes = 0;
  SHARD8_CUBLAS_CHECK(cublasLtMatmulAlgoCapGetAttribute(&algorithm, attribute, nullptr, 0, &bytes));
  std::vector<std::uint32_t> values(bytes / sizeof(std::uint32_t));
  if (values.empty()) return {0};
  SHARD8_CUBLAS_CHECK(cublasLtMatmulAlgoCapGetAttribute(&algorithm, attribute, values.data(), bytes, &bytes));
  return values;
}

template <class T>
void configure(cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute, T value) {
  SHARD8_CUBLAS_CHECK(cublasLtMatmulAlgoConfigSetAttribute(&algorithm, attribute, &value, sizeof(value)));
}

template <class T>
T configured(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value{};
  std::size_t written = 0;
  SHARD8_CUBLAS_CHECK(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof(value), &written));
  return value;
}

/// The configurations of one algorithm, numbered from 0.
class Configurations {
 public:
  /// The configurations that differ from `algorithm` only in option, swizzle and cluster.
  static Configurations near(const cublasLtMatmulAlgo_t& algorithm) {
    Configurations all(algorithm);
    all.tiles_ = {configured<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID)};
    all.stages_ = {configured<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID)};
    return all;
  }
  explicit Configurations(const cublasLtMatmulAlgo_t& algorithm)
      : algorithm_(algorithm),
        tiles_(capabilities(algorithm, CUBLASLT_ALGO_CAP_TILE_IDS)),
        stages_(capabilities(algorithm, CUBLASLT_ALGO_CAP_STAGES_IDS)),
        options_(1 +
                 static_cast<std::int64_t>(std::min(
                     kMostOptions, static_cast<std::uint32_t>(std::max(
                                       0, capability<std::int32_t>(algorithm, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX)))))),
        swizzles_(capability<std::uint32_t>(algorithm, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT) != 0 ? 2 : 1) {}

  std::int64_t count() const { return size(tiles_) * size(stages_) * options_ * swizzles_ * kClusters; }

  cublasLtMatmulAlgo_t operator[](std::int64_t i) const {
    const auto next = [&i](std::int64_t extent) {
      return static_cast<std::size_t>(std::exchange(i, i / extent) % extent);
    };
    cublasLtMatmulAlgo_t result = algorithm_;
    configure(result, CUBLASLT_ALGO_CONFIG_TILE_ID, tiles_[next(size(tiles_))]);
    configure(result, CUBLASLT_ALGO_CONFIG_STAGES_ID, stages_[next(size(stages_))]);
    configure(result, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, static_cast<std::uint32_t>(next(options_)));
    configure(result, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, static_cast<std::uint32_t>(next(swizzles_)));
    configure(result, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, static_cast<std::uint16_t>(next(kClusters)));
    return result;
  }

 private:
  static constexpr std::int64_t kClusters = CUBLASLT_CLUSTER_SHAPE_END;
  static std::int64_t size(const std::vector<std::uint32_t>& v) { return static_cast<std::int64_t>(v.size()); }

  cublasLtMatmulAlgo_t algorithm_;
  std::vector<std::uint32_t> tiles_, stages_;
  std::int64_t options_, swizzles_;
};

using Timed = LtTimed;

class Search {
 public:
  Search(cublasLtHandle_t handle, cudaStream_t stream, LtProblem& problem, const LtGemmArgs& args,
         const LtSearchLimits& limits)
      : handle_(handle), problem_(problem), args_(args), limits_(limits), timer_(handle, stream, problem, args) {}

  LtSearch run(const LtCandidate& baseline) {
    const auto candidates = supported();
    std::vector<Timed> timed = once(candidates);
    result_.timed = static_cast<std::int64_t>(timed.size()) + refused_;
    keep_fastest(timed, kFinalists);
    const auto split = once(splits_of(timed));
    timed.insert(timed.end(), split.begin(), split.end());
    keep_fastest(timed, kFinalists);
    const auto [best, first] = final_round(baseline, timed);
    result_.best = best.candidate;
    result_.microseconds = best.microseconds;
    result_.baseline_microseconds = first;
    return result_;
  }

  Timed refine(std::vector<Timed> tried) {
    keep_fastest(tried, kRefined);
    const Timed fastest = tried.front();
    std::vector<LtCandidate> near;
    for (const Timed& t : tried) {
      const auto configurations = Configurations::near(t.candidate.algorithm);
      for (std::int64_t i = 0; i < configurations.count(); ++i) {
        if (const auto candidate = checked(configurations[i])) near.push_back(*candidate);
      }
    }
    std::vector<Timed> timed = once(near);
    keep_fastest(timed, kFinalistsOfRefined);
    return final_round(fastest.candidate, timed).first;
  }

 private:
  /// Times the baseline and the others in turns. Returns the fastest of them, and the time of the baseline.
  std::pair<Timed, float> final_round(const LtCandidate& baseline, const std::vector<Timed>& others) {
    std::vector<LtCandidate> finalists = {baseline};
    for (const Timed& t : others) finalists.push_back(t.candidate);
    const auto times = timer_.time_all(finalists);
    std::size_t best = 0;
    for (std::size_t i = 1; i < times.size(); ++i) {
      if (times[i] > 0 && (times[best] == 0 || times[i] < times[best])) best = i;
    }
    return {{finalists[best], times[best]}, times.front()};
  }

  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  std::optional<LtCandidate> checked(const cublasLtMatmulAlgo_t& algorithm) {
    const auto workspace = problem_.check(handle_, algorithm);
    if (!workspace || *workspace > args_.workspace_bytes) return std::nullopt;
    return LtCandidate{algorithm, *workspace, {}};
  }

  // Queries which configurations are supported, in an order that mixes them. So a time limit does not leave out a whole
  // class of configurations.
  std::vector<LtCandidate> supported() {
    std::vector<Configurations> algorithms;
    for (const int id : problem_.algorithm_ids(handle_)) {
      if (const auto algorithm = problem_.algorithm(handle_, id)) algorithms.emplace_back(*algorithm);
    }
    for (const auto& a : algorithms) result_.possible += a.count();
    std::vector<LtCandidate> found;
    const std::int64_t step = coprime_step(result_.possible);
    const auto start = Clock::now();
    std::int64_t at = 0;
    for (; result_.checked < result_.possible; ++result_.checked, at = (at + step) % result_.possible) {
      if (result_.checked % 256 == 0 && seconds_since(start) > limits_.check_seconds) break;
      std::int64_t i = at;
      auto a = algorithms.begin();
      for (; i >= a->count(); ++a) i -= a->count();
      if (const auto candidate = checked((*a)[i])) found.push_back(*candidate);
    }
    result_.supported = static_cast<std::int64_t>(found.size());
    return found;
  }

  static std::int64_t coprime_step(std::int64_t count) {
    std::int64_t step = std::max<std::int64_t>(1, static_cast<std::int64_t>(0.618 * static_cast<double>(count)));
    while (std::gcd(step, count) > 1) ++step;
    return step;
  }

  std::vector<Timed> once(const std::vector<LtCandidate>& candidates) {
    std::vector<Timed> timed;
    refused_ = 0;
    const auto start = Clock::now();
    for (const LtCandidate& candidate : candidates) {
      if (seconds_since(start) > limits_.run_seconds) break;
      if (timer_.runs(candidate)) {
        timed.push_back({candidate, timer_.time(candidate, 1)});
      } else {
        ++refused_;
      }
    }
    return timed;
  }

  // Configurations with the depth split. Partial sums are fp32 only, as candidates() requires of the heuristic.
  std::vector<LtCandidate> splits_of(const std::vector<Timed>& timed) {
    std::vector<LtCandidate> result;
    for (const Timed& t : timed) {
      for (const std::int32_t split : kSplits) {
        for (const std::uint32_t scheme : {CUBLASLT_REDUCTION_SCHEME_INPLACE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) {
          if (scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE && problem_.key().out != tensor::DType::fp32) continue;
          cublasLtMatmulAlgo_t algorithm = t.candidate.algorithm;
          configure(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, split);
          configure(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, scheme);
          if (const auto candidate = checked(algorithm)) result.push_back(*candidate);
        }
      }
    }
    return result;
  }

  static void keep_fastest(std::vector<Timed>& timed, std::size_t most) {
    const auto middle = timed.begin() + static_cast<std::ptrdiff_t>(std::min(most, timed.size()));
    std::partial_sort(timed.begin(), middle, timed.end(),
                      [](const Timed& a, const Timed& b) { return a.microseconds < b.microseconds; });
    timed.erase(middle, timed.end());
  }

  cublasLtHandle_t handle_;
  LtProblem& problem_;
  LtGemmArgs args_;
  LtSearchLimits limits_;
  LtTimer timer_;
  LtSearch result_;
  std::int64_t refused_ = 0;
};

}  // namespace

LtTimer::LtTimer(cublasLtHandle_t handle, cudaStream_t stream, LtProblem& problem, const LtGemmArgs& args)
    : handle_(handle),
      stream_(stream),
      problem_(problem),
      args_(args),
      start_(Event::Times::yes),
      stop_(Event::Times::yes) {}

bool LtTimer::runs(const LtCandidate& candidate) {
  const cublasStatus_t status = problem_.enqueue(handle_, stream_, args_, candidate);
  if (status == CUBLAS_STATUS_EXECUTION_FAILED || status == CUBLAS_STATUS_INTERNAL_ERROR) {
    // Clears the error of a launch that was refused. An error of the device itself stays, and the next line finds it.
    static_cast<void>(cudaGetLastError());
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream_));
    return false;
  }
  if (refuses(status)) return false;
  SHARD8_CUBLAS_CHECK(status);
  SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream_));
  return true;
}

// A first run, not timed, keeps the device busy. So the time includes no wait for the host's launch.
float LtTimer::time(const LtCandidate& candidate, int repeats) {
  for (int i = 0; i <= repeats; ++i) {
    SHARD8_CUBLAS_CHECK(problem_.enqueue(handle_, stream_, args_, candidate));
    if (i == 0) start_.record(stream_);
  }
  stop_.record(stream_);
  stop_.synchronize();
  return static_cast<float>(stop_.seconds_since(start_) * 1e6) / static_cast<float>(repeats);
}

std::vector<float> LtTimer::time_all(const std::vector<LtCandidate>& candidates) {
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!runs(candidates[i])) continue;
    const float once = std::max(time(candidates[i], 1), 1.0f);
    const float repeats = std::clamp(std::ceil(kBatchMicroseconds / once), 1.0f, kMostRepeats);
    contenders.push_back({i, static_cast<int>(repeats), {}});
  }
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (Contender& c : contenders) c.microseconds[round] = time(candidates[c.index], c.repeats);
  }
  std::vector<float> result(candidates.size(), 0.0f);
  for (const Contender& c : contenders) result[c.index] = median(c.microseconds);
  return result;
}

LtSearch search(cublasLtHandle_t handle, cudaStream_t stream, LtProblem& problem, const LtGemmArgs& args,
                const LtCandidate& baseline, const LtSearchLimits& limits) {
  return Search(handle, stream, problem, args, limits).run(baseline);
}

LtTimed refine(cublasLtHandle_t handle, cudaStream_t stream, LtProblem& problem, const LtGemmArgs& args,
               std::vector<LtTimed> tried, double run_seconds) {
  return Search(handle, stream, problem, args, {0, run_seconds}).refine(std::move(tried));
}

std::string describe(const LtCandidate& candidate) {
  if (candidate.is_cutlass()) {
    return fmt::format("cutlass {}, swizzle {}, along {}", candidate.cutlass.version, candidate.cutlass.swizzle,
                       candidate.cutlass.along_rows ? "rows" : "columns");
  }
  const cublasLtMatmulAlgo_t& algorithm = candidate.algorithm;
  return fmt::format("algorithm {}, tile {}, stages {}, split {}, scheme {}, swizzle {}, option {}, cluster {}",
                     configured<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID),
                     configured<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
                     configured<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                     configured<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                     configured<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
                     configured<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
                     configured<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
                     configured<std::uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
}

}  // namespace shard8::kernels::cuda
