// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace shard8::base {
namespace {

constexpr std::size_t kMostQuoted = 200;  // chosen: two lines of a terminal

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// How many bytes a character takes by its first byte, and the least code point of that length; 0 bytes for
// a byte that begins no character.
struct Lead {
  std::size_t bytes;
  std::uint32_t bits;
  std::uint32_t least;
};

Lead lead_of(unsigned char c) {
  if (c < 0x80) return {1, c, 0};
  if (c >= 0xc0 && c < 0xe0) return {2, c & 0x1fu, 0x80};
  if (c >= 0xe0 && c < 0xf0) return {3, c & 0x0fu, 0x800};
  if (c >= 0xf0 && c < 0xf8) return {4, c & 0x07u, 0x10000};
  return {0, 0, 0};
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) c = '?';
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  while (end > 0 && most - end < 3 && continues_character(text[end])) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string quotable(std::string_view text) { return printable(shortened(text, kMostQuoted)); }

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    auto [bytes, code, least] = lead_of(static_cast<unsigned char>(text[i]));
    if (bytes == 0 || bytes > text.size() - i) return false;
    for (std::size_t k = 1; k < bytes; ++k) {
      if (!continues_character(text[i + k])) return false;
      code = code << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3fu);
    }
    if (code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += bytes;
  }
  return true;
}

std::string count(std::int64_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

}  // namespace shard8::base
