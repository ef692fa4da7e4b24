// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>
#include <stdexcept>

#include "tests/kernels/cuda/lt_case.hpp"
#include "tests/kernels/cuda/totals.hpp"

namespace shard8::test {
namespace {

using kernels::cuda::CutlassConfig;
using kernels::cuda::LtTuning;
namespace cuda = kernels::cuda;

enum Product { kFprop, kDgrad, kWgrad };
const char* const kProductNames[] = {"fprop", "dgrad", "wgrad"};

struct Shape {
  std::int64_t tokens, inputs, outputs;
};

/// Weights have 128×128 blocks, all other matrices 1×128.
LtFactor factor(DType dtype, bool blocks, bool weight) {
  const bool plain = dtype == DType::bf16 || dtype == DType::fp32;
  const LtScaling scaling = plain     ? LtScaling::none
                            : !blocks ? LtScaling::tensor
                            : weight  ? LtScaling::tile_128
                                      : LtScaling::vec_128;
  return {.dtype = dtype, .scaling = scaling};
}

LtGemmKey key_of(Product product, const Shape& s, DType left, DType right, DType out, bool blocks = false) {
  const LtFactor l = factor(left, blocks, false), r = factor(right, blocks, product != kWgrad);
  switch (product) {
    case kFprop:
      return cuda::fprop_key(s.tokens, s.inputs, s.outputs, out, l, r);
    case kDgrad:
      return cuda::dgrad_key(s.tokens, s.inputs, s.outputs, out, l, r);
    default:
      return cuda::wgrad_key(s.tokens, s.inputs, s.outputs, out, l, r);
  }
}

Case case_of(Product product, const Shape& s, const LtGemmKey& key, bool timed = false) {
  Case c;
  c.key = key;
  c.timed = timed;
  c.name = std::string(kProductNames[product]) + " T " + std::to_string(s.tokens) + " K " + std::to_string(s.inputs) +
           " N " + std::to_string(s.outputs);
  // Required is what training uses: forward adds a bias and does not accumulate.
  c.required = !key.accumulate || !key.bias;
  return c;
}

/// Adds all combinations of output, accumulation, bias and fast accumulation for one pair of factors.
void add_all(std::vector<Case>& cases, const Shape& s, DType left, DType right, bool blocks = false) {
  const bool float8 = tensor::size_of(left) == 1;
  for (const Product product : {kFprop, kDgrad, kWgrad}) {
    for (const DType out : {DType::bf16, DType::fp32}) {
      if (left == DType::fp32 && out == DType::bf16) continue;
      for (int bits = 0; bits < 8; ++bits) {
        LtGemmKey key = key_of(product, s, left, right, out, blocks);
        key.accumulate = (bits & 1) != 0;
        key.bias = (bits & 2) != 0;
        key.fast_accumulation = (bits & 4) != 0;
        if (key.accumulate && out != DType::fp32) continue;
        if (key.bias && product != kFprop) continue;
        if (key.fast_accumulation && (!float8 || blocks)) continue;
        cases.push_back(case_of(product, s, key));
      }
    }
  }
}

std::vector<Case> small_cases() {
  std::vector<Case> cases;
  for (const Shape& s : {Shape{37, 19, 11}, Shape{1, 24, 40}, Shape{33, 40, 24}, Shape{272, 1040, 528}}) {
    add_all(cases, s, DType::bf16, DType::bf16);
    add_all(cases, s, DType::fp32, DType::fp32);
  }
  for (const Shape& s : {Shape{16, 16, 16}, Shape{48, 208, 144}, Shape{272, 1040, 528}}) {
    add_all(cases, s, DType::e4m3, DType::e4m3);
    add_all(cases, s, DType::e5m2, DType::e4m3);
    add_all(cases, s, DType::e4m3, DType::e5m2);
  }
  // 3, 5 and 8 blocks: with and without padding of the tiles' scales.
  for (const Shape& s : {Shape{128, 128, 128}, Shape{256, 384, 640}, Shape{384, 1024, 512}}) {
    add_all(cases, s, DType::e4m3, DType::e4m3, true);
    add_all(cases, s, DType::e5m2, DType::e4m3, true);
  }
  const Shape s{272, 1040, 528};
  for (const DType dtype : {DType::bf16, DType::e4m3}) {
    Case c = case_of(kFprop, s, key_of(kFprop, s, dtype, dtype, DType::bf16));
    c.name += " 16 bytes off";
    c.offset = 16;
    c.key.alignment = 16;
    cases.push_back(c);
  }
  return cases;
}

/// Cases with long sums, for their error.
std::vector<Case> long_cases() {
  std::vector<Case> cases;
  for (const std::int64_t inputs : {2048, 8192, 14336, 28672}) {
    for (const bool positive : {false, true}) {
      for (const Sum sum : {kPlain, kSplit, kFast, kBlock}) {
        const Shape s{512, inputs, 512};
        const DType dtype = sum == kPlain ? DType::bf16 : DType::e4m3;
        LtGemmKey key = key_of(kFprop, s, dtype, dtype, DType::fp32, sum == kBlock);
        key.fast_accumulation = sum == kFast;
        Case c = case_of(kFprop, s, key);
        c.positive = positive;
        c.name += positive ? " positive" : " random";
        cases.push_back(c);
      }
    }
  }
  return cases;
}

std::vector<Case> large_cases(const std::vector<int>& tensors) {
  std::vector<Case> cases;
  for (const int tensor : tensors) {
    for (const LinearShape& linear : llama_shapes(tensor)) {
      const Shape s{linear.tokens, linear.inputs, linear.outputs};
      const auto add = [&](Product product, DType left, DType right, bool blocks) {
        LtGemmKey key = key_of(product, s, left, right, product == kWgrad ? DType::fp32 : DType::bf16, blocks);
        key.accumulate = product == kWgrad;
        key.fast_accumulation = product == kFprop && key.left.scaling == LtScaling::tensor;
        Case c = case_of(product, s, key, true);
        c.name = std::string(linear.name) + "/" + std::to_string(tensor) + " " + c.name;
        cases.push_back(c);
      };
      for (const Product product : {kFprop, kDgrad, kWgrad}) {
        add(product, DType::bf16, DType::bf16, false);
        if (!linear.float8) continue;
        add(product, product == kFprop ? DType::e4m3 : DType::e5m2, DType::e4m3, false);
        add(product, DType::e4m3, DType::e4m3, true);
        if (product != kFprop) add(product, DType::e5m2, DType::e4m3, true);
      }
    }
  }
  return cases;
}

std::string row_of_table(const Case& c, const Outcome& outcome, const LtGemm& gemm) {
  const cuda::LtAlgorithm& a = gemm.algorithm(c.key);
  std::array<char, 320> text{};
  const std::string kind = std::string(kSumNames[sum_of(c.key)]) + (c.key.accumulate ? " fp32 +=" : " bf16");
  std::snprintf(text.data(), text.size(), "%-40s %-20s %9.1f %8.0f %9.1f %9.1f %6.3f %3d of %d", c.name.c_str(),
                kind.c_str(), outcome.microseconds, flops(c.key) / outcome.microseconds * 1e-6, a.first_microseconds,
                a.microseconds, a.first_microseconds / a.microseconds, a.index, a.offered);
  std::string row = text.data();
  if (a.cutlass.version > 0) row += " CUTLASS";
  if (const cuda::LtSearch* found = gemm.searched(c.key)) {
    std::snprintf(text.data(), text.size(), "  searched %9.1f, share %.3f, %lld of %lld checked, %lld of %lld run; ",
                  found->microseconds, found->microseconds / found->baseline_microseconds,
                  static_cast<long long>(found->checked), static_cast<long long>(found->possible),
                  static_cast<long long>(found->timed), static_cast<long long>(found->supported));
    row += text.data() + cuda::describe(found->best);
  }
  return row;
}

void run_case(LtGemm& gemm, cudaStream_t stream, const Case& c, Totals& totals) {
  Outcome outcome;
  std::string why = "no algorithm runs";
  try {
    outcome = CaseRunner(gemm, stream, c).run();
  } catch (const std::runtime_error& error) {
    // An error of the device itself would make all later checks fail.
    SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
    why = error.what();
  }
  if (!outcome.supported) {
    ++(c.required ? totals.failed : totals.unsupported);
    std::printf("%s  %s: %s: %s\n", c.required ? "FAILED" : "unsupported (not needed)", c.name.c_str(),
                describe(c.key).c_str(), why.c_str());
    return;
  }
  ++(outcome.good ? totals.passed : totals.failed);
  double& eps = (c.positive ? totals.positive_eps : totals.random_eps)[sum_of(c.key)];
  eps = std::max(eps, outcome.eps);
  if (c.positive || c.name.ends_with("random")) {
    std::printf("eps    %-10s %-36s %.3g = 2^%.1f\n", kSumNames[sum_of(c.key)], c.name.c_str(), outcome.eps,
                std::log2(outcome.eps));
  }
  if (outcome.zeros > 0) {
    std::printf("zeros  %-10s %-36s %llu of %lld sums\n", kSumNames[sum_of(c.key)], c.name.c_str(), outcome.zeros,
                static_cast<long long>(c.key.rows * c.key.cols));
  }
  if (c.timed) totals.products.push_back(row_of_table(c, outcome, gemm));
}

/// Products that must be refused, and the errors they give.
void check_refusals(LtGemm& gemm, cudaStream_t stream, Totals& totals) {
  const Shape s{256, 512, 256};
  const LtGemmKey good = key_of(kFprop, s, DType::e4m3, DType::e4m3, DType::bf16);
  const LtGemmKey blocks = key_of(kFprop, s, DType::e4m3, DType::e4m3, DType::bf16, true);
  const DeviceMemory memory(1 << 20);
  LtGemmArgs fine;
  fine.out = fine.workspace = memory.data();
  fine.left = fine.right = memory.data();
  const auto refused = [&](const char* part, LtGemmKey key, const std::function<void(LtGemmKey&, LtGemmArgs&)>& spoil) {
    LtGemmArgs args = fine;
    spoil(key, args);
    std::string message = "nothing";
    try {
      static_cast<void>(gemm.try_prepare(stream, key, args));
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    totals.expect(message.find(part) != std::string::npos,
                  "refusal should say '" + std::string(part) + "', says " + message);
  };
  refused("both are e5m2", good, [](auto& key, auto&) { key.left.dtype = key.right.dtype = DType::e5m2; });
  refused("lies transposed", good, [](auto& key, auto&) { key.right.depth_contiguous = false; });
  refused("depth 504", good, [](auto& key, auto&) { key.depth = 504; });
  refused("multiple of 128", blocks, [](auto& key, auto&) { key.depth = 320; });
  refused("252 columns", good, [](auto& key, auto&) { key.cols = 252; });
  refused("at most one", blocks, [](auto& key, auto&) { key.left.scaling = LtScaling::tile_128; });
  refused("do not go together", blocks, [](auto& key, auto&) { key.left.scaling = LtScaling::tensor; });
  refused("fast accumulation", blocks, [](auto& key, auto&) { key.fast_accumulation = true; });
  refused("output is e4m3", good, [](auto& key, auto&) { key.out = DType::e4m3; });
  refused("accumulation in bf16", good, [](auto& key, auto&) { key.accumulate = true; });
  refused("left_scale_inv is null", blocks, [](auto&, auto&) {});
  refused("right is null", good, [](auto&, auto& args) { args.right = nullptr; });
  refused("multiple of 256", good, [&](auto&, auto& args) { args.left = memory.data() + 16; });
  refused("a bias is given", good, [&](auto&, auto& args) { args.bias = memory.data(); });
}

/// Algorithms written as text and adopted again give the same bytes.
void check_adoption(LtGemm& gemm, cudaStream_t stream, Totals& totals) {
  const std::string text = to_text(gemm.algorithms());
  const cuda::LtAlgorithms kept = cuda::algorithms_of_text(text);
  totals.expect(to_text(kept) == text, "algorithms change on the way through a text");
  cuda::LtAlgorithms foreign = kept;
  ++foreign.library;
  LtGemm other;
  totals.expect(!other.adopt(foreign), "algorithms of another library are adopted");
  totals.expect(other.adopt(kept), "algorithms of this machine are not adopted");
  const Shape s{272, 1040, 528};
  for (const Product product : {kFprop, kDgrad, kWgrad}) {
    const Case c = case_of(product, s, key_of(product, s, DType::e4m3, DType::e4m3, DType::bf16));
    CaseRunner first(gemm, stream, c), second(other, stream, c);
    const Outcome a = first.run(), b = second.run();
    totals.expect(a.supported && a.good && b.supported && b.good, c.name + " adopted is wrong");
    if (!a.supported || !b.supported) continue;
    totals.expect(first.checksum() == second.checksum(), c.name + " adopted gives other bytes");
    totals.expect(gemm.algorithm(c.key).bytes == other.algorithm(c.key).bytes, c.name + " is not the adopted one");
  }
  // Without tuning, the first guess that runs is used.
  LtGemm untuned;
  const Case c = case_of(kFprop, s, key_of(kFprop, s, DType::bf16, DType::bf16, DType::bf16));
  const Outcome outcome = CaseRunner(untuned, stream, c).run();
  totals.expect(outcome.supported && outcome.good && untuned.algorithm(c.key).microseconds == 0,
                c.name + " untuned is wrong");
}

/// Every form that CUTLASS's kernels have, on shapes that their tile of 256×128 does not divide, and on one with more
/// tiles than a device has multiprocessors.
std::vector<Case> cutlass_cases() {
  std::vector<Case> cases;
  const auto add = [&](Product product, const Shape& s, DType left, bool adds) {
    LtGemmKey key = key_of(product, s, left, DType::e4m3, product == kWgrad ? DType::fp32 : DType::bf16, true);
    key.accumulate = adds && product == kWgrad;
    key.addend = adds && product != kWgrad;
    cases.push_back(case_of(product, s, key));
  };
  for (const Shape& s : {Shape{132, 128, 128}, Shape{300, 384, 640}, Shape{3076, 256, 1536}}) {
    for (const bool adds : {false, true}) add(kFprop, s, DType::e4m3, adds);
    for (const DType left : {DType::e4m3, DType::e5m2}) add(kDgrad, s, left, false);
  }
  for (const Shape& s : {Shape{128, 132, 60}, Shape{640, 260, 388}, Shape{256, 1540, 3076}}) {
    for (const DType left : {DType::e4m3, DType::e5m2}) {
      for (const bool adds : {false, true}) add(kWgrad, s, left, adds);
    }
  }
  return cases;
}

/// CUTLASS's kernels compute all their forms, and each order of tiles gives the same bytes. An algorithm of another
/// version of CUTLASS is not adopted.
void check_cutlass(cudaStream_t stream, Totals& totals) {
  if (cuda::cutlass_version() == 0) {
    std::printf("cutlass  is not in this build\n");
    return;
  }
  LtGemm gemm;
  cuda::LtAlgorithms only = gemm.algorithms();
  for (const Case& c : cutlass_cases()) {
    const auto configs = cuda::cutlass_configs(c.key, only.compute_capability);
    totals.expect(!configs.empty(), c.name + ": CUTLASS has no kernel for " + describe(c.key));
    unsigned long long first = 0;
    for (const CutlassConfig& config : configs) {
      only.list = {{.key = c.key, .cutlass = config, .microseconds = 1}};
      totals.expect(to_text(cuda::algorithms_of_text(to_text(only))) == to_text(only), "CUTLASS's algorithm as text");
      totals.expect(gemm.adopt(only), c.name + ": CUTLASS's algorithm is not adopted");
      CaseRunner runner(gemm, stream, c);
      const Outcome outcome = runner.run();
      totals.expect(outcome.supported && outcome.good && gemm.algorithm(c.key).cutlass == config,
                    c.name + " by CUTLASS: " + describe(c.key));
      const unsigned long long checksum = runner.checksum();
      if (&config == &configs.front()) first = checksum;
      totals.expect(checksum == first, c.name + " by CUTLASS: another order of tiles gives other bytes");
    }
    LtGemmKey biased = c.key;
    biased.bias = true;
    totals.expect(cuda::cutlass_configs(biased, only.compute_capability).empty(), c.name + ": CUTLASS takes a bias");
  }
  ++only.list.front().cutlass.version;
  totals.expect(!gemm.adopt(only), "an algorithm of another version of CUTLASS is adopted");
}

}  // namespace

std::vector<LinearShape> llama_shapes(int tensor) {
  const std::int64_t tokens = 8192, hidden = 4096, ffn = 14336, vocab = 32768;
  return {{"qkv", tokens, hidden, 6144 / tensor, true},
          {"proj", tokens, hidden / tensor, hidden, true},
          {"fc1", tokens, hidden, 2 * ffn / tensor, true},
          {"fc2", tokens, ffn / tensor, hidden, true},
          {"head", tokens, hidden, vocab / tensor, false}};
}

void check_engine(cudaStream_t stream, const EngineOptions& options, Totals& totals) {
  LtGemm gemm;
  gemm.set_tuning(LtTuning::candidates);
  if (options.small) {
    check_refusals(gemm, stream, totals);
    for (const auto& cases : {small_cases(), long_cases()}) {
      for (const Case& c : cases) run_case(gemm, stream, c, totals);
    }
    check_adoption(gemm, stream, totals);
  }
  if (options.cutlass) check_cutlass(stream, totals);
  if (!options.large) return;
  const double seconds = options.search_seconds / 2;
  if (seconds > 0) gemm.set_tuning(LtTuning::exhaustive, {.check_seconds = seconds, .run_seconds = seconds});
  for (const Case& c : large_cases(options.tensor)) run_case(gemm, stream, c, totals);
}

}  // namespace shard8::test
