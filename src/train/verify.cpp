// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/verify.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/plain_file.hpp"
#include "base/text.hpp"
#include "io/file.hpp"

namespace shard8::train {

namespace {

void add_reason(std::string& why, const std::string& reason) { why += (why.empty() ? "" : "; ") + reason; }

}  // namespace

void LossJudge::add(std::int64_t step, double loss) {
  if (step >= last_step_) {
    last_step_ = step;
    last_loss_ = loss;
  }
  if (step < 0 || step >= static_cast<std::int64_t>(gold_.size()) || (first_off_ >= 0 && first_off_ <= step)) return;
  const double wanted = gold_[static_cast<std::size_t>(step)];
  if (std::abs(loss - wanted) <= config_.tolerance * std::abs(wanted)) return;
  first_off_ = step;
  off_loss_ = loss;
}

void LossJudge::add_validation(std::int64_t step, double loss) {
  if (step < validated_step_) return;
  validated_step_ = step;
  validation_loss_ = loss;
}

void LossJudge::judge_validation_loss(std::string& why, std::int64_t end) const {
  const double most = config_.validation_loss_max;
  if (most <= 0) return;
  if (validated_step_ != end - 1 && other_validated_step_ == end - 1)
    add_reason(
        why, fmt::format("the validation loss behind step {}, the last one, was recorded on other validation data than "
                         "those of this deck",
                         end - 1));
  else if (validated_step_ != end - 1)
    add_reason(why, fmt::format("no validation loss is recorded behind step {}, the last one", end - 1));
  else if (!(validation_loss_ <= most))
    add_reason(
        why, fmt::format("validation loss {:.6g} is above verify.validation_loss_max {:.6g}", validation_loss_, most));
}

void LossJudge::judge_final_loss(std::string& why, double loss, std::optional<double> unigram_entropy) const {
  if (config_.final_loss_max > 0 && !(loss <= config_.final_loss_max))
    add_reason(why,
               fmt::format("final loss {:.6g} is above verify.final_loss_max {:.6g}", loss, config_.final_loss_max));
  if (config_.final_loss_min > 0 && !(loss >= config_.final_loss_min))
    add_reason(why,
               fmt::format("final loss {:.6g} is below verify.final_loss_min {:.6g}", loss, config_.final_loss_min));
  if (config_.unigram_ratio_max > 0) {
    SHARD8_REQUIRE(unigram_entropy.has_value(), "the data's unigram entropy was not computed");
    const double entropy = *unigram_entropy;
    if (!(loss <= config_.unigram_ratio_max * entropy))
      add_reason(why, entropy > 0
                          ? fmt::format("final loss {:.6g} is {:.3f} of the data's unigram entropy {:.6g}, allowed is "
                                        "{:.3f}",
                                        loss, loss / entropy, entropy, config_.unigram_ratio_max)
                          : fmt::format("final loss {:.6g} is above the data's unigram entropy, which is 0: the "
                                        "counted tokens are all the same one",
                                        loss));
  }
}

void LossJudge::judge_gold(std::string& why, std::int64_t end, bool finished) const {
  const auto losses = static_cast<std::int64_t>(gold_.size());
  if (finished ? losses != end : losses < end) {
    add_reason(why, fmt::format("{} has steps 0 to {}, the run ends with step {}", config_.gold, losses - 1, end - 1));
    return;
  }
  if (first_off_ < 0) return;
  const double wanted = gold_[static_cast<std::size_t>(first_off_)];
  const std::string by =
      wanted == 0 ? "" : fmt::format(" by {:.2e} relative", std::abs(off_loss_ - wanted) / std::abs(wanted));
  add_reason(why, fmt::format("loss {:.9g} of step {} differs from {:.9g} in {}{}, allowed is {:.2e}", off_loss_,
                              first_off_, wanted, config_.gold, by, config_.tolerance));
}

profile::Verification LossJudge::verdict(std::int64_t end, std::optional<double> unigram_entropy, bool finished) const {
  if (!config_.configured()) return {};
  using profile::Verification;
  std::string why;
  const bool too_short = config_.limits_final_loss() && end < config_.min_steps;
  if (finished && !too_short && config_.limits_final_loss()) {
    if (last_step_ == end - 1)
      judge_final_loss(why, last_loss_, unigram_entropy);
    else if (config_.limits_training_loss())
      add_reason(why, fmt::format("the loss of step {}, the last one, is not recorded", end - 1));
    judge_validation_loss(why, end);
    if (!why.empty() && config_.min_steps == 1)
      why += "; for limits that only a longer run reaches set verify.min_steps";
  }
  if (!config_.gold.empty()) judge_gold(why, end, finished);
  if (!why.empty()) return {Verification::Status::failed, why};
  if (finished && too_short)
    return {Verification::Status::not_checked,
            fmt::format("run.steps = {} is less than verify.min_steps = {}: the final loss is not judged", end,
                        config_.min_steps)};
  return {finished ? Verification::Status::passed : Verification::Status::not_reached, {}};
}

std::vector<double> read_gold(const std::string& path) {
  io::require_content(path);
  base::PlainFile opened = base::open_plain(path);
  if (!opened.why.empty())
    base::fail(base::ExitCode::deck, "verify.gold: cannot read '{}': {}; give a metrics.jsonl of a run", path,
               opened.why);
  std::ifstream& file = opened.in;
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

std::vector<double> gold_of(const deck::Config& config) {
  const std::string& path = config.verify.gold;
  if (path.empty()) return {};
  std::vector<double> losses = read_gold(path);
  const auto steps = static_cast<std::int64_t>(losses.size());
  const deck::RunConfig& run = config.run;
  const bool may_end_before = (run.stop_after > 0 && run.stop_after < run.steps) || run.time_limit_min > 0;
  if (steps != run.steps && (steps == 0 || !may_end_before))
    base::fail(base::ExitCode::deck,
               "verify.gold: '{}' has the losses of {}, the run has run.steps = {}: give the metrics.jsonl of a run of "
               "as many steps",
               path, base::count(steps, "step", "steps"), run.steps);
  return losses;
}

}  // namespace shard8::train
