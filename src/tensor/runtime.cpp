// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/runtime.hpp"

#include <Kokkos_Core.hpp>
#include <limits>
#include <string>

#include "base/error.hpp"

#if defined(KOKKOS_ENABLE_OPENMP)
#include <omp.h>
#endif

#if defined(SHARD8_CUDA)
#include "tensor/cuda/device.hpp"
#endif

namespace shard8::tensor {

namespace {

Kokkos::InitializationSettings settings_of(const Runtime::Settings& settings) {
  // Warnings are disabled, because Kokkos would warn of two things that are chosen here: more ranks than cores (see
  // comm/host_waits.hpp), and threads that are not bound.
  auto kokkos = Kokkos::InitializationSettings().set_num_threads(settings.threads).set_disable_warnings(true);
  if constexpr (kDevice) kokkos.set_device_id(settings.device);
  return kokkos;
}

}  // namespace

struct Runtime::Instance {
  explicit Instance(const Settings& settings) : scope(settings_of(settings)) {
#if defined(KOKKOS_ENABLE_OPENMP)
    omp_set_dynamic(0);
#endif
  }

  Kokkos::ScopeGuard scope;
#if defined(SHARD8_CUDA)
  cuda::Stream stream;
  Exec exec{stream.get()};
#else
  Exec exec;
#endif
};

Runtime::Runtime(const Settings& settings) : instance_(std::make_unique<Instance>(settings)) {}
Runtime::~Runtime() = default;

const Exec& Runtime::exec() const { return instance_->exec; }

int Runtime::threads() const { return kDevice ? 1 : instance_->exec.concurrency(); }

struct StreamExec::Instance {
  Exec exec;
};

StreamExec::StreamExec([[maybe_unused]] void* stream) {
#if defined(SHARD8_CUDA)
  instance_ = std::make_unique<Instance>(Exec(static_cast<cudaStream_t>(stream)));
#else
  base::fail(base::ExitCode::failed, "hosts have no streams");
#endif
}
StreamExec::~StreamExec() = default;
const Exec& StreamExec::get() const { return instance_->exec; }

#if defined(KOKKOS_ENABLE_OPENMP)
int count_threads(int threads) {
  int found = 0;
#pragma omp parallel num_threads(threads)
  {
#pragma omp single
    found = omp_get_num_threads();
  }
  return found;
}

int thread_limit() { return omp_get_thread_limit(); }
#else
int count_threads(int threads) { return threads; }

int thread_limit() { return std::numeric_limits<int>::max(); }
#endif

std::string kokkos_description() {
  return std::to_string(KOKKOS_VERSION / 10000) + '.' + std::to_string(KOKKOS_VERSION / 100 % 100) + '.' +
         std::to_string(KOKKOS_VERSION % 100) + ", kernels on " + Exec::name();
}

#if defined(SHARD8_CUDA)
cudaStream_t cuda::stream_of(const Exec& exec) { return exec.cuda_stream(); }
#endif

}  // namespace shard8::tensor
