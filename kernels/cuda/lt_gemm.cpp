// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/lt_gemm.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "kernels/cuda/cutlass_gemm.hpp"
#include "kernels/cuda/library_check.hpp"
#include "kernels/cuda/lt_problem.hpp"

namespace shard8::kernels::cuda {
namespace {

using base::ExitCode;

/// Products that take less time than this are not refined: refining would take longer than it saves.
constexpr float kWorthRefining = 100.0f;  // us
constexpr double kRefineSeconds = 0.5;

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(LtAlgorithm::bytes));

LtCandidate candidate_of(const LtAlgorithm& chosen) {
  LtCandidate candidate;
  std::memcpy(&candidate.algorithm, chosen.bytes.data(), sizeof(candidate.algorithm));
  candidate.workspace_bytes = chosen.workspace_bytes;
  candidate.cutlass = chosen.cutlass;
  return candidate;
}

void take(LtAlgorithm& chosen, const LtCandidate& candidate) {
  chosen.workspace_bytes = candidate.workspace_bytes;
  chosen.cutlass = candidate.cutlass;
  std::memcpy(chosen.bytes.data(), &candidate.algorithm, sizeof(candidate.algorithm));
}

void take(LtAlgorithm& chosen, const std::vector<LtCandidate>& candidates, std::size_t index) {
  chosen.index = static_cast<std::int32_t>(index);
  chosen.offered = static_cast<std::int32_t>(candidates.size());
  take(chosen, candidates[index]);
}

LtAlgorithms current_machine() {
  LtAlgorithms machine;
  machine.library = cublasLtGetVersion();
  machine.multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount);
  machine.compute_capability =
      10 * device_attribute(cudaDevAttrComputeCapabilityMajor) + device_attribute(cudaDevAttrComputeCapabilityMinor);
  return machine;
}

}  // namespace

LtGemm::LtGemm() : machine_(current_machine()) { SHARD8_CUBLAS_CHECK(cublasLtCreate(&handle_)); }

// A destructor cannot throw. An error here comes from earlier work, and the next call reports it.
LtGemm::~LtGemm() { static_cast<void>(cublasLtDestroy(handle_)); }

bool LtGemm::adopt(const LtAlgorithms& algorithms) {
  if (!algorithms.same_machine(machine_)) return false;
  for (const LtAlgorithm& algorithm : algorithms.list) {
    if (algorithm.cutlass.version > 0 && algorithm.cutlass.version != cutlass_version()) return false;
  }
  std::vector<Plan> plans;  // all of them first, because a malformed key throws
  for (const LtAlgorithm& algorithm : algorithms.list)
    plans.push_back(Plan{LtProblem(algorithm.key), algorithm, false});
  for (Plan& plan : plans) plans_.insert_or_assign(plan.chosen.key, std::move(plan));
  return true;
}

void LtGemm::run(cudaStream_t stream, const LtGemmKey& key, const LtGemmArgs& args) {
  Plan& plan = plan_of(key);
  LtProblem::check_args(key, args);
  if (tuning_ != LtTuning::off && !is_tuned(plan) && !tune(stream, plan, args)) none_runs(key, args);
  if (!plan.ran) {
    if (!run_first(stream, plan, args)) none_runs(key, args);
    return;
  }
  const cublasStatus_t status = enqueue(stream, plan, args);
  if (status != CUBLAS_STATUS_SUCCESS) {
    base::fail(ExitCode::failed, "gemm {}: cublaslt gave {} ({}) with a workspace of {} bytes; its algorithm needs {}",
               describe(key), static_cast<int>(status), cublasLtGetStatusString(status), args.workspace_bytes,
               plan.chosen.workspace_bytes);
  }
}

bool LtGemm::try_prepare(cudaStream_t stream, const LtGemmKey& key, const LtGemmArgs& args) {
  Plan& plan = plan_of(key);
  LtProblem::check_args(key, args);
  if (tuning_ != LtTuning::off && !is_tuned(plan)) return tune(stream, plan, args);
  return plan.ran || run_first(stream, plan, args);
}

LtGemm::Plan& LtGemm::plan_of(const LtGemmKey& key) {
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  LtProblem problem(key);  // checks the key
  return plans_.emplace(key, Plan{problem, {.key = key}, false}).first->second;
}

bool LtGemm::is_tuned(const Plan& plan) const {
  return plan.chosen.microseconds > 0 && (tuning_ != LtTuning::exhaustive || plan.chosen.searched_microseconds > 0);
}

cublasStatus_t LtGemm::enqueue(cudaStream_t stream, Plan& plan, const LtGemmArgs& args) {
  if (args.workspace_bytes < plan.chosen.workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  return plan.problem.enqueue(handle_, stream, args, candidate_of(plan.chosen));
}

// A refused algorithm enqueues nothing, so the next one can be tried.
bool LtGemm::run_first(cudaStream_t stream, Plan& plan, const LtGemmArgs& args) {
  if (plan.chosen.is_chosen()) {
    const cublasStatus_t status = enqueue(stream, plan, args);
    plan.ran = status == CUBLAS_STATUS_SUCCESS;
    if (!plan.ran && !refuses(status)) SHARD8_CUBLAS_CHECK(status);
    if (plan.ran) return true;
  }
  plan.chosen = {.key = plan.chosen.key};
  const auto candidates = plan.problem.candidates(handle_, args, kCandidates);
  for (std::size_t i = 0; i < candidates.size() && !plan.ran; ++i) {
    take(plan.chosen, candidates, i);
    const cublasStatus_t status = enqueue(stream, plan, args);
    plan.ran = status == CUBLAS_STATUS_SUCCESS;
    if (!plan.ran && !refuses(status)) SHARD8_CUBLAS_CHECK(status);
    if (!plan.ran) ++plan.chosen.refused;
  }
  if (!plan.ran) plan.chosen = {.key = plan.chosen.key};
  return plan.ran;
}

bool LtGemm::tune(cudaStream_t stream, Plan& plan, const LtGemmArgs& args) {
  const auto candidates = plan.problem.candidates(handle_, args, kCandidates);
  LtTimer timer(handle_, stream, plan.problem, args);
  const auto times = timer.time_all(candidates);
  LtAlgorithm chosen{.key = plan.chosen.key};
  chosen.refused = static_cast<std::int32_t>(std::count(times.begin(), times.end(), 0.0f));
  std::vector<LtTimed> ran;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (times[i] > 0.0f) ran.push_back({candidates[i], times[i]});
    if (times[i] == 0.0f || (chosen.microseconds > 0 && chosen.microseconds <= times[i])) continue;
    take(chosen, candidates, i);
    chosen.microseconds = times[i];
  }
  if (!times.empty()) chosen.first_microseconds = times.front();
  if (chosen.microseconds >= kWorthRefining) {
    const LtTimed refined = refine(handle_, stream, plan.problem, args, std::move(ran), kRefineSeconds);
    chosen.microseconds = refined.microseconds;
    take(chosen, refined.candidate);
  }
  try_cutlass(timer, chosen);
  if (chosen.microseconds == 0.0f) return false;
  if (tuning_ == LtTuning::exhaustive) {
    const LtSearch found = search(handle_, stream, plan.problem, args, candidate_of(chosen), limits_);
    chosen.microseconds = found.baseline_microseconds;
    chosen.searched_microseconds = found.microseconds;
    searched_.insert_or_assign(chosen.key, found);
  }
  plan.chosen = chosen;
  plan.ran = true;
  return true;
}

/// Times CUTLASS's kernel and the algorithm chosen so far in turns, and takes CUTLASS's if it is faster.
void LtGemm::try_cutlass(LtTimer& timer, LtAlgorithm& chosen) const {
  std::vector<LtCandidate> candidates;
  for (const CutlassConfig& config : cutlass_configs(chosen.key, machine_.compute_capability)) {
    candidates.push_back({.cutlass = config});
  }
  if (candidates.empty()) return;
  if (chosen.is_chosen()) candidates.push_back(candidate_of(chosen));
  const auto times = timer.time_all(candidates);
  if (chosen.is_chosen()) chosen.microseconds = times.back();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (times[i] == 0.0f || (chosen.microseconds > 0 && chosen.microseconds <= times[i])) continue;
    chosen.microseconds = times[i];
    take(chosen, candidates[i]);
  }
}

void LtGemm::none_runs(const LtGemmKey& key, const LtGemmArgs& args) const {
  base::fail(
      ExitCode::environment,
      "gemm {}: cublaslt {} has no algorithm that runs on compute capability {}.{} with a workspace of {} bytes; "
      "use another dtype or scaling",
      describe(key), machine_.library, machine_.compute_capability / 10, machine_.compute_capability % 10,
      args.workspace_bytes);
}

const LtAlgorithm& LtGemm::algorithm(const LtGemmKey& key) const {
  const auto found = plans_.find(key);
  if (found == plans_.end()) base::fail(ExitCode::failed, "gemm {}: was not run", describe(key));
  return found->second.chosen;
}

const LtSearch* LtGemm::searched(const LtGemmKey& key) const {
  const auto found = searched_.find(key);
  return found == searched_.end() ? nullptr : &found->second;
}

LtAlgorithms LtGemm::algorithms() const {
  LtAlgorithms result = machine_;
  for (const auto& [key, plan] : plans_) {
    if (plan.chosen.is_chosen()) result.list.push_back(plan.chosen);
  }
  std::sort(result.list.begin(), result.list.end(),
            [](const LtAlgorithm& a, const LtAlgorithm& b) { return a.key < b.key; });
  return result;
}

}  // namespace shard8::kernels::cuda
