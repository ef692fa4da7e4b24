// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tensor/shape.hpp"

namespace shard8::tensor {

std::string to_string(const Shape& shape) {
  std::string s = "(";
  for (int d = 0; d < shape.rank(); ++d) s += (d > 0 ? ", " : "") + std::to_string(shape[d]);
  return s + ")";
}

}  // namespace shard8::tensor
