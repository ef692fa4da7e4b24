// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace shard8::trace {

/// Writes one protobuf message, field by field. Source: https://protobuf.dev/programming-guides/encoding
class ProtoMessage {
 public:
  /// int32, int64, uint32, uint64, bool and enumerations. Negative numbers are not needed.
  ProtoMessage& number(int field, std::uint64_t value) {
    tag(field, 0);
    add_varint(bytes_, value);
    return *this;
  }
  /// string, bytes and messages.
  ProtoMessage& text(int field, std::string_view value) {
    tag(field, 2);
    add_varint(bytes_, value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& message(int field, const ProtoMessage& value) { return text(field, value.bytes_); }
  /// A repeated uint64. Nothing is written for none.
  ProtoMessage& numbers(int field, std::span<const std::uint64_t> values) {
    std::string packed;
    for (const std::uint64_t value : values) add_varint(packed, value);
    return packed.empty() ? *this : text(field, packed);
  }
  const std::string& bytes() const { return bytes_; }

  /// Adds this message to a stream of messages, each behind its length.
  void append_to(std::string& stream) const {
    add_varint(stream, bytes_.size());
    stream += bytes_;
  }

 private:
  void tag(int field, unsigned type) { add_varint(bytes_, (static_cast<std::uint64_t>(field) << 3) | type); }
  static void add_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
    out += static_cast<char>(value);
  }
  std::string bytes_;
};

}  // namespace shard8::trace
