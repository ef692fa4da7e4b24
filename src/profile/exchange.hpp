// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shard8::profile {

/// The exchanges of the tensor group. The first twelve have the names of the deck's keys in the group overlap. A
/// forward that is recomputed counts as the forward.
enum class Exchange : std::uint8_t {
  qkv_fprop,     ///< gather of qkv's input
  proj_fprop,    ///< reduce-scatter of proj's output
  fc1_fprop,     ///< gather of fc1's input
  fc2_fprop,     ///< reduce-scatter of fc2's output
  qkv_dgrad,     ///< gather of qkv's input, for its wgrad
  proj_dgrad,    ///< gather of the gradient of proj's output
  fc1_dgrad,     ///< gather of fc1's input, for its wgrad
  fc2_dgrad,     ///< gather of the gradient of fc2's output
  qkv_wgrad,     ///< reduce-scatter of the gradient of qkv's input
  fc1_wgrad,     ///< reduce-scatter of the gradient of fc1's input
  head_fprop,    ///< gather of the head's input
  head_dgrad,    ///< reduce-scatter of the gradient of the head's input
  embedding,     ///< reduce-scatter of the embedded tokens, gather of their gradient
  cross_entropy  ///< all-reduces of the maxima and sums of the logits
};
inline constexpr int kExchanges = 14;

/// The name in decks, reports and files.
constexpr std::string_view name_of(Exchange exchange) {
  constexpr std::string_view names[kExchanges] = {"qkv_fprop",  "proj_fprop", "fc1_fprop", "fc2_fprop",    "qkv_dgrad",
                                                  "proj_dgrad", "fc1_dgrad",  "fc2_dgrad", "qkv_wgrad",    "fc1_wgrad",
                                                  "head_fprop", "head_dgrad", "embedding", "cross_entropy"};
  return names[static_cast<std::size_t>(exchange)];
}

/// How each exchange is hidden behind matrix products, in the order of Exchange: "off", "bulk", ...
using ExchangeMethods = std::array<std::string, kExchanges>;

/// No exchange is hidden: "off" for each.
inline ExchangeMethods all_off() {
  ExchangeMethods methods;
  methods.fill("off");
  return methods;
}

}  // namespace shard8::profile
