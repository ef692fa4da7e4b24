// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/run_measures.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include "app/device.hpp"
#include "app/run_report.hpp"
#include "base/text.hpp"
#include "comm/agree.hpp"
#include "comm/node.hpp"
#include "deck/choices.hpp"
#include "deck/layout.hpp"
#include "io/file.hpp"
#include "model/parameters.hpp"
#include "profile/energy.hpp"
#include "trace/rank_trace.hpp"

namespace shard8::app {

profile::StepMetrics metrics_of(const train::StepResult& step, std::string_view run, const RunEnergy::Window& energy,
                                std::span<const double> unit_norms, std::span<const double> weight_norms,
                                std::int64_t layers) {
  profile::StepMetrics metrics{.step = step.step,
                               .loss = step.loss,
                               .grad_norm = step.gradient_norm,
                               .lr = step.learning_rate,
                               .tokens = step.tokens,
                               .step_s = step.seconds,
                               .tokens_per_s = static_cast<double>(step.tokens) / step.seconds,
                               .run = run,
                               .energy_j = energy.joules,
                               .energy_steps = energy.steps};
  if (step.experts)
    metrics.experts = {step.experts->balance, step.experts->counts.least, step.experts->counts.most,
                       step.experts->counts.mean};
  if (step.validation && step.validation->loss) {
    metrics.validation_loss = step.validation->loss;
    metrics.validation_s = step.validation->seconds;
  }
  const auto of_units = [layers](std::span<const double> norms) {
    const auto root = static_cast<std::size_t>(model::root_unit(layers));
    const auto of_layers = norms.first(root).subspan(static_cast<std::size_t>(model::layer_unit(0)));
    const auto of_experts = norms.subspan(root + 1);
    return profile::StepMetrics::UnitNorms{.embedding = norms[static_cast<std::size_t>(model::embedding_unit())],
                                           .layers = {of_layers.begin(), of_layers.end()},
                                           .head = norms[root],
                                           .experts = {of_experts.begin(), of_experts.end()}};
  };
  metrics.unit_norms = of_units(unit_norms);
  if (!weight_norms.empty()) metrics.weight_norms = of_units(weight_norms);
  return metrics;
}

RunEnergy::RunEnergy(const comm::Communicator& world, const comm::Node& node) {
  profile::EnergySources sources;
  if (const auto device = device_names()) sources.join(profile::nvml_counter(*device));
  sources.join(profile::rapl_counters());
  const std::string identity = comm::node_identity();
  const profile::EnergyPlace place{
      .rank = world.rank(), .node = identity.empty() ? node.host : identity, .host = node.host};
  directory_ = profile::share_counters(sources, place, gather_over(world));
  meter_.emplace(std::move(sources.counters));
}

profile::EnergyCounts RunEnergy::counts() {
  return {.directory = directory_, .counted = meter_->counted(), .thread_cpu_s = meter_->thread_cpu_s()};
}

void RunEnergy::pause(const comm::Communicator& world) {
  meter_->pause();
  const auto joules = since_last(world);
  before_pause_ = joules && before_pause_ ? std::optional(*before_pause_ + *joules) : std::nullopt;
}

void RunEnergy::resume(const comm::Communicator& world) {
  meter_->resume();
  since_last(world);
}

void RunEnergy::begin_windows(const comm::Communicator& world) {
  meter_->sample();
  since_last(world);
}

void RunEnergy::step_begins(bool logged) {
  if (!logged) return;
  meter_->start_reading();
  of_window_ = std::exchange(steps_, 0);
}

RunEnergy::Window RunEnergy::step_over(const comm::Communicator& world, bool logged) {
  ++steps_;
  if (!logged) return {};
  const auto joules = since_last(world), before = std::exchange(before_pause_, 0);
  const bool known = joules && before && of_window_ > 0;
  return {known ? std::optional(*joules + *before) : std::nullopt, of_window_};
}

std::optional<double> RunEnergy::since_last(const comm::Communicator& world) {
  if (directory_.complete.empty()) return std::nullopt;  // the same on all ranks
  const std::optional<double> mine = meter_->joules(directory_.complete);
  const std::array<double, 2> values{mine.value_or(0), mine ? 0.0 : 1.0};
  const std::vector<profile::OverRanks> all = world.over_ranks(values);
  if (all[1].max > 0) joules_.reset();
  if (all[1].max > 0) return std::nullopt;
  const std::optional<double> before = std::exchange(joules_, all[0].sum);
  if (!before) return std::nullopt;
  return all[0].sum - *before;
}

RunValidation::RunValidation(const data::Loader& loader, const deck::RunConfig& run)
    : figures_{.every = run.validate_every,
               .batches = train::validation_batches(loader, run),
               .tokens = train::validation_tokens(loader, run)} {}

std::optional<train::Validation> RunValidation::after_step(const train::StepResult& step, const Around& around) {
  if (!around.trainer.validates_after(step.step)) return std::nullopt;
  const train::StopReason reason = train::reason_of(step.stop_request);
  const bool urgent = reason && reason.kind != train::StopReason::Kind::stop_after;
  train::Validation result;
  if (!urgent) {
    around.world.record_device_calls();
    const bool measuring = around.log.measuring();
    around.log.set_measuring(false);
    if (around.tracer != nullptr) around.tracer->pause();
    around.energy.pause(around.world);
    result = around.trainer.validate([&] { return train::code_of(around.stopping.within_validation()); });
    around.energy.resume(around.world);
    around.world.record_device_calls();
    if (around.tracer != nullptr) around.tracer->resume();
    around.log.set_measuring(measuring);
  }
  note(result, step.step, around.logger);
  return result;
}

void RunValidation::note(const train::Validation& result, std::int64_t step, base::Logger& logger) {
  seconds_ += result.seconds;
  if (!result.loss) {
    ++figures_.stopped;
    if (logger.speaks())
      logger.warn("the validation behind step {} was stopped after {} of {}: it has no loss", step, result.batches,
                  base::count(figures_.batches, "batch", "batches"));
    return;
  }
  ++figures_.runs;
  figures_.seconds += result.seconds;
  figures_.last_step = step;
  figures_.last_loss = result.loss;
}

namespace {

std::vector<profile::StepRange> ranges_of(const deck::OutputConfig& config, const train::Steps& steps) {
  std::string problem;
  std::vector<profile::StepRange> ranges;
  const std::vector<deck::StepRange> named = deck::parse_trace_steps(config.trace_steps, problem).value();
  for (const deck::StepRange& r : named) ranges.push_back({r.first, r.last});
  if (ranges.empty()) ranges.push_back({steps.first_timed(), steps.first_timed() + deck::kDefaultTracedSteps - 1});
  return ranges;
}

/// Ranks of one node read the same clock. There, what messages say of the clocks is only the delay of the messages.
comm::ClockReading compare_clocks(const comm::Communicator& world) {
  std::string root_node;
  comm::agree(world, [&] { root_node = comm::node_identity(); });
  const std::string mine = root_node;
  world.broadcast(root_node, 0);
  comm::ClockReading reading = world.compare_clocks();
  if (mine == root_node && std::abs(reading.ahead_ns) <= reading.round_trip_ns) reading.ahead_ns = 0;
  return reading;
}

std::vector<std::string> unit_names(const deck::ModelConfig& model) {
  const std::int64_t layers = model.layers;
  std::vector<std::string> names(static_cast<std::size_t>(model::root_unit(layers) + 1 + model.expert_layers()));
  names[static_cast<std::size_t>(model::embedding_unit())] = "embedding";
  for (std::int64_t layer = 0; layer < layers; ++layer)
    names[static_cast<std::size_t>(model::layer_unit(layer))] = fmt::format("layer {}", layer);
  names[static_cast<std::size_t>(model::root_unit(layers))] = "head";
  for (std::int64_t layer = layers - model.expert_layers(); layer < layers; ++layer)
    names[static_cast<std::size_t>(model::experts_unit(model, layer))] = fmt::format("experts {}", layer);
  return names;
}

}  // namespace

std::filesystem::path trace_file(const deck::OutputConfig& config, int rank) {
  return std::filesystem::path(config.dir) / trace::rank_file_name(config.trace, rank);
}

RunTracer::RunTracer(train::Assembly& assembly, const train::Steps& steps, profile::CollectiveLog& log,
                     const comm::Communicator& world)
    : assembly_(assembly),
      log_(log),
      world_(world),
      recorder_(ranges_of(assembly.setup().config.output, steps), steps.first),
      clock_{compare_clocks(world)} {
  assembly_.timer().set_trace(&recorder_);
  log_.set_trace(&recorder_);
  set_origin();
}

RunTracer::~RunTracer() {
  assembly_.timer().set_trace(nullptr);
  log_.set_trace(nullptr);
}

void RunTracer::set_origin() {
  assembly_.timer().set_trace_origin();
  world_.set_trace_origin();
}

void RunTracer::after_step(std::int64_t step) {
  // Traced times of a device count from shortly before the first traced step: events are less exact over a long time.
  if (world_.device() != nullptr && recorder_.wants(step + 1) && !recorder_.wants(step)) set_origin();
}

std::string RunTracer::write(const std::string& host) {
  assembly_.timer().collect_timings();
  world_.record_device_calls();
  clock_.push_back(compare_clocks(world_));
  const deck::Config& config = assembly_.setup().config;
  trace::RankTrace trace;
  trace.run = fmt::format("{:x}-{:x}", std::chrono::system_clock::now().time_since_epoch().count(), getpid());
  world_.broadcast(trace.run, 0);
  trace.rank = world_.rank();
  trace.ranks = world_.size();
  trace.host = host;
  trace.device = world_.device() != nullptr ? device_name() : "host";
  if (config.run.skeleton != deck::Skeleton::none) trace.skeleton = deck::to_string(config.run.skeleton);
  trace.mesh = assembly_.setup().mesh;
  const profile::ExchangeMethods& methods = assembly_.setup().dims.overlap.methods;
  for (int e = 0; e < profile::kExchanges; ++e) {
    const auto exchange = static_cast<profile::Exchange>(e);
    trace.exchanges.push_back(fmt::format("{} {}", name_of(exchange), name_of(methods[exchange])));
  }
  for (const comm::ClockReading& c : clock_) trace.clock.push_back({c.local_ns, c.ahead_ns, c.round_trip_ns});
  trace::take_spans(trace, recorder_, unit_names(config.model));
  if (trace.steps.empty())
    return fmt::format("trace      no file: none of the steps of output.trace_steps was trained in this run");
  const std::string path = trace_file(config.output, world_.rank()).string();
  comm::agree(world_, [&] { io::write_durably(path, trace::to_text(trace)); });
  return fmt::format("trace      {} step{} in {}; merge with: shard8 trace {}", trace.steps.size(),
                     trace.steps.size() == 1 ? "" : "s", trace_file(config.output, 0).string(), config.output.dir);
}

}  // namespace shard8::app
