// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <chrono>
#include <optional>
#include <utility>

#include "app/commands.hpp"
#include "app/device.hpp"
#include "app/job.hpp"
#include "app/process.hpp"
#include "app/refusals.hpp"
#include "app/run_measures.hpp"
#include "app/run_output.hpp"
#include "app/run_report.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"
#include "comm/agree.hpp"
#include "comm/device.hpp"
#include "comm/host_waits.hpp"
#include "deck/overlap.hpp"
#include "profile/metrics.hpp"
#include "profile/report_files.hpp"
#include "train/assembly.hpp"
#include "train/checkpoints.hpp"
#include "train/inputs.hpp"
#include "train/overlap/choice.hpp"
#include "train/plan/plan.hpp"
#include "train/stopping.hpp"
#include "train/training_file.hpp"
#include "train/verify.hpp"

namespace shard8::app {

namespace {

/// One rank's run, from the deck to the report.
class Run {
 public:
  Run(Job& job, const StopRequests& requests, const RunArguments& arguments, std::vector<std::string> command)
      : requests_(requests),
        command_(std::move(command)),
        deck_(job.deck),
        node_(job.node),
        log_(job.log),
        logger_(job.world.rank(), job.world.size()),
        runtime_(job.runtime),
        world_(std::move(job.world)),
        compare_pairs_(arguments.compare_pairs),
        quiet_(arguments.quiet),
        output_(deck_.config.output, world_),
        assembly_(std::in_place, deck_.config, world_.same(), job.runtime.exec(), job.runtime.threads(),
                  program_text()),
        baseline_(memory_taken()),
        steps_{.first = 0, .end = deck_.config.run.steps, .timing_skip = deck_.config.run.timing_skip},
        stop_sources_(requests.sources(world_)),
        stopping_(deck_.config.run, stop_sources_),
        judge_(deck_.config.verify, gold_),
        run_(describe_run(deck_)) {
    log_.set_measuring(false);  // until the first timed step
  }

  int operator()() {
    energy_.emplace(world(), node_);
    // What can refuse the run comes first, in the order of app/refusals.hpp, and changes no file of a training.
    at(Stage::output, &Run::check_output);                                    // 1. output.dir can be written
    at(Stage::output_lock, &Run::lock_output, Files::unlimited);              // 2. no other run writes to it
    at(Stage::gold, &Run::read_gold);                                         // 3. losses to compare with
    at(Stage::data, &Run::open_data, Files::unlimited);                       // 4. data, and their entropy
    at(Stage::initial_weights, &Run::open_weights, Files::unlimited);         // 5. model.init_file
    at(Stage::checkpoint_dir, &Run::check_checkpoint_dir);                    // 6. checkpoint.dir can be written
    at(Stage::checkpoint_lock, &Run::lock_checkpoint_dir, Files::unlimited);  // 7. no other run writes to it
    at(Stage::start, &Run::find_start, Files::unlimited);                     // 8. whose training, from where
    at(Stage::overlap, &Run::decide_overlap);                                 // 9. a method for every `auto`
    at(Stage::set_up, &Run::set_up);                                          // 10. memory, weights, algorithms
    at(Stage::restore, &Run::restore);                                        // 11. the checkpoint's state
    print_header();                                                           // 12. what will run
    if (steps_.first >= steps_.end) return judge_recorded();                  //     no step is left: the verdict
    at_stage(Stage::first_files, [&] {                                        // 13. files of a new leg
      const comm::HostWaits::Unlimited files(world().waits());                //     rank 0 may move one of each rank
      begin_leg();
    });
    start_trace();                           // 14. the ranks' clocks
    const train::LoopResult loop = train();  // 15. steps and checkpoints
    write_trace();                           // 16. a file of each rank
    return report(loop);                     // 17. figures, verdict, end of the leg
  }

 private:
  const deck::Config& config() const { return deck_.config; }
  const train::Setup& setup() const { return assembly_->setup(); }
  const comm::Communicator& world() const { return world_; }
  train::Say say() {
    return [this](const std::string& text) { logger_.warn("{}", text); };
  }

  enum class Files { limited, unlimited };  ///< whether run.hang_limit_s holds while ranks wait for each other's files

  /// A step that may refuse the run. Afterwards all ranks agree whether a signal came, which ends the run here.
  void at(Stage stage, void (Run::*step)(), Files files = Files::limited) {
    world().waits()->progress().note(name_of(stage).data());
    {
      std::optional<comm::HostWaits::Unlimited> unlimited;
      if (files == Files::unlimited) unlimited.emplace(world().waits());
      at_stage(stage, [&] { (this->*step)(); });
    }
    at_stage(Stage::signal, [&] { comm::agree(world(), [&] { requests_.refuse_start(); }); });
  }

  void check_output() {  // first, since the rest may take minutes
    comm::agree_on_root(world(), 0, [&] { require_output(config()); });
    output_.check_trace();
  }

  void lock_output() { output_.hold(say()); }

  void read_gold() {
    comm::agree_on_root(world(), 0, [&] { gold_ = train::gold_of(config()); });  // rank 0 judges
  }

  void open_data() {
    assembly_->open_data();
    comm::agree_on_root(world(), 0, [&] {
      run_.inputs.data = train::input_of(assembly_->loader().dataset(), config().data.path, say());
    });
    if (const data::Loader* const validation = assembly_->validation()) {
      comm::agree_on_root(world(), 0, [&] {
        run_.inputs.validation = train::validation_of(*validation, config(), run_.inputs.data, say());
      });
      validation_.emplace(*validation, config().run);
    }
    entropy_ = train::unigram_entropy(world(), assembly_->loader().dataset(), config(),
                                      [this] { return !requests_.signalled(); });  // at() ends the run
  }

  void open_weights() {
    assembly_->open_weights(say());
    comm::agree_on_root(world(), 0, [&] {
      if (const auto* file = assembly_->initial_weights()) run_.inputs.weights = train::input_of(*file);
    });
  }

  void check_checkpoint_dir() {
    folder_name_ = train::checkpoint_folder(config(), world());
    comm::agree_on_root(world(), 0, [&] { require_checkpoint_dir(folder_name_); });
  }

  void lock_checkpoint_dir() {
    if (!folder_name_.empty()) folder_.emplace(world(), folder_name_, say(), output_.is_also(folder_name_));
  }

  void find_start() {
    restart_ = train::find_restart(config(), folder_name_, world(), run_, say());
    run_.identity = restart_.start.identity;
    if (folder_) folder_->recover(world(), say());
    if (!restart_.first) return;
    assembly_->skip_initial_weights();
    saved_ = train::choices_of_plan(restart_.first->manifest.plan);
  }

  /// From here on the run's config has a method or `off` in place of every `auto`. What is told of the deck
  /// (deck_.echo) keeps the `auto`, so that a run that goes on may choose again.
  void decide_overlap() {
    if (deck::exchanges_with(config(), profile::ExchangeMethod::automatic).empty()) return;
    overlap_ = train::decide_overlap(*assembly_, restart_.first ? restart_.first->folder : "", saved_);
    deck_.config.overlap.methods = overlap_.choice.resolve(config().overlap.methods);
    assembly_->set_overlap(config().overlap.methods);
  }

  void set_up() { assembly_->start(kernels::Tuning::candidates, saved_.algorithms); }

  /// Fills the state from the checkpoint, if the run goes on from one, and prepares to write others.
  void restore() {
    {
      const comm::HostWaits::Unlimited files(world().waits());
      point_ = train::restore(restart_, *assembly_, run_, say());
    }
    if (point_) {
      const checkpoint::Manifest& m = point_->manifest;
      if (restart_.start.is_child) run_.identity.parent = checkpoint::Parent{m.run, m.step};
      if (m.format > 1) run_.inputs.weights = m.weights;  // the weights with which the training began
      steps_.first = m.step;
      if (point_->decay_steps) set_decay_steps(deck_, run_, *point_->decay_steps);
    }
    run_.overlap = overlap_.plan;
    if (folder_) checkpoints_.emplace(*assembly_, *folder_, run_, point_ ? &point_->manifest : nullptr, say());
  }

  /// Writes down whose the files in output.dir are from now on, and judges the losses of earlier legs with this one's.
  void begin_leg() {
    const auto told = output_.start({.identity = run_.identity,
                                     .replaces = restart_.start.has_others,
                                     .goes_on = restart_.start.goes_on(),
                                     .first_step = steps_.first,
                                     .restart = config().checkpoint.restart,
                                     .began = process_began_,
                                     .origin = point_ ? point_->folder : "",
                                     .deck = run_.deck,
                                     .inputs = run_.inputs,
                                     .slurm_job = run_.slurm_job,
                                     .recorded = [&](const profile::RecordedStep& step) { judge_.add(step); }},
                                    folder_ ? folder_->directory().path() : "");
    for (const std::string& line : told.lines) logger_.info("{}", line);
    for (const std::string& warning : told.warnings) logger_.warn("{}", warning);
    output_.keep_overlap(overlap_.plan);
  }

  void start_trace() {
    if (!config().output.trace.empty()) tracer_.emplace(*assembly_, steps_, log_, world());
  }

  void write_trace() {
    if (tracer_) output_.inform([&] { logger_.info("{}", tracer_->write(node_.host)); });
    tracer_.reset();
  }

  /// The verdict on all recorded losses, where no step is left to train.
  int judge_recorded() {
    logger_.info("nothing to train{}: the checkpoint has all {} steps of run.steps",
                 compare_pairs_ > 0 ? " and to compare" : "", steps_.end);
    comm::agree_on_root(world(), 0, [&] {
      const checkpoint::Manifest& m = point_->manifest;
      const bool same = train::same_validation(m, run_.inputs, run_.deck);
      output_.read_recorded(m.run, [&](const profile::RecordedStep& step) {
        if (step.step < m.step) judge_.add(step, same);
      });
      if (m.loss) judge_.add(m.step - 1, *m.loss);
    });
    const profile::Verification verification = verdict(steps_.first, true);
    tell_of(logger_, verification, quiet_);
    const bool failed = verification.status == profile::Verification::Status::failed;
    return base::to_int(failed ? base::ExitCode::verification : base::ExitCode::ok);
  }

  /// Rank 0's verdict, returned on every rank: only rank 0 has read the losses of earlier legs. Collective.
  profile::Verification verdict(std::int64_t end, bool finished) const {
    std::string text;
    comm::agree_on_root(world(), 0, [&] {
      const auto v = judge_.verdict(end, entropy_, finished);
      text = static_cast<char>('0' + static_cast<int>(v.status)) + v.why;
    });
    world().broadcast(text, 0);
    return {static_cast<profile::Verification::Status>(text[0] - '0'), text.substr(1)};
  }

  void print_header() const {
    app::print_header(logger_, {.world = world(),
                                .node = node_,
                                .assembly = *assembly_,
                                .overlap = overlap_,
                                .run = run_,
                                .point = point_,
                                .entropy = entropy_,
                                .steps = steps_.end});
  }

  train::LoopResult train() {
    if (world().rank() == 0) progress_.emplace(stdout, on_terminal(), steps_.first, steps_.end, config().run.log_every);
    assembly_->trainer().stop_requests_from([&] { return train::code_of(stopping_.end_step()); });
    energy_->begin_windows(world());
    train::LoopHooks hooks;
    hooks.before = [&](std::int64_t step) { before_step(step); };
    if (validation_)
      hooks.validate = [&](const train::StepResult& result) {
        return validation_->after_step(
            result, {assembly_->trainer(), world(), stopping_, log_, tracer_ ? &*tracer_ : nullptr, *energy_, logger_});
      };
    hooks.after = [&](const train::StepResult& result) { after_step(result); };
    hooks.stops_before = [&](std::int64_t) { return stops(); };
    if (checkpoints_) {
      hooks.between = [&](std::int64_t done) {
        checkpoints_->between_steps(done, last_.loss);
        stopping_.checkpoint_written(checkpoints_->counts().longest_s);
      };
      hooks.save = [&](std::int64_t done) { return checkpoints_->write_now(done, last_.loss); };
      hooks.failed = [&] { checkpoints_->finish(); };
    }
    train::LoopResult loop = train::train(assembly_->trainer(), steps_, hooks);
    if (checkpoints_) checkpoints_->finish();
    assembly_->trainer().stop_requests_from({});
    progress_.reset();
    return loop;
  }

  /// Whether a line of progress shows the step, and its line of metrics.jsonl has joules.
  bool is_logged(std::int64_t step) const {
    return step + 1 == steps_.end || (step + 1) % std::max<std::int64_t>(config().run.log_every, 1) == 0;
  }

  void before_step(std::int64_t step) {
    stopping_.begin_step();
    energy_->step_begins(is_logged(step));
    if (step == steps_.first) first_step_began_ = base::unix_now();
    if (step != steps_.first_timed()) return;
    processor_ = begin_measuring(*assembly_, log_);
    energy_->begin();
  }

  void after_step(const train::StepResult& r) {
    last_ = r;
    steps_s_ += r.seconds;
    const bool last = r.step + 1 == steps_.end;
    if (processor_ && processor_->after_step(r.stop_request != 0 || last)) energy_->end();
    if (r.experts && r.step >= steps_.first_timed()) experts_.add(r.experts->counts);
    if (tracer_) tracer_->after_step(r.step);
    const RunEnergy::Window energy = energy_->step_over(world(), is_logged(r.step));
    if (!progress_) return;
    const profile::StepMetrics metrics = metrics_of(r, run_.identity.id, energy, assembly_->trainer().unit_norms(),
                                                    assembly_->trainer().weight_norms(), config().model.layers);
    if (metrics.validation_loss) judge_.add_validation(r.step, *metrics.validation_loss);
    judge_.add(r.step, r.loss);
    output_.metrics(metrics);
    progress_->step(metrics);
  }

  bool stops() {
    stop_ = train::reason_of(last_.stop_request);
    if (!stop_) return false;
    world().record_device_calls();  // of the last step, but not the gathers of the next one, which was begun
    log_.set_measuring(false);
    return true;
  }

  profile::SummaryInput summary(const MemoryFigures& memory, const train::LoopResult& loop) {
    profile::SummaryInput input = summary_input(deck_.echo, *assembly_, memory);
    input.command = command_;
    const auto& identity = run_.identity;
    input.training = {.id = identity.id,
                      .parent = identity.parent ? identity.parent->run : "",
                      .parent_step = identity.parent ? identity.parent->step : 0,
                      .leg = output_.leg(),
                      .from = point_ ? point_->folder : ""};
    input.inputs = {input_of("data", config().data.path, run_.inputs.data),
                    input_of("initial_weights", config().model.init_file, run_.inputs.weights)};
    input.totals = output_.totals();
    input.end = {.reason = train::name_of(stop_),
                 .next_step = loop.last.step + 1,
                 .steps = steps_.end,
                 .checkpoint = loop.saved};
    input.leg_times = leg_times();
    input.overlap = overlap_.choice;
    input.final_loss = loop.last.loss;
    input.unigram_entropy = entropy_;
    return input;
  }

  profile::LegTimes leg_times() {
    const auto stall = static_cast<std::size_t>(profile::Phase::checkpoint_stall);
    const auto& steps = assembly_->timer().steps();
    return {.began = process_began_,
            .ended = base::unix_now(),
            .start_up_s = first_step_began_ - process_began_,
            .steps_s = steps_s_,
            .held_up_s = steps.skipped_sum().phase[stall] + steps.sum().phase[stall],
            .validation_s = validation_ ? validation_->seconds() : 0,
            .after_last_s = checkpoints_ ? checkpoints_->counts().after_last_s : 0};
  }

  int report(const train::LoopResult& loop) {
    profile::ReportInput input;
    const train::StepResult& last = loop.last;
    input.first_step = steps_.first;
    input.tokens_per_step = static_cast<double>(assembly_->loader().tokens_per_step());
    input.flops_per_step = train::model_flops_per_token(config().model) * input.tokens_per_step;
    const double given = config().precision.peak_tflops;
    input.peak_flops = given > 0 ? 1e12 * given : profile::peak_flops(device_name(), products_of(setup()));
    input.host = node_.host;
    if (checkpoints_) input.checkpoints = checkpoints_->counts();
    if (validation_) input.validation = validation_->figures();
    if (config().model.moe.on()) input.experts = experts_;
    input.processor = processor_;
    input.energy = energy_->counts();
    if (deck::exchanges_tokens(config())) input.methods = assembly_->setup().dims.overlap.methods;
    if (world().device() != nullptr) input.issues = &assembly_->timer().issues();
    input.casts = assembly_->trainer().state().scaling.figures(assembly_->exec());
    if (setup().weights.recipe.emulated()) input.emulated = deck::to_string(config().fp8.recipe);
    input.verification = verdict(last.step + 1, !stop_);
    world().record_device_calls();
    input.every_rank = !config().output.timing_ranks.empty();
    auto report = profile::make_report(assembly_->timer().steps(), log_, input, gather_over(world()));
    const MemoryFigures memory = memory_figures(*assembly_, memory_growth(baseline_, memory_peak()));
    const profile::SummaryInput what_ran = summary(memory, loop);
    if (compare_pairs_ > 0) {
      output_.write(report, what_ran);  // the run's figures are there even if the comparison fails
      report.compare_off = compare();
    }
    const double loss = last.loss;
    const bool has_ratio = entropy_.value_or(0) > 0;
    logger_.info(
        "\nfinal loss {:.6f}{}", loss,
        has_ratio ? fmt::format(", {:.4f} of the data's unigram entropy {:.6f}", loss / *entropy_, *entropy_) : "");
    if (stop_) {
      const auto text = stop_text(stop_, last.step + 1, steps_.end, loop.saved, earlier_checkpoint(),
                                  restarts() || !run_.slurm_job.empty());  // queued again, it goes on all the same
      logger_.info("{}", text);
      if (quiet_ && logger_.speaks()) logger_.warn("{}", text);
    }
    logger_.info("\n{}{}{}", to_text(memory), profile::to_text(what_ran.totals),
                 world().rank() == 0 ? profile::to_text(report) : std::string());
    if (quiet_) warn_of(logger_, report);
    output_.write(report, what_ran);
    end_leg(loop);
    if (input.verification.status == profile::Verification::Status::failed)
      return static_cast<int>(base::ExitCode::verification);
    if (!stop_) comm::agree_on_root(world(), 0, require_standard_output);  // a 75 stays one
    return base::to_int(stop_ ? stop_code(loop.saved) : base::ExitCode::ok);
  }

  void end_leg(const train::LoopResult& loop) {
    train::Leg leg;
    leg.next_step = loop.last.step + 1;
    if (checkpoints_) leg.checkpoint = checkpoints_->last();
    leg.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    leg.end = stop_ ? train::name_of(stop_) : "finished";
    output_.end_leg(leg, !stop_);
  }

  bool restarts() const { return config().checkpoint.restart != deck::CheckpointConfig::kNoRestart; }

  /// The step from which the same command would go on if this run wrote no further checkpoint: that of the last
  /// checkpoint that this run has written, or else that of the checkpoint from which this run went on. Nothing if there
  /// is no such checkpoint, or if checkpoint.restart is not auto: then the same command starts elsewhere.
  std::optional<std::int64_t> earlier_checkpoint() const {
    if (!restarts()) return std::nullopt;
    if (const auto written = checkpoints_ ? checkpoints_->last() : std::nullopt) return written;
    return point_ ? std::optional(steps_.first) : std::nullopt;
  }

  profile::CompareOff compare() {
    if (stop_) return {.with = {}, .without = {}, .cut_short = train::name_of(stop_)};
    log_.set_measuring(false);
    checkpoints_.reset();  // the memory of the training, since the comparison takes as much
    folder_.reset();
    assembly_.reset();
    return compare_off(config(), compare_pairs_, world(), runtime_, stop_sources_);
  }

  const StopRequests& requests_;
  std::vector<std::string> command_;
  deck::LoadResult deck_;
  const comm::Node& node_;
  profile::CollectiveLog& log_;
  base::Logger logger_;
  const tensor::Runtime& runtime_;
  comm::Communicator world_;
  int compare_pairs_;
  bool quiet_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  double process_began_ = base::process_began();
  double first_step_began_ = 0;  ///< base::unix_now()
  double steps_s_ = 0;           ///< of all steps, on this rank
  RunOutput output_;
  std::optional<train::Assembly> assembly_;  ///< none while compare_off() runs
  std::uint64_t baseline_;                   ///< memory_taken() before training takes memory
  train::Steps steps_;
  train::Stopping::Sources stop_sources_;
  train::Stopping stopping_;
  train::StopReason stop_;
  std::vector<double> gold_;  ///< on rank 0
  train::LossJudge judge_;    ///< on rank 0
  train::RunDescription run_;
  train::StepResult last_;
  std::optional<profile::MeasuredUse> processor_;  ///< of the measured steps; none: there are none
  std::optional<RunEnergy> energy_;
  profile::ExpertCounts experts_;            ///< of the measured steps
  std::optional<RunValidation> validation_;  ///< none: the run does not validate
  std::optional<double> entropy_;
  std::optional<train::CheckpointFolder> folder_;
  std::string folder_name_;  ///< train::checkpoint_folder()
  train::RestartPoints restart_;
  train::SavedChoices saved_;  ///< of the checkpoint from which the run goes on
  train::OverlapDecision overlap_;
  std::optional<train::RestartPoint> point_;  ///< the checkpoint from which the run went on
  std::optional<train::Checkpoints> checkpoints_;
  std::optional<RunTracer> tracer_;            ///< after assembly_, which it refers to
  std::optional<profile::Progress> progress_;  ///< on rank 0, while steps are trained
};

}  // namespace

int run_command(int argc, char** argv, const RunArguments& arguments) {
  const std::vector<std::string> command(argv, argv + argc);
  DeckArguments deck = arguments.deck;
  deck.trains = true;
  if (arguments.compare_pairs > 0)
    deck.check = [&](const deck::LoadResult& loaded) { check_compare_off(deck.path, loaded); };
  StopRequests requests;  // from the begin of the process on: a signal during start-up counts, too
  const int code = run_job(
      argc, argv, deck,
      [&](Job& job) {
        if (job.deck.config.run.skeleton != deck::Skeleton::none) return skeleton_run(job, requests, command);
        return Run(job, requests, arguments, command)();
      },
      &requests);
  requests.leave_launcher();
  return code;
}

}  // namespace shard8::app
