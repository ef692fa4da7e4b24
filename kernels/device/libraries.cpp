// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/libraries.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "kernels/cuda/cutlass_gemm.hpp"
#include "kernels/cuda/library_check.hpp"
#include "kernels/cuda/waiting.hpp"
#include "kernels/device/parts.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::kernels {
namespace {

using cuda::LtTuning;

LtTuning lt_tuning(Tuning tuning) {
  switch (tuning) {
    case Tuning::off:
      return LtTuning::off;
    case Tuning::candidates:
      return LtTuning::candidates;
    case Tuning::exhaustive:
      return LtTuning::exhaustive;
  }
  return LtTuning::off;
}

std::string describe(const cuda::LtSearch& search) {
  return fmt::format("{} of {} configurations checked, {} of {} supported ones run; best: {}", search.checked,
                     search.possible, search.timed, search.supported, cuda::describe(search.best));
}

}  // namespace

Libraries::Libraries() : parts_(std::make_unique<Parts>()) {}
Libraries::~Libraries() = default;

void Libraries::set_tuning(Tuning tuning) {
  tuning_ = tuning;
  parts_->gemm.set_tuning(lt_tuning(tuning));
}

std::string Libraries::algorithms() const { return cuda::to_text(parts_->gemm.algorithms()); }

bool Libraries::adopt(std::string_view algorithms) { return parts_->gemm.adopt(cuda::algorithms_of_text(algorithms)); }

std::vector<Libraries::Choice> Libraries::choices() const {
  std::vector<Choice> choices;
  for (const cuda::LtAlgorithm& a : parts_->gemm.algorithms().list) {
    Choice choice{.product = cuda::describe(a.key),
                  .m = a.key.rows,
                  .n = a.key.cols,
                  .k = a.key.depth,
                  .dtype = std::string(tensor::name_of(a.key.left.dtype)),
                  .out_dtype = std::string(tensor::name_of(a.key.out)),
                  .flops = cuda::flops(a.key),
                  .microseconds = a.microseconds,
                  .first_microseconds = a.first_microseconds,
                  .best_microseconds = a.searched_microseconds,
                  .guess = a.index,
                  .guesses = a.offered,
                  .cutlass = a.cutlass.version > 0,
                  .searched = {}};
    if (const cuda::LtSearch* search = parts_->gemm.searched(a.key)) choice.searched = describe(*search);
    choices.push_back(std::move(choice));
  }
  return choices;
}

Libraries::Parts& parts_of(const Workspace& workspace, const char* kernel) {
  SHARD8_REQUIRE(workspace.libraries != nullptr, "{}: the workspace has no libraries; on a device it needs them",
                 kernel);
  return workspace.libraries->parts();
}

std::string blas_description() {
  const std::int32_t cutlass = cuda::cutlass_version();
  const std::string kernels =
      cutlass > 0 ? fmt::format("CUTLASS {}.{}.{}", cutlass / 100, cutlass / 10 % 10, cutlass % 10) : "no CUTLASS";
  return fmt::format("{}, {}, {}", cuda::cublaslt_version(), cuda::cudnn_version(), kernels);
}

int blas_threads(int) { return 0; }

void reserve_blas_memory(int) {}

namespace {

constexpr std::size_t kMemory = std::size_t{256} << 20;  ///< chosen: several times the second cache
/// Bytes a second that one block of 1024 threads reads. Chosen: 132 such blocks read 3 TB/s on an H100, and this is two
/// thirds of one block's share.
constexpr double kBlockBandwidth = 15e9;

}  // namespace

struct Waiter::Parts {
  double bandwidth = 0;
  double overhead_s = 0;  ///< from one kernel's end to the next one's begin
  int blocks = 1;
  std::uint64_t* memory = nullptr;

  void launch(cudaStream_t stream, double seconds) const {
    cuda::launch_wait(stream, static_cast<std::uint64_t>(std::llround(seconds * 1e9)), blocks, memory,
                      memory == nullptr ? 0 : kMemory, bandwidth / 1e9);
  }
};

Waiter::Waiter(const tensor::Exec& exec, double read_bandwidth) : parts_(std::make_unique<Parts>()) {
  const cudaStream_t stream = tensor::cuda::stream_of(exec);
  if (read_bandwidth > 0) {
    const int most = tensor::cuda::describe_device(tensor::cuda::current_device()).multiprocessors;
    parts_->bandwidth = read_bandwidth;
    parts_->blocks = std::clamp(static_cast<int>(std::ceil(read_bandwidth / kBlockBandwidth)), 1, most);
    SHARD8_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&parts_->memory), kMemory));
    SHARD8_CUDA_CHECK(cudaMemsetAsync(parts_->memory, 0, kMemory, stream));
  }
  constexpr int kCalls = 200;
  constexpr double kEach_s = 20e-6;
  const tensor::cuda::Event begin(tensor::cuda::Event::Times::yes), end(tensor::cuda::Event::Times::yes);
  for (int round = 0; round < 2; ++round) {  // the first one loads the kernel
    begin.record(stream);
    for (int k = 0; k < kCalls; ++k) parts_->launch(stream, kEach_s);
    end.record(stream);
    end.synchronize();
  }
  parts_->overhead_s = std::max(0.0, end.seconds_since(begin) / kCalls - kEach_s);
}

Waiter::~Waiter() { cudaFree(parts_->memory); }

void Waiter::wait(const tensor::Exec& exec, double seconds) {
  if (seconds <= 0) return;
  parts_->launch(tensor::cuda::stream_of(exec), std::max(0.0, seconds - parts_->overhead_s));
}

std::size_t Waiter::memory() const { return parts_->memory == nullptr ? 0 : kMemory; }

std::uint64_t Waiter::bytes_read() const { return 0; }

}  // namespace shard8::kernels
