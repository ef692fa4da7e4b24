// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/phase.hpp"

namespace shard8::profile {

std::string_view name_of(Phase phase) {
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
    case Phase::other:
      return "other";
  }
  return "?";
}

std::string_view name_of(Part part) {
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
