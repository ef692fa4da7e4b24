// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deck/config.hpp"
#include "profile/overlap_choice.hpp"

namespace shard8::bench {

/// What the times of exchanges depend on, as names and values: the machine, the mesh, and the keys of the deck from
/// which the shapes and dtypes of the products follow.
using OverlapConditions = std::vector<std::pair<std::string, std::string>>;

/// `machine`: the kind of machine and the ranks on a node.
OverlapConditions overlap_conditions(const deck::Config& config, const std::string& machine);

/// A choice of overlap methods, which a file or a checkpoint keeps for later runs.
struct OverlapPlan {
  OverlapConditions conditions;  ///< under which the times were measured
  std::vector<profile::OverlapChoice::Row> rows;
};

/// JSON. The same plan gives the same text.
std::string to_text(const OverlapPlan& plan);
/// Error(failed), with what is wrong, for a text that is no plan.
OverlapPlan overlap_plan_of_text(const std::string& text);

/// The rows of `plan` for `rows`, which have a key and its method each, in their order. Nothing if the plan does not
/// fit: it was measured under other conditions, or lacks a key. Then `reason` says why.
std::optional<std::vector<profile::OverlapChoice::Row>> rows_that_fit(
    const OverlapPlan& plan, const OverlapConditions& conditions, const std::vector<profile::OverlapChoice::Row>& rows,
    std::string& reason);

}  // namespace shard8::bench
