// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "deck/config.hpp"

namespace shard8::deck {

using profile::Exchange;
using profile::ExchangeMethod;
using profile::ExchangeMethods;

/// Whether fc2's wgrad can run later than fc2's dgrad, as overlap.proj_dgrad needs it: not if a recomputed matrix
/// overwrites fc2's input in FP8 before.
bool fc2_wgrad_can_wait(const Config& config);
/// Whether proj's wgrad can run when the backward of the layer below has begun, as overlap.fc2_dgrad needs it: not if
/// what that layer recomputes overwrites proj's input.
bool proj_wgrad_can_wait(const Config& config);
/// Whether rows of experts can be multiplied before all of a round have arrived, as overlap.dispatch needs it: not if
/// every layer of experts casts what arrives, with one scale for all.
bool dispatch_can_go_in_parts(const Config& config);
/// Whether a round of rows is cut into parts, as overlap.dispatch needs it: not with one expert a rank, or one chunk.
bool rounds_have_parts(const Config& config);
/// Whether ranks push rows of experts to each other, as dispatch and combine need it to overlap: on devices alone.
bool pushes_rows(const Config& config);

inline constexpr std::array kGatherMethods{ExchangeMethod::automatic, ExchangeMethod::off, ExchangeMethod::direct,
                                           ExchangeMethod::ring};
inline constexpr std::array kScatterMethods{ExchangeMethod::automatic, ExchangeMethod::off, ExchangeMethod::pipeline,
                                            ExchangeMethod::ring};
inline constexpr std::array kRowMethods{ExchangeMethod::automatic, ExchangeMethod::off, ExchangeMethod::pipeline};
inline constexpr std::array kBulkMethods{ExchangeMethod::automatic, ExchangeMethod::off, ExchangeMethod::bulk};

/// The values of an exchange's key. `exchange` is one of profile::kOverlapKeys.
constexpr std::span<const ExchangeMethod> methods_of(Exchange exchange) {
  switch (exchange) {
    case Exchange::qkv_fprop:
    case Exchange::fc1_fprop:
    case Exchange::head_fprop:
      return kGatherMethods;
    case Exchange::proj_fprop:
    case Exchange::fc2_fprop:
      return kScatterMethods;
    case Exchange::dispatch:
    case Exchange::combine:
      return kRowMethods;
    default:
      return kBulkMethods;
  }
}
/// The method that a run times against `off` if the deck's key of this exchange is `auto`: direct, pipeline or bulk.
constexpr ExchangeMethod method_of_auto(Exchange exchange) { return methods_of(exchange)[2]; }

/// Whether ranks exchange tokens in a step: those of a tensor group, or those of an expert group.
inline bool exchanges_tokens(const Config& config) { return config.mesh.exchanges() || config.mesh.expert > 1; }

/// Whether ranks exchange tokens, and can do so while they multiply.
inline bool can_overlap(const Config& config) { return config.mesh.exchanges() || pushes_rows(config); }

/// The method of each exchange; auto counts as its method. Off: all of them unless overlap.enable is true and the
/// exchange's group has several ranks, those without a product to overlap with, and those whose product is smaller
/// than overlap.min_gflop.
ExchangeMethods exchange_methods(const Config& config);
/// The exchanges whose key has this value, in the order of the table. Returns none if nothing can overlap.
std::vector<Exchange> exchanges_with(const Config& config, ExchangeMethod value);

/// In how many products a pipeline on devices multiplies the tokens of each other rank: overlap.chunks, or where that
/// is 0, 2 in a group of two ranks and 1 in larger groups. With two ranks nothing is sent until the first product ends,
/// so it should be short; with more, the tokens of other ranks already are several products.
int pipeline_chunks(const Config& config);
/// In how many products a pipeline of dispatch or combine multiplies the rows of a rank's experts, if it has as many
/// experts: overlap.chunks, or where that is 0, 2.
int expert_chunks(const Config& config);

/// Which exchanges are overlapped with products, and by which method, for the report's header. If a key is auto, the
/// text also says that a run keeps what it times as faster.
std::string describe_overlap(const Config& config);

}  // namespace shard8::deck
