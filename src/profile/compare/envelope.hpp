// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profile/compare/comparison.hpp"

namespace shard8::profile {

/// What rounds in a training, from the values of the keys fp8.recipe, precision.compute and precision.reduce: the
/// recipe, or without one "fp32", "bf16", or "fp32, reduce bf16".
std::string rounding_of(std::string_view recipe, std::string_view compute, std::string_view reduce);

/// |a − b| / max(|a|, |b|). 0 for equal numbers and for two NaN; infinite if only one is finite.
double relative_difference(double a, double b);

/// By how much two right runs of one training differ at most, if they differ only in what may change the rounding.
struct Envelope {
  /// Bounds of relative differences by step, from step 0. They never fall with the step.
  struct Bounds {
    std::vector<double> loss, grad_norm;
    std::int64_t pairs = 0;  ///< of runs that were measured
  };
  std::string name;                           ///< the file, or "the shipped envelope"
  std::string origin;                         ///< the commit and date of the measurement
  std::map<std::string, Bounds> roundings{};  ///< by rounding_of()
};

/// Reads an envelope. Error(deck) with the place and the remedy if the file cannot be read, is no envelope, has another
/// schema version, or has bounds that are not positive, finite and rising.
Envelope read_envelope(const std::filesystem::path& path);
/// The envelope that the program contains: inputs/envelope.json of its source.
Envelope shipped_envelope();

/// How two runs lie in an envelope.
struct EnvelopeVerdict {
  /// A difference and its bound; share = difference / bound.
  struct Place {
    std::int64_t step = 0;
    std::string figure;  ///< "loss" or "grad_norm"
    double a = 0, b = 0, difference = 0, bound = 0;
    double share() const { return difference / bound; }
  };
  std::string a, b, rounding, envelope, origin;
  std::int64_t pairs = 0;
  std::int64_t judged = 0;           ///< steps 0 to judged - 1 were judged
  std::int64_t not_judged = 0;       ///< common steps behind them, which the envelope does not have
  std::optional<Place> outside{};    ///< the first difference outside; nothing: all are inside
  std::optional<Place> largest{};    ///< the largest share of a bound; nothing: both runs are equal bit for bit
  std::vector<std::string> notes{};  ///< what was taken for granted
};

/// Judges two runs by an envelope, step by step. `may_differ` says which keys of the deck may have different values in
/// both runs; data.path and model.init_file may, too, with a note. Error(deck) that names the reason if the runs are
/// not one training (with the first key and both values), were projected, are skeletons or have no summary, if they
/// have no steps in common from step 0 on, or if the envelope has no bounds for their rounding.
EnvelopeVerdict judge_by_envelope(const RecordedRun& a, const RecordedRun& b, const Envelope& envelope,
                                  const std::function<bool(const std::string& key)>& may_differ);

/// What `shard8 compare --envelope` prints.
std::string to_text(const EnvelopeVerdict& verdict);
/// The verdicts as JSON. Runs are compared with the first one.
std::string to_json(std::span<const EnvelopeVerdict> verdicts);

}  // namespace shard8::profile
