// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <cctype>

namespace shard8::fuzz {
namespace {

constexpr std::size_t kMostBytes = 64 * 1024;

struct Stretch {
  std::size_t first;
  std::size_t size;
};

// A random stretch of a text. Short ones are likely; the whole text is possible.
Stretch stretch_of(Random& random, const std::string& text) {
  if (text.empty()) return {0, 0};
  const std::size_t first = random.below(text.size());
  const std::size_t rest = text.size() - first;
  const std::size_t most = random.one_in(4) ? rest : std::min<std::size_t>(rest, 16);
  return {first, 1 + random.below(most)};
}

// A random line of a text, with its line feed.
Stretch line_of(Random& random, const std::string& text) {
  if (text.empty()) return {0, 0};
  const std::size_t at = random.below(text.size());
  const auto before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  const auto end = text.find('\n', at);
  return {first, (end == std::string::npos ? text.size() : end + 1) - first};
}

Stretch piece_of(Random& random, const std::string& text) {
  return random.one_in(3) ? line_of(random, text) : stretch_of(random, text);
}

std::size_t place_in(Random& random, const std::string& text) { return random.below(text.size() + 1); }

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Replaces a number in the text by another one.
void change_number(Random& random, std::string& text) {
  static const std::vector<std::string> numbers = {"0",
                                                   "1",
                                                   "-1",
                                                   "2",
                                                   "3",
                                                   "7",
                                                   "15",
                                                   "16",
                                                   "64",
                                                   "127",
                                                   "128",
                                                   "255",
                                                   "256",
                                                   "65535",
                                                   "2147483647",
                                                   "2147483648",
                                                   "4294967296",
                                                   "9223372036854775807",
                                                   "9223372036854775808",
                                                   "18446744073709551615",
                                                   "18446744073709551616",
                                                   "1e308",
                                                   "1e-308",
                                                   "1e309",
                                                   "1e-400",
                                                   "0.5",
                                                   "1.0d-3",
                                                   "nan",
                                                   ".inf",
                                                   "00",
                                                   "0x10",
                                                   "1_000",
                                                   "1e99999999999"};
  if (text.empty()) return;
  const std::size_t at = random.below(text.size());
  const auto found = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_digit);
  const auto end = std::find_if_not(found, text.end(), is_digit);
  if (found != text.end()) text.replace(found, end, random.of(numbers));
}

}  // namespace

std::string Mutator::make(Random& random) const {
  std::string text = random.of(corpus_);
  for (std::size_t changes = 1 + random.below(8); changes > 0; --changes) change(random, text);
  if (text.size() > kMostBytes) text.resize(kMostBytes);
  return text;
}

void Mutator::change(Random& random, std::string& text) const {
  const Stretch piece = piece_of(random, text);
  switch (random.below(11)) {
    case 0:
      if (!text.empty()) text[piece.first] = static_cast<char>(text[piece.first] ^ (1 << random.below(8)));
      return;
    case 1:
      if (!text.empty()) text[piece.first] = static_cast<char>(random.below(256));
      return;
    case 2:
      text.insert(text.begin() + static_cast<std::ptrdiff_t>(place_in(random, text)),
                  static_cast<char>(random.below(256)));
      return;
    case 3:
      text.erase(piece.first, piece.size);
      return;
    case 4:
      text.insert(place_in(random, text), text.substr(piece.first, piece.size));
      return;
    case 5: {
      const std::string moved = text.substr(piece.first, piece.size);
      text.erase(piece.first, piece.size);
      text.insert(place_in(random, text), moved);
      return;
    }
    case 6: {
      const std::string& other = random.of(corpus_);
      const Stretch part = piece_of(random, other);
      text.insert(place_in(random, text), other, part.first, part.size);
      return;
    }
    case 7: {  // the beginning of this input, then the end of another
      const std::string& other = random.of(corpus_);
      text = text.substr(0, place_in(random, text)) + other.substr(place_in(random, other));
      return;
    }
    case 8:
      text.insert(place_in(random, text), random.of(words_));
      return;
    case 9: {
      const std::string word = random.one_in(2) ? random.of(words_) : text.substr(piece.first, piece.size);
      const std::size_t times = random.one_in(16) ? 1 + random.below(2000) : 1 + random.below(8);
      const std::size_t at = place_in(random, text);
      std::string run;
      for (std::size_t i = 0; i < times && run.size() < kMostBytes; ++i) run += word;
      text.insert(at, run);
      return;
    }
    default:
      change_number(random, text);
  }
}

}  // namespace shard8::fuzz
