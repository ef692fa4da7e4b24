// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "app/run_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "app/device.hpp"
#include "app/process.hpp"
#include "app/refusals.hpp"
#include "app/run_measures.hpp"
#include "app/run_output.hpp"
#include "base/log.hpp"
#include "base/plain_file.hpp"
#include "base/utc.hpp"
#include "comm/agree.hpp"
#include "comm/device.hpp"
#include "comm/host_waits.hpp"
#include "deck/choices.hpp"
#include "deck/overlap.hpp"
#include "io/file.hpp"
#include "profile/report_files.hpp"
#include "project/skeleton_waits.hpp"
#include "train/assembly.hpp"
#include "train/plan/plan.hpp"
#include "train/stopping.hpp"
#include "train/training_file.hpp"

namespace shard8::app {

namespace fs = std::filesystem;

namespace {

class SkeletonRun {
 public:
  SkeletonRun(Job& job, const StopRequests& requests, std::vector<std::string> command)
      : requests_(requests),
        command_(std::move(command)),
        deck_(job.deck),
        node_(job.node),
        log_(job.log),
        logger_(job.world.rank(), job.world.size()),
        world_(std::move(job.world)),
        exec_(job.runtime.exec()),
        output_(deck_.config.output, world_),
        assembly_(deck_.config, world_.same(), exec_, job.runtime.threads(), program_text()),
        baseline_(memory_taken()),
        steps_{.first = 0, .end = end_of(deck_.config.run), .timing_skip = deck_.config.run.timing_skip},
        stopping_(never_after(deck_.config.run), requests.sources(world_)) {
    log_.set_measuring(false);
  }

  int operator()() {
    energy_.emplace(world_, node_);
    at(Stage::output, [&] {
      comm::agree_on_root(world_, 0, [&] {
        require_output(config());
        require_no_training(config());
      });
      output_.check_trace();
    });
    at(Stage::output_lock, [&] { output_.hold([&](const std::string& text) { logger_.warn("{}", text); }); });
    at(Stage::data, [&] { find_times(); });
    at(Stage::set_up, [&] { set_up(); });
    print_header();
    if (!config().output.trace.empty()) tracer_.emplace(assembly_, steps_, log_, world_);
    const train::LoopResult loop = train();
    if (tracer_) output_.inform([&] { logger_.info("{}", tracer_->write(node_.host)); });
    tracer_.reset();
    report(loop);
    return base::to_int(stop_ ? base::ExitCode::failed : base::ExitCode::ok);
  }

 private:
  const deck::Config& config() const { return deck_.config; }
  bool communicates() const { return config().run.skeleton == deck::Skeleton::communication; }

  static std::int64_t end_of(const deck::RunConfig& run) {
    return run.stop_after > 0 ? std::min(run.stop_after, run.steps) : run.steps;
  }
  static deck::RunConfig never_after(deck::RunConfig run) {
    run.stop_after = 0;
    return run;
  }

  template <class Step>
  void at(Stage stage, const Step& step) {
    world_.waits()->progress().note(name_of(stage).data());
    at_stage(stage, step);
    at_stage(Stage::signal, [&] { comm::agree(world_, [&] { requests_.refuse_start(); }); });
  }

  void find_times() {
    comm::agree(world_, [&] { times_ = project::require_skeleton_times(assembly_.setup(), said_); });
  }

  void set_up() {
    if (communicates())
      comm::agree(world_, [&] {
        auto waits = std::make_unique<project::SkeletonWaits>(exec_, assembly_.setup(), std::move(times_));
        wait_s_ = waits->step_s();
        assembly_.set_waits(std::move(waits));
      });
    assembly_.start();
  }

  void print_header() const {
    print_job(logger_, world_, node_, assembly_);
    const auto automatic = deck::exchanges_with(config(), profile::ExchangeMethod::automatic);
    if (!automatic.empty()) logger_.info("overlap    auto counts as the key's method: a skeleton times no products");
    logger_.info("skeleton   of the {}: no data, no loss, no checkpoint", deck::to_string(config().run.skeleton));
    if (communicates()) logger_.info("skeleton   {}", said_);
    if (communicates() && wait_s_ > 0) logger_.info("skeleton   waits {:.3f} ms of a step", 1e3 * wait_s_);
    if (communicates() && assembly_.setup().dims.device && world_.device() == nullptr)
      logger_.info("skeleton   hosts carry the collectives of a step on devices, by messages of MPI");
    if (const auto unused = unused_by_skeleton(deck_); !unused.empty())
      logger_.info("not used   {}", fmt::join(unused, ", "));
  }

  train::LoopResult train() {
    assembly_.trainer().stop_requests_from([&] { return train::code_of(stopping_.end_step()); });
    train::LoopHooks hooks;
    hooks.before = [&](std::int64_t step) {
      stopping_.begin_step();
      if (step == steps_.first) first_step_began_ = base::unix_now();
      if (step != steps_.first_timed()) return;
      processor_ = begin_measuring(assembly_, log_);
      energy_->begin();
    };
    hooks.after = [&](const train::StepResult& r) {
      last_ = r;
      steps_s_ += r.seconds;
      if (processor_ && processor_->after_step(r.stop_request != 0 || r.step + 1 == steps_.end)) energy_->end();
      if (tracer_) tracer_->after_step(r.step);
      const bool tells = r.step == 0 || (r.step + 1) % config().run.log_every == 0 || r.step + 1 == steps_.end;
      if (tells) logger_.info("skeleton step {}/{}  {:.3f} ms", r.step + 1, steps_.end, 1e3 * r.seconds);
    };
    hooks.stops_before = [&](std::int64_t) {
      stop_ = train::reason_of(last_.stop_request);
      if (!stop_) return false;
      world_.record_device_calls();
      log_.set_measuring(false);
      return true;
    };
    const train::LoopResult loop = train::train(assembly_.trainer(), steps_, hooks);
    assembly_.trainer().settle();
    assembly_.trainer().stop_requests_from({});
    return loop;
  }

  void report(const train::LoopResult& loop) {
    profile::ReportInput input;
    input.tokens_per_step = static_cast<double>(config().data.batch * config().model.seq);
    input.flops_per_step = train::model_flops_per_token(config().model) * input.tokens_per_step;
    input.host = node_.host;
    input.processor = processor_;
    input.energy = energy_->counts();
    input.trains = false;
    if (deck::exchanges_tokens(config())) input.methods = assembly_.setup().dims.overlap.methods;
    if (world_.device() != nullptr) input.issues = &assembly_.timer().issues();
    input.verification = {profile::Verification::Status::not_checked, "skeleton"};
    world_.record_device_calls();
    input.every_rank = !config().output.timing_ranks.empty();
    auto report = profile::make_report(assembly_.timer().steps(), log_, input, gather_over(world_));
    report.skeleton = deck::to_string(config().run.skeleton);
    const MemoryFigures memory = memory_figures(assembly_, memory_growth(baseline_, memory_peak()));
    profile::SummaryInput summary = summary_input(deck_.echo, assembly_, memory);
    summary.command = command_;
    summary.end = {.reason = train::name_of(stop_), .next_step = loop.last.step + 1, .steps = steps_.end};
    summary.leg_times = {.began = process_began_,
                         .ended = base::unix_now(),
                         .start_up_s = first_step_began_ - process_began_,
                         .steps_s = steps_s_,
                         .held_up_s = 0,
                         .after_last_s = 0};
    if (stop_)
      logger_.info("\nstopped by {} before step {} of {}; a skeleton writes no checkpoint", train::name_of(stop_),
                   loop.last.step + 1, steps_.end);
    logger_.info("\n{}{}", to_text(memory), world_.rank() == 0 ? profile::to_text(report) : std::string());
    output_.write(report, summary);
  }

  const StopRequests& requests_;
  std::vector<std::string> command_;
  deck::LoadResult deck_;
  const comm::Node& node_;
  profile::CollectiveLog& log_;
  base::Logger logger_;
  comm::Communicator world_;
  const tensor::Exec& exec_;
  double process_began_ = base::process_began();
  double first_step_began_ = 0, steps_s_ = 0;
  RunOutput output_;
  train::Assembly assembly_;
  std::uint64_t baseline_;
  train::Steps steps_;
  train::Stopping stopping_;
  train::StopReason stop_;
  train::StepResult last_;
  std::unique_ptr<project::ComputingTimes> times_;
  std::string said_;
  double wait_s_ = 0;  ///< of a step
  std::optional<profile::MeasuredUse> processor_;
  std::optional<RunEnergy> energy_;
  std::optional<RunTracer> tracer_;  ///< after assembly_, which it refers to
};

}  // namespace

std::vector<std::string> unused_by_skeleton(const deck::LoadResult& deck) {
  std::vector<std::string> unused;
  for (const deck::Echo& e : deck.echo) {
    const bool is = e.group == "verify" || e.group == "checkpoint" || (e.group == "model" && e.key == "init_file") ||
                    (e.group == "data" && (e.key == "path" || e.key.starts_with("validation"))) ||
                    (e.group == "run" && e.key.starts_with("validate_")) ||
                    (e.group == "output" && (e.key == "metrics" || e.key == "replace"));
    if (is && e.origin != deck::Origin::fallback) unused.push_back(fmt::format("{}.{}", e.group, e.key));
  }
  return unused;
}

void require_no_training(const deck::Config& config) {
  const auto kind_of = [](const fs::path& path) {
    const base::FileKind kind = base::kind_of_file(path);
    if (!kind.why.empty())
      base::fail(base::ExitCode::environment, "cannot examine '{}': {}; set output.dir to another folder",
                 path.string(), kind.why);
    return kind;
  };
  const fs::path file = fs::path(config.output.dir) / train::TrainingFile::kName;
  if (kind_of(file).is_there())
    base::fail(base::ExitCode::environment,
               "output.dir = {} holds the files of a training ({}), which a skeleton run would replace: set output.dir "
               "to another folder",
               config.output.dir, train::TrainingFile::kName);
  const fs::path summary = fs::path(config.output.dir) / config.output.summary;
  if (kind_of(summary).is_file() && profile::skeleton_of_summary(io::text_of(summary.string())).empty())
    base::fail(base::ExitCode::environment,
               "output.dir = {} holds a summary ({}) that is not of a skeleton run, which would replace it: set "
               "output.dir to another folder",
               config.output.dir, config.output.summary);
}

int skeleton_run(Job& job, const StopRequests& requests, std::vector<std::string> command) {
  return SkeletonRun(job, requests, std::move(command))();
}

}  // namespace shard8::app
