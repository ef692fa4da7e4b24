// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/totals.hpp"

#include <fmt/format.h>

namespace shard8::profile {

std::string to_text(const Totals& t) {
  if (t.legs <= 1) return {};
  return fmt::format(
      "all {} legs: {} steps from step {}, {} trained again, {} tokens, {:.3f} s of steps, {:.1f} tokens/s\n", t.legs,
      t.steps, t.first_step, t.trained_again, t.tokens, t.step_s, t.tokens_per_s());
}

}  // namespace shard8::profile
