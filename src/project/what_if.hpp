// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "project/projection.hpp"

namespace shard8::project {

/// A property of a machine that a projection may change, by a factor.
struct Property {
  std::string_view key;   ///< "network.bandwidth"
  std::string_view help;  ///< what the factor changes
  void (*scale)(machine::Machine& machine, double factor);
};
std::span<const Property> properties();

/// A change of one property.
struct Change {
  const Property* property = nullptr;
  double factor = 1;
};
/// Reads "network.bandwidth=0.5x,device.power=0.8x". Error(deck) for an unknown property or another form.
std::vector<Change> read_changes(const std::string& text, std::string_view option);
machine::Machine changed(machine::Machine machine, std::span<const Change> changes);

/// The nominal step with one property halved and doubled.
struct Sensitivity {
  std::string_view key;
  double half_s = 0, double_s = 0;
};
/// Of every property, the one that changes the step most first.
std::vector<Sensitivity> sensitivities(const deck::Config& config, const machine::Machine& machine,
                                       const Settings& settings);

}  // namespace shard8::project
