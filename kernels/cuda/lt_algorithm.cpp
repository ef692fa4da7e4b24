// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/lt_algorithm.hpp"

#include <charconv>

#include "base/error.hpp"

namespace shard8::kernels::cuda {
namespace {

using tensor::DType;

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

std::string text_of(const LtFactor& factor) {
  return fmt::format("{} {} {:d}", tensor::name_of(factor.dtype), name_of(factor.scaling), factor.depth_contiguous);
}

std::string line_of(const LtAlgorithm& a) {
  const LtGemmKey& k = a.key;
  std::string line =
      fmt::format("gemm {} {} {} {} {} {} {:d} {:d} {:d} {:d} {} us {} {} {} of {} {} {} algorithm {}",
                  tensor::name_of(k.out), k.rows, k.cols, k.depth, text_of(k.left), text_of(k.right), k.accumulate,
                  k.bias, k.addend, k.fast_accumulation, k.alignment, a.microseconds, a.first_microseconds,
                  a.searched_microseconds, a.index, a.offered, a.refused, a.workspace_bytes);
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
  words.expect("algorithm");
  words.read(a.workspace_bytes);
  for (std::uint64_t& word : a.bytes) words.read(word, 16);
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
