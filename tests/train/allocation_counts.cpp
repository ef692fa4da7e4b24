// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/train/allocation_counts.hpp"

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

// The functions below replace those of the C++ library and of the shared libcudart in a program that links this file.

namespace {

thread_local std::uint64_t calls = 0, large = 0, of_attention = 0;
thread_local bool in_attention = false;

void* counted(std::size_t bytes, std::size_t alignment) noexcept {
  ++(in_attention ? of_attention : calls);
  if (bytes >= shard8::test::AllocationCounts::kLarge) ++large;
  if (bytes == 0) bytes = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* had(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

using Align = std::align_val_t;

}  // namespace

void* operator new(std::size_t n) { return had(counted(n, 1)); }
void* operator new[](std::size_t n) { return had(counted(n, 1)); }
void* operator new(std::size_t n, Align a) { return had(counted(n, static_cast<std::size_t>(a))); }
void* operator new[](std::size_t n, Align a) { return had(counted(n, static_cast<std::size_t>(a))); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return counted(n, 1); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return counted(n, 1); }
void* operator new(std::size_t n, Align a, const std::nothrow_t&) noexcept {
  return counted(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, Align a, const std::nothrow_t&) noexcept {
  return counted(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, Align) noexcept { std::free(p); }
void operator delete[](void* p, Align) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, Align) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, Align) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, Align, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, Align, const std::nothrow_t&) noexcept { std::free(p); }

#if defined(SHARD8_CUDA)

#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace {

std::atomic<std::uint64_t> device_calls{0};

/// The function of that name in the libraries that this program loads. Calls for 0 bytes are not counted; Kokkos makes
/// one at each launch of teams without scratch memory.
template <class F>
F next(F, const char* name, bool counts) {
  device_calls += counts ? 1 : 0;
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "allocation_counts: no %s in the shared libraries\n", name);
    std::abort();
  }
  return reinterpret_cast<F>(found);
}

}  // namespace

extern "C" {
cudaError_t CUDARTAPI cudaMalloc(void** p, std::size_t n) { return next(&cudaMalloc, "cudaMalloc", n > 0)(p, n); }
cudaError_t CUDARTAPI cudaMallocAsync(void** p, std::size_t n, cudaStream_t s) {
  return next(&cudaMallocAsync, "cudaMallocAsync", n > 0)(p, n, s);
}
cudaError_t CUDARTAPI cudaMallocManaged(void** p, std::size_t n, unsigned flags) {
  return next(&cudaMallocManaged, "cudaMallocManaged", n > 0)(p, n, flags);
}
cudaError_t CUDARTAPI cudaMallocHost(void** p, std::size_t n) {
  return next(&cudaMallocHost, "cudaMallocHost", n > 0)(p, n);
}
cudaError_t CUDARTAPI cudaHostAlloc(void** p, std::size_t n, unsigned flags) {
  return next(&cudaHostAlloc, "cudaHostAlloc", n > 0)(p, n, flags);
}
cudaError_t CUDARTAPI cudaHostRegister(void* p, std::size_t n, unsigned flags) {
  return next(&cudaHostRegister, "cudaHostRegister", n > 0)(p, n, flags);
}
cudaError_t CUDARTAPI cudaFree(void* p) { return next(&cudaFree, "cudaFree", p != nullptr)(p); }
cudaError_t CUDARTAPI cudaFreeAsync(void* p, cudaStream_t s) {
  return next(&cudaFreeAsync, "cudaFreeAsync", p != nullptr)(p, s);
}
/// Declared as in cudnn.h, but without the names of its types.
int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  in_attention = true;
  const int status = next(&cudnnBackendExecute, "cudnnBackendExecute", false)(handle, plan, pack);
  in_attention = false;
  return status;
}
cudaError_t CUDARTAPI cudaFreeHost(void* p) { return next(&cudaFreeHost, "cudaFreeHost", p != nullptr)(p); }
}

#endif

namespace shard8::test {

AllocationCounts allocation_counts() {
#if defined(SHARD8_CUDA)
  return {calls, large, device_calls.load(), of_attention};
#else
  return {calls, large, 0, of_attention};
#endif
}

}  // namespace shard8::test
