// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/verify.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace shard8::train {

namespace {

void add(std::string& why, const std::string& reason) { why += (why.empty() ? "" : "; ") + reason; }

void check_final_loss(std::string& why, const deck::VerifyConfig& config, double loss,
                      std::optional<double> unigram_entropy) {
  if (config.final_loss_max > 0 && !(loss <= config.final_loss_max))
    add(why, fmt::format("final loss {:.6g} is above verify.final_loss_max {:.6g}", loss, config.final_loss_max));
  if (config.final_loss_min > 0 && !(loss >= config.final_loss_min))
    add(why, fmt::format("final loss {:.6g} is below verify.final_loss_min {:.6g}", loss, config.final_loss_min));
  if (config.unigram_ratio_max > 0) {
    SHARD8_REQUIRE(unigram_entropy.has_value(), "the data's unigram entropy was not computed");
    if (!(loss <= config.unigram_ratio_max * *unigram_entropy))
      add(why, fmt::format("final loss {:.6g} is {:.3f} of the data's unigram entropy {:.6g}, allowed is {:.3f}", loss,
                           loss / *unigram_entropy, *unigram_entropy, config.unigram_ratio_max));
  }
}

void check_gold(std::string& why, const deck::VerifyConfig& config, std::span<const StepResult> results,
                std::span<const double> gold, bool finished) {
  const auto last = results.back().step;
  const auto losses = static_cast<std::int64_t>(gold.size());
  if (finished ? losses != last + 1 : losses <= last) {
    add(why, fmt::format("{} has steps 0 to {}, the run ends with step {}", config.gold, losses - 1, last));
    return;
  }
  for (const StepResult& result : results) {
    const double wanted = gold[static_cast<std::size_t>(result.step)];
    const double difference = std::abs(result.loss - wanted) / std::abs(wanted);
    if (difference <= config.tolerance) continue;
    add(why, fmt::format("loss {:.9g} of step {} differs from {:.9g} in {} by {:.2e} relative, allowed is {:.2e}",
                         result.loss, result.step, wanted, config.gold, difference, config.tolerance));
    return;
  }
}

}  // namespace

profile::Verification verify(const deck::VerifyConfig& config, std::span<const StepResult> results,
                             std::optional<double> unigram_entropy, std::span<const double> gold, bool finished) {
  if (!config.configured()) return {};
  using profile::Verification;
  std::string why;
  const std::int64_t steps = results.back().step + 1;
  const bool too_short = config.limits_final_loss() && steps < config.min_steps;
  if (finished && !too_short) {
    check_final_loss(why, config, results.back().loss, unigram_entropy);
    if (!why.empty() && config.min_steps == 1)
      why += "; for limits that only a longer run reaches set verify.min_steps";
  }
  if (!config.gold.empty()) check_gold(why, config, results, gold, finished);
  if (!why.empty()) return {Verification::Status::failed, why};
  if (finished && too_short)
    return {Verification::Status::not_checked,
            fmt::format("run.steps = {} is less than verify.min_steps = {}: the final loss is not judged", steps,
                        config.min_steps)};
  return {finished ? Verification::Status::passed : Verification::Status::not_reached, {}};
}

std::vector<double> read_gold(const std::string& path) {
  std::ifstream file(path);
  if (!file) base::fail(base::ExitCode::deck, "verify.gold: cannot read '{}'", path);
  std::vector<double> losses;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    const bool good = object.is_object() && object.contains("step") && object["step"].is_number_integer() &&
                      object.contains("loss") && object["loss"].is_number();
    if (!good || object["step"].get<std::size_t>() != losses.size())
      base::fail(base::ExitCode::deck, "{}:{}: expected a JSON object with \"step\": {} and \"loss\"", path, number,
                 losses.size());
    losses.push_back(object["loss"].get<double>());
  }
  return losses;
}

}  // namespace shard8::train
