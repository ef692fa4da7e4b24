// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "kernels/attention.hpp"
#include "kernels/cuda/sdpa.hpp"
#include "tensor/cuda/device.hpp"
#include "tensor/float8.hpp"

namespace shard8::tests {

using kernels::AttentionShape;
using kernels::cuda::Sdpa;
using tensor::BFloat16;
using tensor::cuda::Event;

inline std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

/// The exit code of a test that cannot run here.
inline constexpr int kSkipped = 77;
inline bool has_device() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t n) : n_(n) {
    void* memory = nullptr;
    SHARD8_CUDA_CHECK(cudaMalloc(&memory, std::max<std::size_t>(n, 1) * sizeof(T)));
    data_ = static_cast<T*>(memory);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    SHARD8_CUDA_CHECK(cudaMemcpy(data_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* get() const { return data_; }
  std::size_t count() const { return n_; }
  /// All bits set: NaN.
  void poison(cudaStream_t stream) const { SHARD8_CUDA_CHECK(cudaMemsetAsync(data_, 0xff, n_ * sizeof(T), stream)); }
  std::vector<T> host() const {
    std::vector<T> values(n_);
    SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
    SHARD8_CUDA_CHECK(cudaMemcpy(values.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t n_;
};

inline std::vector<BFloat16> normal(std::int64_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> draw;
  std::vector<BFloat16> values(size(n));
  for (auto& v : values) v = BFloat16(draw(engine));
  return values;
}
template <class T>
std::vector<double> doubles(const std::vector<T>& values) {
  std::vector<double> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(static_cast<float>(values[i]));
  return out;
}

inline std::string text_of(const AttentionShape& s) {
  return fmt::format("{:>2} {:>5} {:>3} {:>3} {:>4} {:>4}", s.batch, s.seq, s.heads, s.kv_heads, s.head_dim,
                     s.deterministic ? "yes" : "no");
}

/// The operands of a shape on the device.
struct Case {
  AttentionShape shape;
  std::vector<BFloat16> qkv_host, dout_host;
  DeviceArray<BFloat16> qkv, dout, o, dqkv;
  DeviceArray<float> lse;
  DeviceArray<std::byte> workspace;

  Case(const AttentionShape& s, std::size_t workspace_bytes)
      : shape(s),
        qkv_host(normal(s.tokens() * s.qkv_columns(), 1)),
        dout_host(normal(s.tokens() * s.heads * s.head_dim, 2)),
        qkv(qkv_host),
        dout(dout_host),
        o(dout_host.size()),
        dqkv(qkv_host.size()),
        lse(size(s.tokens() * s.heads)),
        workspace(workspace_bytes) {}

  std::span<std::byte> memory() const { return {workspace.get(), workspace.count()}; }
  bool forward(Sdpa& sdpa, cudaStream_t stream) const {
    return sdpa.forward(stream, {o.get(), lse.get(), qkv.get()}, shape, memory());
  }
  bool backward(Sdpa& sdpa, cudaStream_t stream) const {
    return sdpa.backward(stream, {dqkv.get(), dout.get(), o.get(), qkv.get(), lse.get()}, shape, memory());
  }
  /// Runs both directions. Everything that they write is overwritten with NaN before.
  void run(Sdpa& sdpa, cudaStream_t stream) const {
    o.poison(stream);
    lse.poison(stream);
    dqkv.poison(stream);
    workspace.poison(stream);
    SHARD8_REQUIRE(forward(sdpa, stream) && backward(sdpa, stream), "{}", sdpa.note(shape));
  }
};

/// √(Σ (got − want)² / Σ want²), and the largest |got − want|; NaN if an element is NaN.
struct Distance {
  double relative = 0, largest = 0;

  Distance(const std::vector<double>& got, const std::vector<double>& want) {
    double errors = 0, squares = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = got[i] - want[i];
      errors += error * error;
      squares += want[i] * want[i];
      if (!(std::abs(error) <= largest)) largest = std::abs(error);
    }
    relative = std::sqrt(errors / squares);
  }
};

struct Times {
  double device = 0, host = 0;  ///< seconds a call
};
template <class F>
Times time_calls(cudaStream_t stream, const F& call, int calls = 20) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 5; ++i) call();
  SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream));
  const Event begin(Event::Times::yes), end(Event::Times::yes);
  begin.record(stream);
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  const std::chrono::duration<double> host = Clock::now() - start;
  end.record(stream);
  end.synchronize();
  return {end.seconds_since(begin) / calls, host.count() / calls};
}

}  // namespace shard8::tests
