// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks the portable attention on a device: in fp32 and bf16 against double precision on the host, against cuDNN where
// both compute the shape, and its time. Exits 1 if a check fails, 77 without a GPU.
#include <Kokkos_Core.hpp>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/kokkos/portable.hpp"
#include "kernels/planned/device_memory.hpp"
#include "tensor/cuda/device.hpp"
#include "tests/kernels/attention_reference.hpp"
#include "tests/kernels/cuda/sdpa_case.hpp"

namespace shard8::tests {
namespace {

using tensor::Tensor;
using tensor::cuda::Stream;

template <class T>
Tensor tensor_of(const DeviceArray<T>& array) {
  return {reinterpret_cast<std::byte*>(array.get()), {static_cast<std::int64_t>(array.count())}, tensor::dtype_of<T>()};
}

/// The results of the portable kernels for operands of type T. Everything that they write is overwritten with NaN
/// before.
template <class T>
struct Portable {
  AttentionShape shape;
  DeviceArray<T> qkv, dout, o, dqkv;
  DeviceArray<float> lse;

  Portable(const AttentionShape& s, const std::vector<T>& qkv_values, const std::vector<T>& dout_values)
      : shape(s),
        qkv(qkv_values),
        dout(dout_values),
        o(dout_values.size()),
        dqkv(qkv_values.size()),
        lse(size(s.tokens() * s.heads)) {}

  void forward(const tensor::Exec& exec) const {
    kernels::portable_attention_forward(exec, tensor_of(o), tensor_of(lse), tensor_of(qkv), shape);
  }
  void backward(const tensor::Exec& exec) const {
    kernels::portable_attention_backward(exec, tensor_of(dqkv), tensor_of(dout), tensor_of(o), tensor_of(qkv),
                                         tensor_of(lse), shape);
  }
  void run(const tensor::Exec& exec, cudaStream_t stream) const {
    o.poison(stream);
    lse.poison(stream);
    dqkv.poison(stream);
    forward(exec);
    backward(exec);
  }
};

class Checks {
 public:
  explicit Checks(const Stream& stream) : stream_(stream), exec_(stream.get()) {}

  template <class T>
  void values(const AttentionShape& s);
  template <class T>
  void measure(const AttentionShape& s, const char* name) const;
  int failures() const { return failures_; }

 private:
  void expect(bool good, const char* what) {
    if (good) return;
    ++failures_;
    std::printf("\nFAILED: %s\n", what);
  }

  const Stream& stream_;
  Kokkos::Cuda exec_;
  int failures_ = 0;
};

/// Checks the results. fp32 must be within the rounding of its sums. bf16 also rounds its results, and o before the sum
/// of dout·o.
template <class T>
void Checks::values(const AttentionShape& s) {
  constexpr bool kFp32 = std::is_same_v<T, float>;
  std::vector<T> qkv, dout;
  for (const auto v : normal(s.tokens() * s.qkv_columns(), 1)) qkv.push_back(static_cast<T>(static_cast<float>(v)));
  for (const auto v : normal(s.tokens() * s.heads * s.head_dim, 2))
    dout.push_back(static_cast<T>(static_cast<float>(v)));
  const Portable<T> c(s, qkv, dout);
  c.run(exec_, stream_);
  const auto o = c.o.host(), dqkv = c.dqkv.host();
  const auto want = attention_reference(s, doubles(qkv), doubles(dout));
  const Distance lse(doubles(c.lse.host()), want.lse), of_o(doubles(o), want.o), of_dqkv(doubles(dqkv), want.dqkv);
  std::printf("%s %s   lse %8.2e o %8.2e dqkv %8.2e", text_of(s).c_str(), kFp32 ? "fp32" : "bf16", lse.largest,
              of_o.relative, of_dqkv.relative);
  expect(lse.largest < 1e-5, "lse");
  expect(of_o.relative < (kFp32 ? 2e-6 : 3e-3), "o");
  expect(of_dqkv.relative < (kFp32 ? 4e-6 : 6e-3), "dqkv");
  c.run(exec_, stream_);
  const auto o_again = c.o.host(), dqkv_again = c.dqkv.host();
  expect(std::memcmp(o.data(), o_again.data(), o.size() * sizeof(T)) == 0, "o differs from run to run");
  expect(std::memcmp(dqkv.data(), dqkv_again.data(), dqkv.size() * sizeof(T)) == 0, "dqkv differs from run to run");
  if constexpr (!kFp32) {
    Sdpa sdpa;
    const Case theirs(s, kernels::cuda::sdpa_workspace_bytes(s));
    if (theirs.forward(sdpa, stream_) && theirs.backward(sdpa, stream_)) {
      const Distance o_apart(doubles(o), doubles(theirs.o.host())),
          dqkv_apart(doubles(dqkv), doubles(theirs.dqkv.host()));
      std::printf("   from cuDNN's: o %8.2e dqkv %8.2e", o_apart.relative, dqkv_apart.relative);
      expect(o_apart.relative < 5e-3, "o is not cuDNN's");
      expect(dqkv_apart.relative < 1e-2, "dqkv is not cuDNN's");
    }
  }
  std::printf("\n");
  std::fflush(stdout);
}

template <class T>
void Checks::measure(const AttentionShape& s, const char* name) const {
  const Portable<T> c(s, std::vector<T>(size(s.tokens() * s.qkv_columns())),
                      std::vector<T>(size(s.tokens() * s.heads * s.head_dim)));
  c.run(exec_, stream_);
  const auto forward = time_calls(
      stream_, [&] { c.forward(exec_); }, 3);
  const auto backward = time_calls(
      stream_, [&] { c.backward(exec_); }, 3);
  const double flops = tests::attention_flops(s);
  std::printf("%s %s   forward %8.3f ms %6.2f TFLOP/s, backward %8.3f ms %6.2f TFLOP/s\n", text_of(s).c_str(), name,
              forward.device * 1e3, flops / forward.device * 1e-12, backward.device * 1e3,
              2.5 * flops / backward.device * 1e-12);
}

int run() {
  const Stream stream;
  Checks checks(stream);
  for (const AttentionShape& s : {AttentionShape{1, 1, 1, 1, 8},
                                  {2, 5, 3, 3, 7},
                                  {1, 32, 2, 2, 64},
                                  {3, 33, 6, 2, 24},
                                  {2, 128, 8, 2, 64},
                                  {2, 100, 4, 1, 80},
                                  {1, 257, 4, 2, 128},
                                  {1, 65, 2, 1, 256}}) {
    checks.values<float>(s);
    checks.values<BFloat16>(s);
  }
  const AttentionShape s{1, 2048, 8, 2, 128};
  checks.measure<float>(s, "fp32");
  checks.measure<BFloat16>(s, "bf16");
  return checks.failures();
}

}  // namespace
}  // namespace shard8::tests

int main(int argc, char** argv) {
  if (!shard8::tests::has_device()) {
    std::printf("sdpa_portable_check: skipped: no device\n");
    return shard8::tests::kSkipped;
  }
  const Kokkos::ScopeGuard guard(argc, argv);
  int failures = 1;
  try {
    failures = shard8::tests::run();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
  }
  std::printf("\nsdpa_portable_check: %s\n", failures == 0 ? "passed" : "FAILED");
  return failures == 0 ? 0 : 1;
}
