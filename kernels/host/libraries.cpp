// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <vector>

#include "base/error.hpp"
#include "kernels/blas/blas_core.hpp"
#include "kernels/host/blas.hpp"
#include "kernels/libraries.hpp"

/// On hosts there is no choice of algorithms, so there is nothing to keep.

namespace shard8::kernels {

struct Libraries::Parts {};

Libraries::Libraries() = default;
Libraries::~Libraries() = default;
void Libraries::set_tuning(Tuning tuning) { tuning_ = tuning; }
std::string Libraries::algorithms() const { return {}; }
bool Libraries::adopt(std::string_view algorithms) { return algorithms.empty(); }
std::vector<Libraries::Choice> Libraries::choices() const { return {}; }

namespace {

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && std::atoi(value) > 0;  // as OpenBLAS reads it
}

}  // namespace

std::string blas_description() {
  auto* const config = openblas_function<char*()>("openblas_get_config");
  return config == nullptr ? "unknown vendor" : config();
}

int blas_threads(int threads) {
  auto* const kind = openblas_function<int()>("openblas_get_parallel");
  auto* const count = openblas_function<int()>("openblas_get_num_threads");
  if (kind == nullptr || count == nullptr) return 0;
  constexpr int kOwnThreads = 1, kOpenMP = 2;
  const bool named = is_set("OPENBLAS_NUM_THREADS") || is_set("GOTO_NUM_THREADS");
  switch (kind()) {
    case kOwnThreads:
      if (auto* const set = openblas_function<void(int)>("openblas_set_num_threads"); set != nullptr && !named)
        set(threads);
      return count();
    case kOpenMP:
      return threads;  // the BLAS asks OpenMP at each product, and has no number of its own
    default:
      return 0;
  }
}

void reserve_blas_memory(int threads) {
  // The size of one working buffer of OpenBLAS (BUFFER_SIZE of its common_x86_64.h). A product on one thread maps one;
  // a product on several maps one, and one for each thread.
  constexpr std::size_t kBuffer = std::size_t{128} << 20;
  const std::size_t bytes = kBuffer * static_cast<std::size_t>(threads == 1 ? 1 : threads + 1);
  void* const trial = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (trial == MAP_FAILED) {
    base::fail(base::ExitCode::environment,
               "cannot allocate {} bytes of working memory for the BLAS: raise the limit on this process's memory "
               "(ulimit -v, the job's --mem), or lower OMP_NUM_THREADS",
               bytes);
  }
  ::munmap(trial, bytes);
  // A product that is large enough to run on all threads; a smaller one may need no buffer.
  constexpr std::int64_t kRows = 256;
  const std::vector<float> a(kRows * kRows, 0.0f);
  std::vector<float> c(a.size());
  sgemm(c.data(), kRows, {a.data(), kRows}, {a.data(), kRows}, kRows, kRows, kRows, 1, 0);
}

}  // namespace shard8::kernels
