// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/lt_key.hpp"

#include <charconv>
#include <string_view>

#include "base/error.hpp"

namespace shard8::kernels::cuda {
namespace {

using base::ExitCode;
using tensor::DType;

constexpr std::int64_t kBlock = 128;

bool is_block(LtScaling scaling) { return scaling == LtScaling::vec_128 || scaling == LtScaling::tile_128; }

LtFactor laid_out(LtFactor factor, bool depth_contiguous) {
  factor.depth_contiguous = tensor::is_float8(factor.dtype) || depth_contiguous;
  return factor;
}

std::string describe_factor(const LtFactor& factor, std::int64_t outer, std::int64_t depth) {
  std::string text(tensor::name_of(factor.dtype));
  if (factor.scaling != LtScaling::none) text += fmt::format("/{}", name_of(factor.scaling));
  return factor.depth_contiguous ? fmt::format("{} ({}, {})", text, outer, depth)
                                 : fmt::format("{} ({}, {})ᵀ", text, depth, outer);
}

template <class... Args>
[[noreturn]] void refuse(const LtGemmKey& key, fmt::format_string<Args...> format, Args&&... args) {
  base::fail(ExitCode::failed, "gemm {}: {}", describe(key), fmt::format(format, std::forward<Args>(args)...));
}

void check_float8_factor(const LtGemmKey& key, const char* name, const LtFactor& factor, std::int64_t outer) {
  if (!factor.depth_contiguous) {
    refuse(key, "{} is {} and lies transposed; FP8 is read only with what is summed over contiguous", name,
           tensor::name_of(factor.dtype));
  }
  if (factor.scaling == LtScaling::none) {
    refuse(key, "{} is {} without scaling; allowed are tensor, vec_128 and tile_128", name,
           tensor::name_of(factor.dtype));
  }
  if (factor.scaling == LtScaling::tile_128 && outer % kBlock != 0) {
    refuse(key, "{} with {} rows cannot be cut into whole 128x128 blocks", name, outer);
  }
}

void check_float8(const LtGemmKey& key) {
  const LtFactor &left = key.left, &right = key.right;
  if (left.dtype == DType::e5m2 && right.dtype == DType::e5m2) refuse(key, "both are e5m2; allowed is at most one");
  check_float8_factor(key, "left", left, key.rows);
  check_float8_factor(key, "right", right, key.cols);
  if (is_block(left.scaling) != is_block(right.scaling)) {
    refuse(key, "scalings {} and {} do not go together; allowed are both tensor, or both in blocks",
           name_of(left.scaling), name_of(right.scaling));
  }
  const std::int64_t step = is_block(left.scaling) ? kBlock : 16;
  if (key.depth % step != 0) refuse(key, "depth {} is not a multiple of {}", key.depth, step);
  if (is_block(left.scaling)) {
    if (left.scaling == LtScaling::tile_128 && right.scaling == LtScaling::tile_128) {
      refuse(key, "both have 128x128 scales; allowed is at most one");
    }
    if (key.rows % 4 != 0) refuse(key, "{} rows with block scales; allowed are multiples of 4", key.rows);
    if (key.fast_accumulation) refuse(key, "fast accumulation with block scales; allowed is tensor scaling");
  }
  const std::int64_t cols = key.out == DType::bf16 ? 8 : 4;
  if (key.cols % cols != 0) {
    refuse(key, "{} columns of {}; allowed are multiples of {}", key.cols, tensor::name_of(key.out), cols);
  }
  if (key.alignment < 16) refuse(key, "alignment {}; FP8 needs at least 16 bytes", key.alignment);
}

void check_plain(const LtGemmKey& key) {
  if (key.left.scaling != LtScaling::none || key.right.scaling != LtScaling::none) {
    refuse(key, "scalings {} and {}; only e4m3 and e5m2 have scales", name_of(key.left.scaling),
           name_of(key.right.scaling));
  }
  if (key.fast_accumulation) refuse(key, "fast accumulation; allowed with e4m3 and e5m2");
  if (key.left.dtype == DType::fp32 && key.out != DType::fp32) {
    refuse(key, "fp32 cannot give {}; allowed is fp32", tensor::name_of(key.out));
  }
}

/// Reads the words of a line, one after the other. Each word must be consumed whole.
class Words {
 public:
  explicit Words(std::string_view line) : line_(line), rest_(line) {}

  std::string_view next() {
    const auto first = rest_.find_first_not_of(' ');
    if (first == std::string_view::npos) refuse("", "it ends too early");
    rest_.remove_prefix(first);
    const auto end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return word;
  }

  template <class T>
  void read(T& value, int base = 10) {
    const std::string_view word = next();
    std::from_chars_result result{};
    if constexpr (std::is_floating_point_v<T>) {
      result = std::from_chars(word.data(), word.data() + word.size(), value);
    } else {
      result = std::from_chars(word.data(), word.data() + word.size(), value, base);
    }
    if (result.ec != std::errc{} || result.ptr != word.data() + word.size()) refuse(word, "it is no such number");
  }
  void read(bool& value) {
    int number = 0;
    read(number);
    if (number != 0 && number != 1) refuse(std::to_string(number), "allowed are 0 and 1");
    value = number == 1;
  }
  void read(DType& value) { value = one_of(std::array{DType::fp32, DType::bf16, DType::e4m3, DType::e5m2}); }
  void read(LtScaling& value) {
    value = one_of(std::array{LtScaling::none, LtScaling::tensor, LtScaling::vec_128, LtScaling::tile_128});
  }
  void read(LtFactor& value) {
    read(value.dtype);
    read(value.scaling);
    read(value.depth_contiguous);
  }
  void expect(std::string_view name) {
    const std::string_view word = next();
    if (word != name) refuse(word, fmt::format("expected is '{}'", name));
  }
  std::string_view expect_one_of(std::string_view first, std::string_view second) {
    const std::string_view word = next();
    if (word != first && word != second) refuse(word, fmt::format("expected is '{}' or '{}'", first, second));
    return word;
  }
  void end() const {
    if (rest_.find_first_not_of(' ') != std::string_view::npos) refuse(rest_, "it is one too many");
  }

 private:
  template <class T, std::size_t kCount>
  T one_of(const std::array<T, kCount>& values) {
    const std::string_view word = next();
    for (const T value : values) {
      if (name_of(value) == word) return value;
    }
    refuse(word, "it is no such name");
  }
  [[noreturn]] void refuse(std::string_view word, std::string_view why) const {
    base::fail(base::ExitCode::failed, "chosen algorithms: '{}' in '{}': {}; delete the file they are from", word,
               line_, why);
  }

  std::string_view line_, rest_;
};

constexpr std::string_view kMachine = "cublaslt ", kGemm = "gemm ";
constexpr std::string_view kAlgorithm = "algorithm", kCutlass = "cutlass";

std::string text_of(const LtFactor& factor) {
  return fmt::format("{} {} {:d}", tensor::name_of(factor.dtype), name_of(factor.scaling), factor.depth_contiguous);
}

std::string line_of(const LtAlgorithm& a) {
  const LtGemmKey& k = a.key;
  std::string line = fmt::format("gemm {} {} {} {} {} {} {:d} {:d} {:d} {:d} {} us {} {} {} of {} {} {}",
                                 tensor::name_of(k.out), k.rows, k.cols, k.depth, text_of(k.left), text_of(k.right),
                                 k.accumulate, k.bias, k.addend, k.fast_accumulation, k.alignment, a.microseconds,
                                 a.first_microseconds, a.searched_microseconds, a.index, a.offered, a.refused);
  if (a.cutlass.version > 0) {
    return line + fmt::format(" {} {} {} {:d}\n", kCutlass, a.cutlass.version, a.cutlass.swizzle, a.cutlass.along_rows);
  }
  line += fmt::format(" {} {}", kAlgorithm, a.workspace_bytes);
  for (const std::uint64_t word : a.bytes) line += fmt::format(" {:x}", word);
  return line + "\n";
}

LtAlgorithm algorithm_of(std::string_view line) {
  LtAlgorithm a;
  LtGemmKey& k = a.key;
  Words words(line);
  words.expect("gemm");
  words.read(k.out);
  for (std::int64_t* extent : {&k.rows, &k.cols, &k.depth}) words.read(*extent);
  words.read(k.left);
  words.read(k.right);
  for (bool* flag : {&k.accumulate, &k.bias, &k.addend, &k.fast_accumulation}) words.read(*flag);
  words.read(k.alignment);
  words.expect("us");
  for (float* time : {&a.microseconds, &a.first_microseconds, &a.searched_microseconds}) words.read(*time);
  words.expect("of");
  for (std::int32_t* number : {&a.index, &a.offered, &a.refused}) words.read(*number);
  if (words.expect_one_of(kAlgorithm, kCutlass) == kCutlass) {
    words.read(a.cutlass.version);
    words.read(a.cutlass.swizzle);
    words.read(a.cutlass.along_rows);
  } else {
    words.read(a.workspace_bytes);
    for (std::uint64_t& word : a.bytes) words.read(word, 16);
  }
  words.end();
  return a;
}

void read_machine(LtAlgorithms& algorithms, std::string_view line) {
  Words words(line);
  words.expect("cublaslt");
  words.read(algorithms.library);
  words.expect("compute_capability");
  words.read(algorithms.compute_capability);
  words.expect("multiprocessors");
  words.read(algorithms.multiprocessors);
  words.end();
}

}  // namespace

std::string_view name_of(LtScaling scaling) {
  switch (scaling) {
    case LtScaling::none:
      return "none";
    case LtScaling::tensor:
      return "tensor";
    case LtScaling::vec_128:
      return "vec_128";
    case LtScaling::tile_128:
      return "tile_128";
  }
  return "?";
}

LtGemmKey fprop_key(std::int64_t tokens, std::int64_t inputs, std::int64_t outputs, DType y, LtFactor x, LtFactor w) {
  return {.rows = tokens,
          .cols = outputs,
          .depth = inputs,
          .left = laid_out(x, true),
          .right = laid_out(w, true),
          .out = y};
}

LtGemmKey dgrad_key(std::int64_t tokens, std::int64_t inputs, std::int64_t outputs, DType dx, LtFactor dy, LtFactor w) {
  return {.rows = tokens,
          .cols = inputs,
          .depth = outputs,
          .left = laid_out(dy, true),
          .right = laid_out(w, false),
          .out = dx};
}

LtGemmKey wgrad_key(std::int64_t tokens, std::int64_t inputs, std::int64_t outputs, DType dw, LtFactor dy, LtFactor x) {
  return {.rows = outputs,
          .cols = inputs,
          .depth = tokens,
          .left = laid_out(dy, false),
          .right = laid_out(x, false),
          .out = dw};
}

void check_key(const LtGemmKey& key) {
  if (key.rows <= 0 || key.cols <= 0 || key.depth <= 0) refuse(key, "every dimension must be positive");
  if (key.out != DType::bf16 && key.out != DType::fp32) {
    refuse(key, "output is {}; allowed are bf16 and fp32", tensor::name_of(key.out));
  }
  if (key.accumulate && key.out != DType::fp32) {
    refuse(key, "accumulation in {}; allowed is fp32", tensor::name_of(key.out));
  }
  if (key.accumulate && key.addend) refuse(key, "an addend beside accumulation; allowed is one of them");
  const bool float8 = tensor::is_float8(key.left.dtype);
  const bool plain = key.left.dtype == DType::bf16 || key.left.dtype == DType::fp32;
  if (float8 ? !tensor::is_float8(key.right.dtype) : !plain || key.left.dtype != key.right.dtype) {
    refuse(key, "factors are {} and {}; allowed are both fp32, both bf16, or both of e4m3 and e5m2",
           tensor::name_of(key.left.dtype), tensor::name_of(key.right.dtype));
  }
  const auto largest = static_cast<std::int32_t>(tensor::size_of(key.out));
  if (key.alignment < largest || key.alignment > 256 || (key.alignment & (key.alignment - 1)) != 0) {
    refuse(key, "alignment {}; allowed are powers of two from {} to 256", key.alignment, largest);
  }
  return float8 ? check_float8(key) : check_plain(key);
}

std::size_t LtGemmKeyHash::operator()(const LtGemmKey& key) const {
  const auto factor = [](const LtFactor& f) {
    return static_cast<std::uint64_t>(f.dtype) << 3 | static_cast<std::uint64_t>(f.scaling) << 1 |
           static_cast<std::uint64_t>(f.depth_contiguous);
  };
  const std::uint64_t flags = static_cast<std::uint64_t>(key.out) << 4 | static_cast<std::uint64_t>(key.addend) << 3 |
                              static_cast<std::uint64_t>(key.accumulate) << 2 |
                              static_cast<std::uint64_t>(key.bias) << 1 |
                              static_cast<std::uint64_t>(key.fast_accumulation);
  std::uint64_t hash = 0;
  for (const std::uint64_t part : {static_cast<std::uint64_t>(key.rows), static_cast<std::uint64_t>(key.cols),
                                   static_cast<std::uint64_t>(key.depth), factor(key.left) << 32 | factor(key.right),
                                   flags << 32 | static_cast<std::uint64_t>(key.alignment)}) {
    // The factor is 2^64 divided by the golden ratio: neighbouring keys get distant hashes.
    hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

DType bias_dtype(const LtGemmKey& key) { return tensor::is_float8(key.left.dtype) ? DType::bf16 : key.out; }

std::int64_t scale_count(LtScaling scaling, std::int64_t outer, std::int64_t depth) {
  const auto blocks = [](std::int64_t n) { return (n + kBlock - 1) / kBlock; };
  switch (scaling) {
    case LtScaling::none:
      return 0;
    case LtScaling::tensor:
      return 1;
    case LtScaling::vec_128:
      return blocks(depth) * outer;
    case LtScaling::tile_128:
      return blocks(outer) * ((blocks(depth) + 3) / 4 * 4);
  }
  return 0;
}

double flops(const LtGemmKey& key) {
  return 2.0 * static_cast<double>(key.rows) * static_cast<double>(key.cols) * static_cast<double>(key.depth);
}

std::string describe(const LtGemmKey& key) {
  return fmt::format("{} ({}, {}) {} {} x {}{}{}{}", tensor::name_of(key.out), key.rows, key.cols,
                     key.accumulate ? "+=" : "=", describe_factor(key.left, key.rows, key.depth),
                     describe_factor(key.right, key.cols, key.depth), key.bias ? ", bias" : "",
                     key.addend ? ", addend" : "", key.fast_accumulation ? ", fast accumulation" : "");
}

std::string to_text(const LtAlgorithms& algorithms) {
  std::string text = fmt::format("cublaslt {} compute_capability {} multiprocessors {}\n", algorithms.library,
                                 algorithms.compute_capability, algorithms.multiprocessors);
  for (const LtAlgorithm& algorithm : algorithms.list) text += line_of(algorithm);
  return text;
}

LtAlgorithms algorithms_of_text(std::string_view text) {
  LtAlgorithms algorithms;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with(kMachine)) read_machine(algorithms, line);
    if (line.starts_with(kGemm)) algorithms.list.push_back(algorithm_of(line));
  }
  return algorithms;
}

}  // namespace shard8::kernels::cuda
