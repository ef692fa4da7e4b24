// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shard8::profile {

/// The phases of a training step. Every moment of a step belongs to exactly one phase. A phase that is entered inside
/// another one suspends it: a wait for a gather inside forward counts as gather_wait, not as forward.
enum class Phase : std::uint8_t {
  data,
  gather_wait,
  forward,
  backward,
  reduce_wait,
  optimizer,
  quantize,
  checkpoint_stall,
  other
};
inline constexpr int kPhases = 9;

/// The parts of forward and backward. Every moment of forward and backward belongs to at most one part.
enum class Part : std::uint8_t { attention, gemm, tensor_comm, elementwise };
inline constexpr int kParts = 4;

/// The name in reports, files and Kokkos Tools regions.
constexpr std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::data:
      return "data";
    case Phase::gather_wait:
      return "gather_wait";
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::reduce_wait:
      return "reduce_wait";
    case Phase::optimizer:
      return "optimizer";
    case Phase::quantize:
      return "quantize";
    case Phase::checkpoint_stall:
      return "checkpoint_stall";
    case Phase::other:
      return "other";
  }
  return "?";
}

constexpr std::string_view name_of(Part part) {
  switch (part) {
    case Part::attention:
      return "attention";
    case Part::gemm:
      return "gemm";
    case Part::tensor_comm:
      return "tensor_comm";
    case Part::elementwise:
      return "elementwise";
  }
  return "?";
}

/// The exchanges of the tensor group and of the expert group. A forward that is recomputed counts as the forward.
enum class Exchange : std::uint8_t {
  qkv_fprop,      ///< gather of qkv's input
  proj_fprop,     ///< reduce-scatter of proj's output
  fc1_fprop,      ///< gather of fc1's input
  fc2_fprop,      ///< reduce-scatter of fc2's output
  qkv_dgrad,      ///< gather of qkv's input, for its wgrad
  proj_dgrad,     ///< gather of the gradient of proj's output
  fc1_dgrad,      ///< gather of fc1's input, for its wgrad
  fc2_dgrad,      ///< gather of the gradient of fc2's output
  qkv_wgrad,      ///< reduce-scatter of the gradient of qkv's input
  fc1_wgrad,      ///< reduce-scatter of the gradient of fc1's input
  head_fprop,     ///< gather of the head's input
  head_dgrad,     ///< reduce-scatter of the gradient of the head's input
  embedding,      ///< reduce-scatter of the embedded tokens, gather of their gradient
  cross_entropy,  ///< all-reduces of the maxima and sums of the logits
  routing,        ///< gather of how many rows each expert gets, all-reduce for the balance of experts
  dispatch,       ///< all-to-all of tokens to their experts; in backward, of gradients
  combine         ///< all-to-all of the experts' results to their tokens; in backward, of gradients
};
inline constexpr int kExchanges = 17;

/// The exchanges that can overlap with matrix products. Each has a key of its name in the deck's group overlap.
inline constexpr std::array kOverlapKeys{
    Exchange::qkv_fprop,  Exchange::proj_fprop, Exchange::fc1_fprop, Exchange::fc2_fprop, Exchange::qkv_dgrad,
    Exchange::proj_dgrad, Exchange::fc1_dgrad,  Exchange::fc2_dgrad, Exchange::qkv_wgrad, Exchange::fc1_wgrad,
    Exchange::head_fprop, Exchange::head_dgrad, Exchange::dispatch,  Exchange::combine};

/// The exchanges of rows of experts, between the ranks of an expert group. All others with a key are the tensor
/// group's.
inline constexpr std::array kExpertExchanges{Exchange::dispatch, Exchange::combine};
constexpr bool of_experts(Exchange exchange) {
  return exchange == kExpertExchanges[0] || exchange == kExpertExchanges[1];
}

/// The name in decks, reports and files.
constexpr std::string_view name_of(Exchange exchange) {
  constexpr std::string_view names[kExchanges] = {"qkv_fprop",  "proj_fprop", "fc1_fprop", "fc2_fprop",     "qkv_dgrad",
                                                  "proj_dgrad", "fc1_dgrad",  "fc2_dgrad", "qkv_wgrad",     "fc1_wgrad",
                                                  "head_fprop", "head_dgrad", "embedding", "cross_entropy", "routing",
                                                  "dispatch",   "combine"};
  return names[static_cast<std::size_t>(exchange)];
}

/// How an exchange overlaps with matrix products.
enum class ExchangeMethod : std::uint8_t {
  off,        ///< no overlap: a rank waits for it in the plain order
  automatic,  ///< in decks: a run times the method of the exchange, and uses it or off
  bulk,       ///< the whole exchange is overlapped with a whole product that does not need it
  direct,     ///< a gather: the product of each rank's rows runs as soon as they are there, own rows first
  pipeline,   ///< a reduce-scatter: the rows for each rank are sent as soon as their product is done, own rows last;
              ///< rows of experts: those of some experts are sent while those of others are multiplied
  ring        ///< as direct or pipeline, but rows or sums of rows pass from neighbour to neighbour; on hosts
};
inline constexpr int kExchangeMethods = 6;

/// The name in decks, reports and files.
constexpr std::string_view name_of(ExchangeMethod method) {
  constexpr std::string_view names[kExchangeMethods] = {"off", "auto", "bulk", "direct", "pipeline", "ring"};
  return names[static_cast<std::size_t>(method)];
}

/// The method of each exchange. `ExchangeMethods{}`: all are off.
struct ExchangeMethods : std::array<ExchangeMethod, kExchanges> {
  constexpr ExchangeMethod& operator[](Exchange e) { return at(static_cast<std::size_t>(e)); }
  constexpr ExchangeMethod operator[](Exchange e) const { return at(static_cast<std::size_t>(e)); }
};

}  // namespace shard8::profile
