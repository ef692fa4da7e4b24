// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "fp8/cast_buffer.hpp"

namespace shard8::model {

using tensor::DType;
using tensor::Scaling;

std::string_view name_of(Stream stream) {
  constexpr std::string_view names[] = {"compute", "gather", "reduce"};
  return names[static_cast<int>(stream)];
}

std::uint64_t bytes_of(const Format& format, std::int64_t elements) {
  const auto values = static_cast<std::uint64_t>(elements) * tensor::size_of(format.dtype);
  if (format.scaling == Scaling::none) return values;
  return values + static_cast<std::uint64_t>(fp8::scale_bytes(format.scaling, elements));
}

std::uint64_t operation::Collective::bytes() const {
  std::uint64_t all = 0;
  for (const Part& part : parts) all += part.bytes;
  return all;
}

namespace {

std::string to_text(const Format& format) {
  std::string text(tensor::name_of(format.dtype));
  if (format.scaling != Scaling::none) text += fmt::format(" scaled by {}", tensor::name_of(format.scaling));
  if (format.transposed) text += " transposed";
  return text;
}

std::string to_text(const Site& site) {
  std::string text = site.unit < 0 ? "-" : fmt::format("unit {}", site.unit);
  if (!site.linear) return text;
  const std::string name = fp8::name_of(*site.linear, fp8::Role::input);  // "qkv input"
  return text + ' ' + name.substr(0, name.find(' '));
}

}  // namespace

std::string to_text(const Operation::Product& p) {
  constexpr std::string_view kinds[] = {"fprop", "dgrad", "wgrad"};
  return fmt::format("{} ({}, {}) {} {} ({}, {}) {} · ({}, {}) {}{}{}", kinds[static_cast<int>(p.kind)], p.rows, p.cols,
                     tensor::name_of(p.out), p.accumulate ? "+=" : "=", p.rows, p.inner, to_text(p.left), p.inner,
                     p.cols, to_text(p.right), p.bias ? " + bias" : "", p.residual ? " + residual" : "");
}

std::string to_text(const Operation::Attention& a) {
  return fmt::format("attention {} of {} sequences of {}, {} heads, {} of keys, {} elements, {}{}",
                     a.backward ? "backward" : "forward", a.shape.batch, a.shape.seq, a.shape.heads, a.shape.kv_heads,
                     a.shape.head_dim, tensor::name_of(a.dtype), a.shape.deterministic ? "" : ", not deterministic");
}

std::string to_text(const Operation::Kernel& k) {
  return fmt::format("{} of ({}, {}) {} to {}", k.name, k.rows, k.cols, tensor::name_of(k.in), tensor::name_of(k.out));
}

std::string to_text(const Operation::Collective& c) {
  std::string text = fmt::format("{} in {} of {}:", profile::name_of(c.op), name_of(c.group), c.ranks);
  for (const auto& part : c.parts) text += fmt::format(" {} bytes of {}", part.bytes, tensor::name_of(part.dtype));
  return text;
}

std::string to_text(const Operation& o) {
  std::string text = fmt::format("{} | {} | {} | ", profile::name_of(o.phase), name_of(o.stream), to_text(o.site));
  text += std::visit([](const auto& what) { return to_text(what); }, o.what);
  if (o.read + o.written > 0) text += fmt::format(" | {} bytes read, {} written", o.read, o.written);
  if (o.recomputed) text += " | recomputed";
  for (const int w : o.waits) text += fmt::format(" | after {}", w);
  return text;
}

void OperationWriter::write(Operation operation) {
  operation.site = site;
  operation.phase = phase;
  operation.recomputed = recomputed;
  operation.waits = std::exchange(waits_, {});
  sink_(operation);
  ++count_;
}

void OperationWriter::product(const Operation::Product& p) {
  Operation o;
  o.read = bytes_of(p.left, p.rows * p.inner) + bytes_of(p.right, p.inner * p.cols);
  o.written = bytes_of({p.out}, p.rows * p.cols);
  if (p.accumulate) o.read += o.written;
  if (p.residual) o.read += o.written;
  if (p.bias) o.read += bytes_of({p.out}, p.cols);
  o.what = p;
  write(std::move(o));
}

void OperationWriter::attention(const Operation::Attention& a) {
  Operation o;
  const std::uint64_t qkv = bytes_of({a.dtype}, a.shape.tokens() * a.shape.qkv_columns());
  const std::uint64_t heads = bytes_of({a.dtype}, a.shape.tokens() * a.shape.heads * a.shape.head_dim);
  const std::uint64_t lse = bytes_of({DType::fp32}, a.shape.tokens() * a.shape.heads);
  o.read = a.backward ? qkv + 2 * heads + lse : qkv;
  o.written = a.backward ? qkv : heads + lse;
  o.what = a;
  write(std::move(o));
}

void OperationWriter::kernel(const Operation::Kernel& k, std::uint64_t read, std::uint64_t written) {
  if (k.rows * k.cols == 0) return;
  Operation o;
  o.read = read;
  o.written = written;
  o.what = k;
  write(std::move(o));
}

std::optional<int> OperationWriter::collective(const Operation::Collective& collective, Stream stream) {
  if (collective.ranks == 1) return {};
  Operation o;
  o.stream = stream;
  Operation::Collective c = collective;
  c.parts.clear();
  for (const auto& part : collective.parts) {
    const auto same =
        std::find_if(c.parts.begin(), c.parts.end(), [&](const auto& p) { return p.dtype == part.dtype; });
    if (same == c.parts.end())
      c.parts.push_back(part);
    else
      same->bytes += part.bytes;
  }
  o.what = std::move(c);
  if (ahead_now_ && stream == Stream::gather) ahead_.push_back(count_);
  write(std::move(o));
  return count_ - 1;
}

void OperationWriter::wait(std::optional<int> collective) {
  if (collective) waits_.push_back(*collective);
}

}  // namespace shard8::model
