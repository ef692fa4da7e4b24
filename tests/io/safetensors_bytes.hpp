// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace shard8::test {

/// The bytes of a .safetensors file: the header's length, the header, the data.
inline std::string safetensors(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string out(sizeof(length), '\0');
  std::memcpy(out.data(), &length, sizeof(length));
  return out + header + data;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string out(values.size() * sizeof(T), '\0');
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

/// The entry "name":{...} of a header.
inline std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, std::size_t begin,
                         std::size_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

/// The upper half of an fp32 whose lower half is zero.
inline std::uint16_t bf16_bits(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

}  // namespace shard8::test
