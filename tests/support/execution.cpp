// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/execution.hpp"

#include <Kokkos_Core.hpp>
#include <cstdlib>
#include <type_traits>

#if defined(SHARD8_CUDA)
#include "tensor/cuda/device.hpp"
#endif

namespace shard8::tests {

namespace {

const tensor::Exec* current = nullptr;

Kokkos::InitializationSettings settings_for(int device) {
  auto settings = Kokkos::InitializationSettings().set_disable_warnings(true);
  if constexpr (tensor::kDevice) settings.set_device_id(device);
  return settings;
}

}  // namespace

struct Execution::Instance {
  explicit Instance(int device) : scope(settings_for(device)) { current = &exec; }
  ~Instance() { current = nullptr; }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  Kokkos::ScopeGuard scope;
#if defined(SHARD8_CUDA)
  tensor::cuda::Stream stream;
  tensor::Exec exec{stream.get()};
#else
  tensor::Exec exec;
#endif
};

Execution::Execution(int device) : instance_(std::make_unique<Instance>(device)) {}
Execution::~Execution() = default;

const tensor::Exec& exec() {
  if (current == nullptr) std::abort();  // the main function of the program constructed no Execution
  return *current;
}

namespace {

template <class Space>
std::shared_ptr<const Space> made_of_threads(int count) {
  if constexpr (!tensor::kDevice && std::is_constructible_v<Space, int>) return std::make_shared<const Space>(count);
  return nullptr;
}

}  // namespace

std::shared_ptr<const tensor::Exec> exec_of_threads(int count) { return made_of_threads<tensor::Exec>(count); }

int threads() { return tensor::kDevice ? 1 : exec().concurrency(); }

}  // namespace shard8::tests
