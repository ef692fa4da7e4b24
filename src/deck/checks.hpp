// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "deck/config.hpp"
#include "deck/diagnostics.hpp"
#include "deck/reading.hpp"

namespace shard8::deck {

class Checker;

/// Sets the defaults that depend on other keys.
void resolve_defaults(Reading& reading);

/// Checks that involve several keys: divisibility, order, conflicts. Messages show the arithmetic. Each error is placed
/// at a key whose change repairs the deck, on the command line if one is given there, otherwise in the deck.
void check_together(Diagnostics& errors, const Reading& reading);

/// The checks of FP8: keys that contradict the recipe, and sizes that its blocks do not divide.
void check_fp8(const Checker& check, const Config& config);

/// A recipe's format; automatic for recipe none.
Fp8Format format_of(Recipe recipe);

/// " (ceil(data.batch / data ranks) = ...)" where the size of a micro-batch does not come from data.micro_batch;
/// otherwise empty.
std::string micro_batch_note(const Config& config);

/// Checks that the files named in the deck exist, seen from the working directory or else from the folder of the file
/// `deck`; the Config gets the path that was found. Checks that no output file is the deck or one of these files.
/// Opens no file.
void check_files(Diagnostics& errors, Reading& reading, const std::string& deck);

/// Helps checks that involve several keys, named "group.key".
class Checker {
 public:
  Checker(Diagnostics& errors, const Reading& reading) : errors_(errors), reading_(reading) {}

  /// True if all of these keys have a usable value.
  bool sound(std::initializer_list<std::string_view> paths) const;

  /// "model.heads = 12": a key with its value; a default is marked as one.
  std::string shown(std::string_view path) const;

  /// Adds an error. It is placed at the first of the keys that the command line gives, else at the first that the
  /// deck gives, else at the group of the first key.
  void fail(std::initializer_list<std::string_view> blame, std::string message, std::string hint = {}) const;

  /// Adds an error unless the value of `path` is a multiple of the value of `by`.
  void divisible(std::string_view path, std::string_view by) const;

 private:
  Span place(std::initializer_list<std::string_view> blame) const;
  std::int64_t integer(std::string_view path) const;

  Diagnostics& errors_;
  const Reading& reading_;
};

/// Adds a warning for each key that is given a value other than its default although nothing reads it with the other
/// keys' values ("fp8.margin" without recipe delayed). The deck must have no errors and all defaults set.
void warn_of_unused(Diagnostics& diagnostics, const Reading& reading);

}  // namespace shard8::deck
