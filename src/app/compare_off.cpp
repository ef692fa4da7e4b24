// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "app/job.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "comm/host_waits.hpp"
#include "deck/overlap.hpp"
#include "train/assembly.hpp"

namespace shard8::app {

namespace {

constexpr std::int64_t kLeastSteps = 3;  ///< of a block

/// "overlap.enable = false (default)".
std::string shown(const deck::LoadResult& deck, std::string_view group, std::string_view key) {
  const auto found = std::find_if(deck.echo.begin(), deck.echo.end(),
                                  [&](const deck::Echo& e) { return e.group == group && e.key == key; });
  SHARD8_REQUIRE(found != deck.echo.end(), "the deck has no key {}.{}", group, key);
  return fmt::format("{}.{} = {} ({})", group, key, deck::value_text(*found), deck::to_string(found->origin));
}

/// The deck of a block: without files but the data, without a limit of steps.
deck::Config block_deck(deck::Config config, std::int64_t steps) {
  config.run.steps = steps;
  config.run.stop_after = 0;
  config.checkpoint.every = 0;
  config.model.init_file.clear();
  config.run.validate_every = 0;
  return config;
}

class Comparison {
 public:
  Comparison(const deck::Config& config, int pairs, const comm::Communicator& world, const tensor::Runtime& runtime,
             const train::Stopping::Sources& sources)
      : world_(world),
        runtime_(runtime),
        pairs_(pairs),
        // All blocks together have about as many steps as the run, or more if a block would get less than its least.
        steps_(std::max(kLeastSteps, config.run.steps / (2 * pairs))),
        left_out_(std::clamp<std::int64_t>(config.run.timing_skip, 1, steps_ / 2)),
        config_(block_deck(config, steps_)),
        stopping_(config_.run, sources) {}

  profile::CompareOff operator()() {
    base::Logger(world_.rank(), world_.size())
        .info("\ncomparing with overlap.enable = false: {} blocks of {}, in turns", 2 * pairs_,
              base::count(steps_, "step", "steps"));
    profile::CompareOff compared{.with = {}, .without = {}, .block_steps = steps_, .left_out = left_out_};
    for (int pair = 0; pair < pairs_; ++pair) {
      auto with = train_block(true);
      auto without = train_block(false);
      if (!with || !without) {
        compared.cut_short = train::name_of(stop_);
        break;
      }
      compared.with.push_back(std::move(*with));
      compared.without.push_back(std::move(*without));
    }
    return compared;
  }

 private:
  /// Seconds of the block's measured steps, each on its slowest rank; nothing if the comparison is to stop.
  std::optional<std::vector<double>> train_block(bool overlap) {
    if (stop_) return std::nullopt;
    stopping_.begin_step();  // setting up counts for the first step: the time left must be enough for the next block's
    deck::Config config = config_;
    config.overlap.enable = overlap;
    train::Assembly assembly(config, world_.same(), runtime_.exec(), runtime_.threads(), program_text());
    {
      const comm::HostWaits::Unlimited files(world_.waits());
      assembly.open_files();
    }
    assembly.start();
    train::Trainer& trainer = assembly.trainer();
    trainer.stop_requests_from([this] { return train::code_of(stopping_.end_step()); });
    std::vector<double> seconds;
    for (std::int64_t step = 0; step < steps_; ++step) {
      if (step > 0) stopping_.begin_step();
      const train::StepResult result = trainer.step(step);
      if (step >= left_out_) seconds.push_back(result.seconds);
      stop_ = train::reason_of(result.stop_request);
      if (stop_ && step + 1 < steps_) {
        trainer.settle();
        world_.record_device_calls();
        return std::nullopt;
      }
    }
    world_.record_device_calls();
    world_.all_reduce(seconds, comm::Communicator::Reduce::max);
    return seconds;
  }

  const comm::Communicator& world_;
  const tensor::Runtime& runtime_;
  const int pairs_;
  const std::int64_t steps_, left_out_;  ///< of a block
  const deck::Config config_;
  train::Stopping stopping_;
  train::StopReason stop_;
};

}  // namespace

void check_compare_off(const std::string& name, const deck::LoadResult& deck) {
  const deck::Config& config = deck.config;
  std::string problems;
  const auto refuse = [&](const std::string& what) {
    problems += fmt::format("{}{}: error: --compare-off compares with overlap.enable = false, but {}",
                            problems.empty() ? "" : "\n", name, what);
  };
  if (config.run.skeleton != deck::Skeleton::none)
    refuse(shown(deck, "run", "skeleton") + " trains nothing: set run.skeleton = none, or leave out --compare-off");
  if (!config.overlap.enable)
    refuse(shown(deck, "overlap", "enable") + ": set overlap.enable = true, or leave out --compare-off");
  if (!deck::can_overlap(config))
    refuse(shown(deck, "mesh", "tensor") +
           ", and a tensor group of one rank exchanges nothing: set mesh.tensor to 2 or more, or leave out "
           "--compare-off");
  if (problems.empty() && !model::Overlap::make(config).any())
    refuse(config.overlap.min_gflop > 0
               ? shown(deck, "overlap", "min_gflop") +
                     ", and no exchange that is not off has so large a product: lower it, or leave out --compare-off"
               : "every other key of the group overlap is off: set one of them to auto, or leave out --compare-off");
  if (config.run.steps < kLeastSteps)
    refuse(fmt::format("{}, and a block has {} steps: set run.steps to {} or more, or leave out --compare-off",
                       shown(deck, "run", "steps"), kLeastSteps, kLeastSteps));
  if (!problems.empty()) throw base::Error(base::ExitCode::deck, problems);
}

profile::CompareOff compare_off(const deck::Config& config, int pairs, const comm::Communicator& world,
                                const tensor::Runtime& runtime, const train::Stopping::Sources& sources) {
  return Comparison(config, pairs, world, runtime, sources)();
}

}  // namespace shard8::app
