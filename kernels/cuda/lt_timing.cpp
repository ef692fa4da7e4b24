// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/lt_timing.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cuda/cublas_check.hpp"
#include "tensor/cuda/check.hpp"

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

}  // namespace

LtTimer::LtTimer(cublasLtHandle_t handle, cudaStream_t stream, LtProblem& problem, const LtGemmArgs& args)
    : handle_(handle),
      stream_(stream),
      problem_(problem),
      args_(args),
      start_(Event::Times::yes),
      stop_(Event::Times::yes) {}

bool LtTimer::runs(const LtCandidate& candidate) {
  const cublasStatus_t status = problem_.enqueue(handle_, stream_, args_, candidate.algorithm);
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
    SHARD8_CUBLAS_CHECK(problem_.enqueue(handle_, stream_, args_, candidate.algorithm));
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

}  // namespace shard8::kernels::cuda
