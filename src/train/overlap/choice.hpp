// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "deck/config.hpp"
#include "kernels/libraries.hpp"
#include "profile/figures.hpp"
#include "profile/measurement.hpp"
#include "tensor/runtime.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// The times of one exchange and its product on a rank: milliseconds of a call in blocks. In a block the calls of
/// `plain` and `overlapped` took turns.
struct ExchangeTimes {
  profile::Exchange exchange{};
  profile::ExchangeMethod method{};
  std::vector<double> plain;       ///< in the plain order
  std::vector<double> overlapped;  ///< with the method
};

/// Whether a method is faster than the plain order beyond the noise: its median is less by 1 % or more, and it was
/// faster in three quarters of the blocks or more. Both spans must have the same number of blocks, at least one. False
/// if a time is not finite.
bool pays(std::span<const double> plain, std::span<const double> overlapped);

/// The methods that pay. Times are those of the slowest rank in each block; rank 0 decides for all. Every rank passes
/// the same exchanges with the same number of blocks, and gets the same choice. Collective over `world`.
///
/// No method changes the bits of a training on hosts. On devices products in parts may be summed in another order than
/// whole ones; with precision.deterministic a method that did so would have to be left out here.
profile::OverlapChoice choose_overlap(const comm::Communicator& world, std::vector<ExchangeTimes> times);

/// A row for each key of the group overlap that is `auto` and has an effect under the deck, with its method and without
/// times. The rows are in the order of profile::Exchange.
std::vector<profile::OverlapChoice::Row> auto_rows(const deck::Config& config);

/// The deck in which nothing overlaps but the exchanges whose key is `auto`.
deck::Config auto_only(deck::Config config);

/// Times the exchanges whose key is `auto` on the ranks of `mesh`, which must have been made for overlap. Takes about
/// `seconds` or less, or, where calls are long, ten calls of each exchange with its product. The memory
/// (OverlapTiming::bytes) is freed. `adopt` as for OverlapTiming. Collective. AgreedError(environment) when a rank has
/// not enough memory.
std::vector<ExchangeTimes> time_auto(const deck::Config& config, const comm::Mesh& mesh, const tensor::Exec& exec,
                                     int threads, double seconds,
                                     const std::function<void(kernels::Libraries&)>& adopt = {});

/// Times of exchanges depend on everything: another condition may make another method the fastest. Format 1 did not
/// record the placement of ranks, the transport and the versions.
inline constexpr profile::MeasurementKind kOverlapKind{.name = "overlap", .format = 2};

/// Whether wgrads of all micro-batches but the first add to a layer's gradients. Otherwise all overwrite them.
bool wgrads_add(const Setup& setup);

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
