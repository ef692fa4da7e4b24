// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/random/random_deck.hpp"
#include "tests/random/ranks.hpp"

namespace shard8::test {

/// Relative differences between the losses and the gradient norms of two trainings: those of the first step, before any
/// update has made them larger, and the largest of the later steps.
struct Spread {
  double first_loss = 0, first_norm = 0, loss = 0, norm = 0;

  bool within(const Spread& bounds) const {
    return first_loss <= bounds.first_loss && first_norm <= bounds.first_norm && loss <= bounds.loss &&
           norm <= bounds.norm;
  }
  void raise(const Spread& other);  ///< sets each member to the larger of the two
};
inline constexpr double Spread::*kSpreadMembers[] = {&Spread::first_loss, &Spread::first_norm, &Spread::loss,
                                                     &Spread::norm};

/// The largest differences allowed between two right trainings of a deck, and the kind of decks that they are for.
struct Bounds {
  std::string_view kind;
  Spread most;
};
Bounds bounds_of(const deck::Config& config);

/// The same training on one rank with the default schedule. Keys that change the numbers stay. A clip of 0 becomes a
/// bound that no gradient reaches, so that no unit is updated before all gradients are reduced. All steps
/// are trained.
deck::Config alone(const deck::Config& config);

/// The training of alone() with every number in FP32, without a recipe. Nothing if alone() is that training.
std::optional<deck::Config> alone_in_fp32(const deck::Config& config);

enum class Failure { none, threw, differs, other_bits, stopped_badly, restarted_badly };

struct Verdict {
  Failure failure = Failure::none;
  std::string text;   ///< for a failure: what differs and where, or what was thrown
  Spread difference;  ///< from the training on one rank
};

/// The trainings of a deck: on its mesh, on its mesh with the second schedule, on one rank. If run.stop_after is not 0,
/// more: on its mesh until run.stop_after stops it, and one for each restart. If the first restart changes keys, the
/// first three change them at the same step, in memory. `folder`: of the checkpoints, which no other deck has.
std::vector<Job> jobs_of(const RandomDeck& deck, const std::string& name, const std::string& folder);
/// The training of alone_in_fp32(), with the change of the deck.
std::optional<Job> job_in_fp32(const RandomDeck& deck, const std::string& name);
/// The deck as several texts, if a stopped training goes on: the one that stops, and one for each restart. Otherwise as
/// one. Each is the text of a deck that the program runs; with form_text().
std::string text_of(const RandomDeck& deck);
/// Compares the outcomes of jobs_of() with each other. `in_fp32`, the outcome of alone_in_fp32() or null, is asked
/// where the training on the mesh differs from the one on one rank by more than the bounds: it passes if it differs
/// from the one in FP32 by at most 1.5 times as much as the one on one rank does.
Verdict judge(const RandomDeck& deck, std::span<const Outcome> outcomes, const Outcome* in_fp32 = nullptr);

/// The largest differences over the steps; infinite if only one of two numbers is finite, 0 if neither is.
Spread difference_of(const Outcome& a, const Outcome& b);

}  // namespace shard8::test
