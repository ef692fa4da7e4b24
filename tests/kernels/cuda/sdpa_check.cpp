// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks cuDNN's attention: its results against double precision on the host, its repeatability, its time and its
// memory. Exits 1 if a check fails, 77 without a GPU. `--fast` skips the times.
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/cuda/library_check.hpp"
#include "kernels/planned/device_memory.hpp"
#include "tensor/cuda/device.hpp"
#include "tests/kernels/attention_reference.hpp"
#include "tests/kernels/cuda/sdpa_case.hpp"

namespace shard8::tests {
namespace {

using tensor::cuda::Stream;

class Checks {
 public:
  explicit Checks(std::vector<std::string>& table) : table_(table) {}

  void expect(bool good, const std::string& what) {
    if (good) return;
    ++failures_;
    std::printf("FAILED: %s\n", what.c_str());
  }

  /// Compares the results with double precision. Intermediate results are rounded to BF16 (probabilities, gradients of
  /// scores, o as an input of Σ dout·o); this is worth a few times 2⁻⁹ in the mean.
  void values(const AttentionShape& s, std::size_t workspace_bytes, int parts) {
    Sdpa sdpa;
    const Stream stream;
    const Case c(s, workspace_bytes);
    try {
      c.run(sdpa, stream);
    } catch (const base::Error& error) {
      return expect(false, text_of(s) + ": " + error.what());
    }
    const auto want = attention_reference(s, doubles(c.qkv_host), doubles(c.dout_host));
    const Distance lse(doubles(c.lse.host()), want.lse), o(doubles(c.o.host()), want.o),
        dqkv(doubles(c.dqkv.host()), want.dqkv);
    const auto name = text_of(s);
    expect(lse.largest < 1e-4, fmt::format("{}: lse is {:.2e} off", name, lse.largest));
    expect(o.relative < 5e-3, fmt::format("{}: o is {:.2e} off", name, o.relative));
    expect(dqkv.relative < 1e-2, fmt::format("{}: dqkv is {:.2e} off", name, dqkv.relative));
    const auto wanted = fmt::format("in {} parts", parts);
    expect(
        parts == 1 ? sdpa.note(s).find("parts") == std::string::npos : sdpa.note(s).find(wanted) != std::string::npos,
        fmt::format("{}: {}, {} expected", name, sdpa.note(s), wanted));
    table_.push_back(fmt::format("{} {:>5}   {:8.2e} {:8.2e} {:8.2e}   {}", name, parts, lse.largest, o.relative,
                                 dqkv.relative, sdpa.note(s)));
    std::printf("%s\n", table_.back().c_str());
    std::fflush(stdout);
  }

  /// Compares the bits of several runs. Prints how many differ where they may.
  void repeats(const AttentionShape& s) {
    Sdpa sdpa;
    const Stream stream;
    const Case c(s, kernels::cuda::sdpa_workspace_bytes(s));
    c.run(sdpa, stream);
    const auto o = c.o.host(), dqkv = c.dqkv.host();
    std::size_t differing = 0;
    bool same_forward = true;
    for (int repeat = 0; repeat < 5; ++repeat) {
      c.run(sdpa, stream);
      const auto again = c.dqkv.host(), o_again = c.o.host();
      same_forward &= std::memcmp(o.data(), o_again.data(), o.size() * sizeof(o[0])) == 0;
      for (std::size_t i = 0; i < again.size(); ++i) differing += again[i].bits != dqkv[i].bits;
    }
    expect(same_forward, text_of(s) + ": forward differs from run to run");
    expect(!s.deterministic || differing == 0,
           fmt::format("{}: {} elements of dqkv differ in 5 runs", text_of(s), differing));
    table_.push_back(
        fmt::format("{}   repeats: {} elements of dqkv differ in 5 runs of {}", text_of(s), differing, dqkv.size()));
  }

  void refuses() {
    Sdpa sdpa;
    const Stream stream;
    const AttentionShape odd{1, 64, 2, 1, 20};
    const Case c(odd, 1 << 20);
    expect(!c.forward(sdpa, stream) && !c.backward(sdpa, stream), "head_dim 20 was not refused");
    std::printf("refused as it should be: %s\n", sdpa.note(odd).c_str());
    const AttentionShape s{1, 256, 4, 2, 64};
    const Case small(s, 1024);
    bool threw = false;
    try {
      SHARD8_REQUIRE(small.forward(sdpa, stream), "{}", sdpa.note(s));
      small.backward(sdpa, stream);
    } catch (const base::Error& error) {
      threw = std::string(error.what()).find("workspace of") != std::string::npos;
      std::printf("refused as it should be: %s\n", error.what());
    }
    expect(threw, "a workspace of 1024 bytes was taken");
  }

  int failures() const { return failures_; }

 private:
  std::vector<std::string>& table_;
  int failures_ = 0;
};

void measure(AttentionShape s, std::size_t workspace_bytes, std::vector<std::string>& table) {
  Sdpa sdpa;
  const Stream stream;
  const Case c(s, workspace_bytes);
  c.run(sdpa, stream);
  const auto forward = time_calls(stream, [&] { c.forward(sdpa, stream); });
  const auto backward = time_calls(stream, [&] { c.backward(sdpa, stream); });
  const double flops = tests::attention_flops(s);
  table.push_back(fmt::format("{} {:>9.1f}   {:7.3f} {:6.1f} {:5.1f}   {:7.3f} {:6.1f} {:5.1f}   {}", text_of(s),
                              static_cast<double>(workspace_bytes) / (1 << 20), forward.device * 1e3,
                              flops / forward.device * 1e-12, forward.host * 1e6, backward.device * 1e3,
                              2.5 * flops / backward.device * 1e-12, backward.host * 1e6, sdpa.note(s)));
  std::printf("%s\n", table.back().c_str());
  std::fflush(stdout);
}

int run(bool fast) {
  std::vector<std::string> values, times;
  Checks checks(values);
  std::printf("%s\n", kernels::cuda::cudnn_version().c_str());
  for (const bool deterministic : {true, false}) {
    for (const AttentionShape& s : {AttentionShape{2, 128, 8, 2, 64, deterministic},
                                    {2, 256, 4, 1, 128, deterministic},
                                    {2, 256, 4, 4, 128, deterministic},
                                    {1, 200, 4, 2, 64, deterministic},
                                    {3, 77, 2, 1, 80, deterministic},
                                    {1, 2, 2, 2, 16, deterministic},
                                    {1, 1024, 8, 2, 128, deterministic}}) {
      checks.values(s, kernels::cuda::sdpa_workspace_bytes(s), 1);
    }
    // A workspace that is too small for the whole call.
    const AttentionShape s{2, 128, 8, 4, 64, deterministic};
    for (const auto& part : kernels::cuda::sdpa_parts(s)) {
      checks.values(s, kernels::cuda::sdpa_backward_bytes(part), static_cast<int>(part.count()));
    }
    checks.repeats({4, 2048, 16, 4, 128, deterministic});
  }
  checks.refuses();
  for (const auto& [batch, heads, kv_heads] : {std::array{2, 32, 8}, {4, 16, 4}, {4, 8, 2}}) {
    if (fast) break;
    const AttentionShape s{batch, 4096, heads, kv_heads, 128, false};
    measure(s, kernels::cuda::sdpa_workspace_bytes(s), times);
    auto repeatable = s;
    repeatable.deterministic = true;
    // With the planned workspace, and with workspaces of other limits.
    measure(repeatable, kernels::cuda::sdpa_workspace_bytes(repeatable), times);
    for (const auto& part : kernels::cuda::sdpa_parts(repeatable)) {
      const auto bytes = kernels::cuda::sdpa_backward_bytes(part);
      if (bytes != kernels::cuda::sdpa_workspace_bytes(repeatable)) measure(repeatable, bytes, times);
    }
  }
  std::printf("\n b   seq   h  kv  dim  det parts   lse      o        dqkv     (largest error; relative errors)\n");
  for (const auto& line : values) std::printf("%s\n", line.c_str());
  if (!times.empty()) {
    std::printf(
        "\n b   seq   h  kv  dim  det work MiB   forward ms, TFLOP/s, host us   backward ms, TFLOP/s, host us\n");
    for (const auto& line : times) std::printf("%s\n", line.c_str());
  }
  std::printf("\nsdpa_check: %s\n", checks.failures() == 0 ? "passed" : "FAILED");
  return checks.failures() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace shard8::tests

int main(int argc, char** argv) {
  if (!shard8::tests::has_device()) {
    std::printf("sdpa_check: skipped: no device\n");
    return shard8::tests::kSkipped;
  }
  try {
    return shard8::tests::run(argc > 1 && std::string(argv[1]) == "--fast");
  } catch (const std::exception& error) {
    std::printf("sdpa_check: FAILED: %s\n", error.what());
    return 1;
  }
}
