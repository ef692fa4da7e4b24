// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "deck/config.hpp"
#include "profile/figures.hpp"
#include "profile/measurement.hpp"

namespace shard8::train {

/// Times of exchanges depend on everything: another condition may make another method the fastest. Format 1 did not
/// record the placement of ranks, the transport and the versions.
inline constexpr profile::MeasurementKind kOverlapKind{.name = "overlap", .format = 2};

/// Conditions of the deck, which come behind those of the job (conditions_of): the mesh, and the keys from which
/// the shapes and dtypes of products and exchanges follow.
profile::Conditions overlap_conditions(const deck::Config& config, profile::Conditions job);

/// A choice of overlap methods as a measurement.
profile::Measurement overlap_measurement(const profile::Conditions& conditions,
                                         const std::vector<profile::OverlapChoice::Row>& rows);

/// The rows of a measurement, without those of exchanges and methods that this program does not have. Nothing, with the
/// reason, if its payload is malformed.
std::optional<std::vector<profile::OverlapChoice::Row>> rows_of(const profile::Measurement& measurement,
                                                                std::string& reason);

/// The rows of a measurement for `wanted`, which have an exchange and its method each, in their order. Nothing if the
/// measurement does not fit: it was made under other conditions, is malformed, or lacks a row. Then `reason` says why.
/// Conditions named in `ignored` are not compared.
std::optional<std::vector<profile::OverlapChoice::Row>> rows_that_fit(
    const profile::Measurement& measurement, const profile::Conditions& conditions,
    const std::vector<profile::OverlapChoice::Row>& wanted, std::string& reason,
    std::span<const std::string_view> ignored = {});

}  // namespace shard8::train
