// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "deck/config.hpp"
#include "deck/load.hpp"
#include "deck/raw_deck.hpp"

namespace shard8::deck {

class Checker;

/// Sets the defaults that depend on other keys. A default that depends on a key without a usable value is marked as
/// broken.
void resolve_defaults(Reading& reading);

/// Replaces mesh.shard = auto by ranks / (replicate * tensor), and data.batch_per_rank by the batch of all data ranks.
/// Without `ranks` auto becomes the least number with which mesh.expert divides shard * tensor, with a warning. Adds an
/// error for ranks that replicate * tensor does not divide, and for a deck or a command line with both data.batch and
/// data.batch_per_rank. To be called after resolve_defaults().
void resolve_ranks(Diagnostics& errors, Reading& reading, std::optional<std::int64_t> ranks);

/// The command line replaces the deck's batch by either name: takes data.batch or data.batch_per_rank of the deck out
/// of the reading if the command line gives the other one.
void drop_replaced_batch(Reading& reading);

/// Checks that involve several keys: divisibility, order, conflicts, sizes that are too large. Messages show the
/// arithmetic. Each error is placed at a key whose change repairs the deck (Checker::fail). A check is left out if one
/// of its keys has no usable value. To be called after resolve_ranks().
void check_together(Diagnostics& errors, const Reading& reading);

/// The checks of FP8: keys that contradict the recipe, and sizes that its blocks do not divide.
void check_fp8(const Checker& check, const Config& config);

/// The checks of experts: keys and meshes with which they do not go, and numbers of experts and layers.
void check_moe(const Checker& check, const Config& config);

/// The FP8 format that auto stands for with a recipe; automatic for recipe none.
Fp8Format format_of(Recipe recipe);

/// A text for messages: " (ceil(data.batch / data ranks) = ...)" if the size of a micro-batch is not data.micro_batch,
/// otherwise empty. Batch and mesh must be positive.
std::string micro_batch_note(const Config& config);

/// Checks that the files named in the deck exist. A relative name is looked for in the working directory, then in the
/// folder of the file `deck`; the path that was found is written to reading.config. A missing checkpoint.restart that
/// has been `used` is no error. Checks that no output file is the deck or one of these files. Opens no file.
void check_files(Diagnostics& errors, Reading& reading, const std::string& deck, const UsedRestart& used);

/// Helps checks that involve several keys. `path` is always "group.key" and must be in the table of fields.
class Checker {
 public:
  Checker(Diagnostics& errors, const Reading& reading) : errors_(errors), reading_(reading) {}

  /// True if all of these keys have a usable value.
  bool sound(std::initializer_list<std::string_view> paths) const;

  /// A key with its value: "model.heads = 12", or "model.heads = 12 (the default)" if it is not given.
  std::string shown(std::string_view path) const;

  /// Adds an error. The error is placed at the first of the keys that the command line gives, else at the first that
  /// the deck gives, else at the group of the first key.
  void fail(std::initializer_list<std::string_view> blame, std::string message, std::string hint = {}) const;

  /// Adds an error unless the value of `path` is a multiple of the value of `by`. The two values are integers. Adds
  /// nothing if one of them has no usable value.
  void divisible(std::string_view path, std::string_view by) const;

  /// "mesh.tensor could be 1, 2 or 4": the values that divide this number and what else the tensor ranks share.
  std::string tensor_ranks(std::int64_t divided) const;

  /// "mesh.expert could be 1, 2 or 4": the values that divide this number, the experts, and shard * tensor.
  std::string expert_ranks(std::int64_t divided) const;

 private:
  Span place(std::initializer_list<std::string_view> blame) const;
  std::int64_t integer(std::string_view path) const;

  Diagnostics& errors_;
  const Reading& reading_;
};

/// Adds a warning for each key that is given, has another value than its default, and has no effect because of another
/// key ("fp8.margin" without recipe delayed), one for a run that ends within its warm-up, and one for moments of AdamW
/// whose ratio has no bound. The deck must have no errors and all defaults set.
void warn_of_unused(Diagnostics& diagnostics, const Reading& reading);

}  // namespace shard8::deck
