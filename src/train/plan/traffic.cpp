// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <string>

#include "train/plan/plan.hpp"
#include "train/record.hpp"

namespace shard8::train {

Traffic traffic(const Setup& setup) {
  Traffic traffic;
  record_step(setup, {}, [&](const operation::Operation& operation) {
    const auto* c = operation.collective();
    if (c == nullptr || c->host_values) return;
    for (const auto& part : c->parts)
      ++traffic[{c->op, std::string(name_of(c->group)), c->ranks, std::string(tensor::name_of(part.dtype)),
                 part.bytes}];
  });
  return traffic;
}

}  // namespace shard8::train
