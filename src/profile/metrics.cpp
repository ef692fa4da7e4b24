// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/metrics.hpp"

#include <nlohmann/json.hpp>

namespace shard8::profile {

std::string to_json_line(const StepMetrics& metrics) {
  nlohmann::ordered_json line;
  line["step"] = metrics.step;
  line["loss"] = metrics.loss;
  line["grad_norm"] = metrics.grad_norm;
  line["lr"] = metrics.lr;
  line["tokens"] = metrics.tokens;
  line["step_s"] = metrics.step_s;
  line["tokens_per_s"] = metrics.tokens_per_s;
  return line.dump();
}

}  // namespace shard8::profile
