// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shard8::profile {

/// What a measurement depends on, as names and values, in the order in which they are compared. A name occurs once.
using Conditions = std::vector<std::pair<std::string, std::string>>;

/// The value of a name, null without the name.
const std::string* value_of(const Conditions& conditions, std::string_view name);

/// A kind of measurement that files and checkpoints keep for later runs.
struct MeasurementKind {
  std::string_view name;
  int format = 1;  ///< of the payload. Texts of another format are not read
  /// The conditions that must be the same for a measurement to be used again; empty: all conditions.
  std::span<const std::string_view> required = {};
};

/// A measurement with everything it depends on.
struct Measurement {
  Conditions conditions;  ///< under which it was measured, all that were known
  std::string payload;    ///< what was measured: JSON
};

/// JSON, with the name and the format of the kind. Equal measurements give equal texts. Error(failed) if the payload is
/// no JSON.
std::string to_text(const Measurement& measurement, const MeasurementKind& kind);

/// The measurement of a text from a file or a checkpoint. Nothing if the text is no measurement of this kind and
/// format; then `reason` says why. Whatever the text is, this function throws nothing.
std::optional<Measurement> measurement_of_text(const std::string& text, const MeasurementKind& kind,
                                               std::string& reason);

/// Whether a measurement that was made under the conditions `kept` may be used under the conditions `now`: all
/// conditions that the kind requires are the same. Conditions named in `ignored` are not compared. If not, `reason`
/// names the first condition that differs, with both values. Error(failed) if `now` lacks a condition that the kind
/// names as required.
bool fits(const Conditions& kept, const Conditions& now, const MeasurementKind& kind, std::string& reason,
          std::span<const std::string_view> ignored = {});

}  // namespace shard8::profile
