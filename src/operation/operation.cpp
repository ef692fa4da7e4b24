// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "operation/operation.hpp"

#include <fmt/format.h>

namespace shard8::operation {

using tensor::DType;
using tensor::Scaling;

std::string_view name_of(Stream stream) {
  constexpr std::string_view names[] = {"compute", "gather", "reduce"};
  return names[static_cast<int>(stream)];
}

std::string_view name_of(Linear linear) {
  constexpr std::string_view names[] = {"qkv", "proj", "fc1", "fc2"};
  return names[static_cast<int>(linear)];
}

std::string_view name_of(Product::Kind kind) {
  constexpr std::string_view names[] = {"fprop", "dgrad", "wgrad"};
  return names[static_cast<int>(kind)];
}

Format format_of(const tensor::Operand& matrix) { return {matrix.data.dtype, matrix.scaling, matrix.transposed}; }

std::uint64_t bytes_of(const Format& format, std::int64_t elements) {
  const std::uint64_t values = tensor::bytes_of(format.dtype, elements);
  if (format.scaling == Scaling::none) return values;
  return values + static_cast<std::uint64_t>(tensor::scale_bytes(format.scaling, elements));
}

std::uint64_t bytes_written(const Product& p) {
  const std::int64_t matrices = p.kind == Product::Kind::wgrad ? p.groups : 1;
  return bytes_of(Format{p.out}, matrices * p.rows * p.cols);
}

std::uint64_t bytes_read(const Product& p) {
  const std::int64_t weights = p.kind == Product::Kind::wgrad ? 1 : p.groups;
  std::uint64_t read = bytes_of(p.left, p.rows * p.inner) + bytes_of(p.right, weights * p.inner * p.cols);
  if (p.accumulate) read += bytes_written(p);
  if (p.residual) read += bytes_written(p);
  if (p.bias) read += bytes_of(Format{p.out}, p.cols);
  return read;
}

std::uint64_t bytes_of(const kernels::Outputs& outputs) {
  if (!outputs.blocks.empty()) return bytes_of(outputs.blocks.rowwise) + bytes_of(outputs.blocks.columnwise);
  const std::uint64_t rowwise = outputs.transposed_alone ? 0 : bytes_of(outputs.quantized.data);
  return bytes_of(outputs.plain) + rowwise + bytes_of(outputs.quantized.scale_inv) + bytes_of(outputs.transposed);
}

std::uint64_t bytes_of(const tensor::PartialSums& partial_sums) {
  std::uint64_t all = 0;
  for (int i = 0; i < partial_sums.count(); ++i) all += bytes_of(partial_sums[i]);
  return all;
}

DType dtype_of(const kernels::Outputs& outputs) {
  const kernels::BlockCasts& blocks = outputs.blocks;
  if (!blocks.empty()) return (blocks.rowwise.empty() ? blocks.columnwise : blocks.rowwise).data.dtype;
  return outputs.quantized.empty() ? outputs.plain.dtype : outputs.quantized.data.dtype;
}

std::uint64_t Collective::bytes() const {
  std::uint64_t all = 0;
  for (const Payload& part : payloads) all += part.bytes;
  return all;
}

namespace {

std::string to_text(const Format& format) {
  std::string text(tensor::name_of(format.dtype));
  if (format.scaling != Scaling::none) text += fmt::format(" scaled by {}", tensor::name_of(format.scaling));
  if (format.transposed) text += " transposed";
  return text;
}

std::string to_text(const Location& location) {
  std::string text = location.unit < 0 ? "-" : fmt::format("unit {}", location.unit);
  return location.linear ? fmt::format("{} {}", text, name_of(*location.linear)) : text;
}

}  // namespace

std::string to_text(const Product& p) {
  const std::string groups = p.groups > 1 ? fmt::format(" in {} groups", p.groups) : std::string();
  return fmt::format("{} ({}, {}) {} {} ({}, {}) {} · ({}, {}) {}{}{}{}", name_of(p.kind), p.rows, p.cols,
                     tensor::name_of(p.out), p.accumulate ? "+=" : "=", p.rows, p.inner, to_text(p.left), p.inner,
                     p.cols, to_text(p.right), p.bias ? " + bias" : "", p.residual ? " + residual" : "", groups);
}

std::string to_text(const Attention& a) {
  return fmt::format("attention {} of {} sequences of {}, {} heads, {} of keys, {} elements, {}{}",
                     a.backward ? "backward" : "forward", a.shape.batch, a.shape.seq, a.shape.heads, a.shape.kv_heads,
                     a.shape.head_dim, tensor::name_of(a.dtype), a.shape.deterministic ? "" : ", not deterministic");
}

std::string to_text(const Kernel& k) {
  return fmt::format("{} of ({}, {}) {} to {}", k.name, k.rows, k.cols, tensor::name_of(k.in), tensor::name_of(k.out));
}

std::string to_text(const Collective& c) {
  std::string text = fmt::format("{} in {} of {}:", profile::name_of(c.op), name_of(c.group), c.ranks);
  for (const auto& part : c.payloads) text += fmt::format(" {} bytes of {}", part.bytes, tensor::name_of(part.dtype));
  return text;
}

std::string to_text(const Operation& o) {
  std::string text = fmt::format("{} | {} | {} | ", profile::name_of(o.phase), name_of(o.stream), to_text(o.location));
  text += std::visit([](const auto& what) { return to_text(what); }, o.what);
  if (o.read + o.written > 0) text += fmt::format(" | {} bytes read, {} written", o.read, o.written);
  if (o.recomputed) text += " | recomputed";
  for (const int w : o.waits) text += fmt::format(" | after {}", w);
  return text;
}

}  // namespace shard8::operation
