// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "deck/diagnostics.hpp"
#include "deck/reading.hpp"

namespace shard8::deck {

/// For checks over several keys ("group.key"): which of them can be used, and where to put blame.
class Checker {
 public:
  Checker(Diagnostics& errors, const Reading& reading) : errors_(errors), reading_(reading) {}

  /// All of these have a value of the right type.
  bool sound(std::initializer_list<std::string_view> paths) const;

  /// "model.heads = 12": the value in use, with a word on where a default came from.
  std::string shown(std::string_view path) const;

  /// An error at the first key that the command line gives, else at the first that the deck gives,
  /// else at the first one's group.
  void fail(std::initializer_list<std::string_view> blame, std::string message, std::string hint = {}) const;

  /// Error unless the value of one key is a multiple of that of the other.
  void divisible(std::string_view path, std::string_view by) const;

 private:
  Span place(std::initializer_list<std::string_view> blame) const;
  std::int64_t integer(std::string_view path) const;

  Diagnostics& errors_;
  const Reading& reading_;
};

}  // namespace shard8::deck
