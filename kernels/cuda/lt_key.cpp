// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/lt_key.hpp"

#include <string_view>

#include "base/error.hpp"

namespace shard8::kernels::cuda {
namespace {

using base::ExitCode;
using tensor::DType;

constexpr std::int64_t kBlock = 128;

bool is_float8(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }

bool is_block(LtScaling scaling) { return scaling == LtScaling::vec_128 || scaling == LtScaling::tile_128; }

LtFactor laid_out(LtFactor factor, bool depth_contiguous) {
  factor.depth_contiguous = is_float8(factor.dtype) || depth_contiguous;
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
  const bool float8 = is_float8(key.left.dtype);
  const bool plain = key.left.dtype == DType::bf16 || key.left.dtype == DType::fp32;
  if (float8 ? !is_float8(key.right.dtype) : !plain || key.left.dtype != key.right.dtype) {
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

DType bias_dtype(const LtGemmKey& key) { return is_float8(key.left.dtype) ? DType::bf16 : key.out; }

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

}  // namespace shard8::kernels::cuda
