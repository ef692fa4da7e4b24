// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace shard8::profile
