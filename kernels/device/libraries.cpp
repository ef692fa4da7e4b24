// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/libraries.hpp"
#include "base/error.hpp"
#include "kernels/cuda/cutlass_gemm.hpp"
#include "kernels/cuda/library_check.hpp"
#include "kernels/device/parts.hpp"

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

}  // namespace shard8::kernels
