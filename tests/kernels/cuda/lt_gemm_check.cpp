// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "kernels/cuda/cutlass_gemm.hpp"
#include "kernels/cuda/library_check.hpp"
#include "tensor/cuda/device.hpp"
#include "tests/kernels/cuda/totals.hpp"

/// Compares matrix products on a device with double-precision ones, and times them.
///
///     lt_gemm_check [small] [cutlass] [linear] [kernels] [large] [speed] [tensor=1,2,4] [search=SECONDS]
///
/// Without arguments it runs small, cutlass, linear and kernels. `large` times the shapes of a layer of Llama-3 8B, cut
/// over as many tensor ranks as `tensor` says. `search` compares each with all of cuBLASLt's algorithms, for at most so
/// many seconds. `speed` times the kernels that prepare operands. Exits with 0; 1 for any failure; 2 for a wrong
/// argument; 77 if there is no device of compute capability 9.0, or if only `cutlass` is asked for and the build is
/// without CUTLASS.
namespace {

using namespace shard8::test;

constexpr int kSkipped = 77;

struct Arguments {
  EngineOptions engine;
  bool linear = false, kernels = false, speed = false;

  bool any() const { return engine.small || engine.large || engine.cutlass || linear || kernels || speed; }
};

bool parse(Arguments& arguments, const char* word) {
  const auto value_of = [&](const char* name) {
    return std::strncmp(word, name, std::strlen(name)) == 0 ? word + std::strlen(name) : nullptr;
  };
  for (auto& [name, flag] : {std::pair<const char*, bool&>{"small", arguments.engine.small},
                             {"large", arguments.engine.large},
                             {"cutlass", arguments.engine.cutlass},
                             {"linear", arguments.linear},
                             {"kernels", arguments.kernels},
                             {"speed", arguments.speed}}) {
    if (std::strcmp(word, name) == 0) return flag = true;
  }
  if (const char* list = value_of("tensor=")) {
    arguments.engine.tensor.clear();
    for (char* end = nullptr; *list != '\0'; list = *end == ',' ? end + 1 : end) {
      const long tensor = std::strtol(list, &end, 10);
      if (end == list || tensor < 1 || tensor > 8) return false;
      arguments.engine.tensor.push_back(static_cast<int>(tensor));
    }
    return !arguments.engine.tensor.empty();
  }
  if (const char* seconds = value_of("search=")) {
    arguments.engine.search_seconds = std::atof(seconds);
    return arguments.engine.search_seconds > 0;
  }
  return false;
}

void print(const Totals& totals) {
  std::printf("\nlargest |error| / sum |a||b| (fp32 outputs): random numbers, positive numbers\n");
  for (std::size_t i = 0; i < kSums; ++i) {
    std::printf("%-10s %.3g = 2^%.1f, %.3g = 2^%.1f\n", kSumNames[i], totals.random_eps[i],
                std::log2(totals.random_eps[i]), totals.positive_eps[i], std::log2(totals.positive_eps[i]));
  }
  if (!totals.products.empty()) {
    std::printf("\n%-40s %-20s %9s %8s %9s %9s %6s %s\n", "product", "kind", "us", "TFLOP/s", "first us", "best us",
                "gain", "best is");
  }
  for (const std::string& row : totals.products) std::printf("%s\n", row.c_str());
  if (!totals.speeds.empty()) std::printf("\n");
  for (const std::string& row : totals.speeds) std::printf("%s\n", row.c_str());
  std::printf("\n%d passed, %d failed, %d unsupported that nothing needs\n", totals.passed, totals.failed,
              totals.unsupported);
}

int run_all(const Arguments& arguments) {
  cudaStream_t stream = nullptr;
  SHARD8_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Totals totals;
  if (arguments.kernels || arguments.speed) check_kernels(stream, arguments.speed, totals);
  if (arguments.linear) check_linear(stream, totals);
  check_engine(stream, arguments.engine, totals);
  SHARD8_CUDA_CHECK(cudaStreamDestroy(stream));
  print(totals);
  return totals.failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 1024);  // so that lines printed before a crash are seen
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    if (parse(arguments, argv[i])) continue;
    std::printf("'%s'; allowed are small, cutlass, linear, kernels, large, speed, tensor=1,2,4 and search=SECONDS\n",
                argv[i]);
    return 2;
  }
  if (!arguments.any()) {
    arguments.engine.small = arguments.engine.cutlass = arguments.linear = arguments.kernels = true;
  }
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::printf("skipped: no CUDA device (%s)\n", cudaGetErrorString(status));
    return kSkipped;
  }
  try {
    int major = 0, minor = 0;
    SHARD8_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    SHARD8_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
    if (major != 9 || minor != 0) {
      std::printf("skipped: device 0 has compute capability %d.%d; needed is 9.0\n", major, minor);
      return kSkipped;
    }
    Arguments others = arguments;
    others.engine.cutlass = false;
    if (!others.any() && shard8::kernels::cuda::cutlass_version() == 0) {
      std::printf("skipped: this build is without CUTLASS\n");
      return kSkipped;
    }
    std::printf("%s\n", shard8::kernels::cuda::cublaslt_version().c_str());
    return run_all(arguments);
  } catch (const std::exception& error) {
    std::printf("FAILED  %s\n", error.what());
    return 1;
  }
}
