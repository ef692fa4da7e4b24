// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/blas.hpp"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstddef>
#include <vector>

#include "base/error.hpp"
#include "kernels/host/blas.hpp"

namespace shard8::kernels {

std::string blas_description() {
  // The function is looked up by name, so that the program links with any BLAS.
  using Text = char* (*)();
  const auto ask = [](const char* name) -> std::string {
    const auto function = reinterpret_cast<Text>(dlsym(RTLD_DEFAULT, name));
    return function == nullptr ? "" : function();
  };
  const std::string config = ask("openblas_get_config");
  if (!config.empty()) return config;
  return "unknown vendor";
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
