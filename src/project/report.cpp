// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "project/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/arithmetic.hpp"
#include "base/text.hpp"
#include "deck/fields.hpp"
#include "deck/overlap.hpp"
#include "machine/fields.hpp"
#include "profile/collective_log.hpp"
#include "train/plan/plan.hpp"

namespace shard8::project {

using Json = nlohmann::ordered_json;
using machine::Machine;

namespace {

/// A reduction over `ranks` ranks that all have the same values.
profile::Gather alike(int ranks, const std::string& host) {
  const auto n = static_cast<std::size_t>(ranks);
  return {ranks,
          [ranks](std::span<const double> values) {
            std::vector<profile::OverRanks> all;
            for (const double v : values) all.push_back({v, v * ranks, v, 0});
            return all;
          },
          [n](std::span<const double> values) {
            std::vector<double> all;
            for (std::size_t r = 0; r < n; ++r) all.insert(all.end(), values.begin(), values.end());
            return all;
          },
          [n, host](std::string_view) { return std::vector<std::string>(n, host); }, [](std::string&, int) {}};
}

double tokens_of(const deck::Config& config) { return static_cast<double>(config.data.batch * config.model.seq); }

std::optional<ProjectedEnergy> energy_of(const Answer& a, const deck::Config& config, const Machine& machine) {
  return energy_of(a.step, machine, static_cast<double>(config.mesh.ranks()));
}

/// The machine's peak FLOP/s, by which MFU divides; null if the deck gives one (precision.peak_tflops).
const machine::Figure* peak_of(const deck::Config& config, const Machine& machine) {
  if (config.precision.peak_tflops > 0) return nullptr;
  const bool fp8 = config.fp8.on() && config.fp8.recipe != deck::Recipe::mxfp8;
  return fp8                                                 ? &machine.peak_fp8
         : config.precision.compute == deck::FloatType::bf16 ? &machine.peak_bf16
                                                             : &machine.peak_fp32;
}

std::string seconds_text(double s) {
  return s < 1     ? fmt::format("{:.3f} ms", 1e3 * s)
         : s < 600 ? fmt::format("{:.3f} s", s)
                   : fmt::format("{:.1f} min", s / 60);
}

/// What the machine file leaves out of what the report needs.
std::vector<machine::NotGiven> not_given(const Answer& a, const deck::Config& config, const Machine& machine) {
  std::vector<machine::NotGiven> all = a.step.not_given;
  const auto has = [&](const std::string& key) {
    return std::any_of(all.begin(), all.end(), [&](const machine::NotGiven& entry) { return entry.key == key; });
  };
  if (const machine::Figure* peak = peak_of(config, machine); peak != nullptr && !peak->given())
    if (const std::string key = key_of(machine, *peak); !has(key)) all.push_back({key, "no MFU"});
  return all;
}

std::string surety_text(const Answer& a, const deck::Config& config, const Machine& m) {
  const Projection& p = a.step;
  double all = 0;
  for (const double s : p.known_s) all += s;
  std::string text = fmt::format(
      "\nprojected step time: low {}, nominal {}, high {}{}\n", seconds_text(p.low_s), seconds_text(p.nominal_s),
      seconds_text(p.high_s),
      p.narrowed ? fmt::format(" (both cut: the cases differ by more than {:.2f} times)", kMostSpread) : "");
  if (a.worst)
    text += fmt::format("projected step time at the worst routing, all tokens at one rank's experts: {}, {} a layer\n",
                        seconds_text(a.worst->nominal_s), base::count(a.worst->rounds, "round", "rounds"));
  text += not_given_text(not_given(a, config, m));
  if (const auto automatic = deck::exchanges_with(config, profile::ExchangeMethod::automatic); !automatic.empty())
    text += fmt::format(
        "overlap keys that are auto, {}, count as {} and the like: a run times the methods and off, and chooses; give "
        "the methods of its report\n",
        automatic.size(), name_of(deck::method_of_auto(automatic.front())));
  text += "where the times of operations come from, by their share:";
  for (int k = 0; k < machine::kKnown; ++k)
    text += fmt::format("{} {} {:.1f} %", k > 0 ? "," : "", name_of(static_cast<machine::Known>(k)),
                        all > 0 ? 100 * p.known_s[static_cast<std::size_t>(k)] / all : 0);
  text += '\n';
  constexpr std::size_t kShown = 12;  // chosen: what is left out is short
  std::size_t shown = 0;
  for (const Uncertain& u : p.uncertain) {
    if (u.known == machine::Known::between) continue;
    if (shown++ == 0)
      text += fmt::format("{:<22}{:>8}{:>10}{:>9}  {}\n", "extrapolated", "factor", "calls", "share %", "operation");
    if (shown > kShown) break;
    text += fmt::format("{:<22}{:>8.2f}{:>10}{:>9.2f}  {}\n", name_of(u.known), u.factor, u.calls,
                        100 * u.seconds / p.nominal_s, u.what);
  }
  if (shown > kShown) text += "and others, with smaller shares: see --json\n";
  return text;
}

std::string goodput_text(const Answer& a) {
  if (!a.failures) return fmt::format("\ngoodput: NOT PROJECTED: {}\n", a.no_goodput);
  const Failures& f = *a.failures;
  const auto waits = [&](double interval_s) {
    return wait_s(f, interval_s) > 0 ? fmt::format("; at each, training waits {} until the one before is durable",
                                                   seconds_text(wait_s(f, interval_s)))
                                     : std::string();
  };
  const double steps = best_steps(f, a.step.nominal_s), best = steps * a.step.nominal_s;
  std::string text = fmt::format(
      "\nprojected time between failures: {:.2f} h   hold-up of a checkpoint: {:.2f} s   durable after: {:.2f} s   "
      "restart: "
      "{:.1f} s\nprojected goodput: {:.2f} % with a checkpoint every {:.1f} min, {} steps (the best interval){}\n",
      f.between_s / 3600, f.hold_up_s, f.durable_s, f.restart_s, 100 * goodput(f, best), best / 60, steps, waits(best));
  if (a.interval_s > 0)
    text += fmt::format("projected goodput: {:.2f} % with the deck's checkpoint.every, {:.1f} min{}\n",
                        100 * goodput(f, a.interval_s), a.interval_s / 60, waits(a.interval_s));
  return text;
}

std::string changes_text(const Answer& a) {
  std::string text;
  if (a.unchanged)
    text += fmt::format("\nprojected what if {}: step {} in place of {}, {:+.2f} %\n", a.changes,
                        seconds_text(a.step.nominal_s), seconds_text(a.unchanged->nominal_s),
                        100 * (a.step.nominal_s / a.unchanged->nominal_s - 1));
  if (a.sensitivities.empty()) return text;
  text += fmt::format("\n{:<26}{:>14}{:>14}\n", "projected step, if it is", "halved %", "doubled %");
  for (const Sensitivity& s : a.sensitivities)
    text += fmt::format("{:<26}{:>+14.2f}{:>+14.2f}\n", s.key, 100 * (s.half_s / a.step.nominal_s - 1),
                        100 * (s.double_s / a.step.nominal_s - 1));
  return text;
}

Json json_of(const Answer& a, const deck::Config& config, const Machine& machine) {
  const Projection& p = a.step;
  Json sources = Json::array();
  for (const machine::Source& s : machine.sources)
    sources.push_back({{"name", s.name}, {"kind", name_of(s.kind)}, {"text", s.text}});
  Json known = Json::object();
  for (int k = 0; k < machine::kKnown; ++k)
    known[std::string(name_of(static_cast<machine::Known>(k)))] = p.known_s[static_cast<std::size_t>(k)];
  Json uncertain = Json::array();
  for (const Uncertain& u : p.uncertain)
    uncertain.push_back({{"operation", u.what},
                         {"found", name_of(u.known)},
                         {"factor", u.factor},
                         {"calls", u.calls},
                         {"s", u.seconds}});
  Json left_out = Json::array();
  for (const machine::NotGiven& entry : not_given(a, config, machine)) left_out.push_back(to_text(entry));
  Json object{{"not_given", std::move(left_out)},
              {"machine", machine.name},
              {"file", machine.path},
              {"sources", std::move(sources)}};
  object["stack"] = a.stack.empty() ? Json(nullptr) : Json(a.stack);
  object["efficiency"] = a.efficiency;
  object["step_s"] = {{"low", p.low_s}, {"nominal", p.nominal_s}, {"high", p.high_s}, {"narrowed", p.narrowed}};
  object["computing_s"] = p.computing_s;
  object["slowed_s"] = p.slowed_s;
  object["host_s"] = p.host_s;
  object["in_flight_s"] = p.in_flight_s;
  object["exposed_s"] = p.exposed() * p.nominal_s;
  object["slowest_rank"] = p.slowest;
  object["found_s"] = std::move(known);
  object["not_entries"] = std::move(uncertain);
  if (a.failures) {
    const double best = best_steps(*a.failures, p.nominal_s) * p.nominal_s;
    object["goodput"] = {{"between_failures_s", a.failures->between_s},
                         {"hold_up_s", a.failures->hold_up_s},
                         {"durable_s", a.failures->durable_s},
                         {"restart_s", a.failures->restart_s},
                         {"best_interval_s", best},
                         {"best_wait_s", wait_s(*a.failures, best)},
                         {"best", goodput(*a.failures, best)}};
    if (a.interval_s > 0) {
      object["goodput"]["interval_s"] = a.interval_s;
      object["goodput"]["wait_s"] = wait_s(*a.failures, a.interval_s);
      object["goodput"]["of_deck"] = goodput(*a.failures, a.interval_s);
    }
  }
  if (a.unchanged) object["what_if"] = {{"changes", a.changes}, {"unchanged_s", a.unchanged->nominal_s}};
  if (a.worst) object["worst_routing"] = {{"nominal_s", a.worst->nominal_s}, {"rounds", a.worst->rounds}};
  object["sensitivities"] = Json::array();
  for (const Sensitivity& s : a.sensitivities)
    object["sensitivities"].push_back({{"property", s.key}, {"halved_s", s.half_s}, {"doubled_s", s.double_s}});
  return object;
}

}  // namespace

profile::Report report_of(const Answer& a, const deck::Config& config, const Machine& machine) {
  const auto ranks = static_cast<int>(config.mesh.ranks());
  profile::StepRecord steps;
  steps.add(a.step.times);
  profile::CollectiveLog log;
  for (const Traffic& t : a.step.traffic)
    for (int i = 0; i < static_cast<int>(t.calls + 0.5); ++i)
      log.record(t.key, t.total_s / t.calls, t.exposed_s / t.calls);
  for (const Traffic& t : a.step.traffic) log.add_in_flight({t.key.op, t.key.group, t.key.group_size}, t.total_s);
  profile::ReportInput input;
  input.tokens_per_step = tokens_of(config);
  input.flops_per_step = train::model_flops_per_token(config.model) * input.tokens_per_step;
  const machine::Figure* const peak = peak_of(config, machine);
  input.peak_flops = peak == nullptr ? 1e12 * config.precision.peak_tflops : peak->given() ? peak->value : 0;
  input.verification = {profile::Verification::Status::not_checked, "projected"};
  if (deck::exchanges_tokens(config))
    input.methods =
        deck::can_overlap(config) && config.overlap.enable ? config.overlap.methods : profile::ExchangeMethods{};
  profile::Report report = make_report(steps, log, input, alike(ranks, machine.name));
  for (profile::InFlightRow& row : report.in_flight)
    if (row.group_size == 0) row.seconds = a.step.in_flight_s;  // at once: less than the sum of the rows
  report.projected = machine.name;
  return report;
}

std::string not_given_text(const std::vector<machine::NotGiven>& entries) {
  if (entries.empty()) return {};
  // Entries for which the same was taken are listed together.
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> by_taken;
  for (const machine::NotGiven& entry : entries) {
    auto at = std::find_if(by_taken.begin(), by_taken.end(), [&](const auto& one) { return one.first == entry.taken; });
    if (at == by_taken.end()) at = by_taken.insert(by_taken.end(), {entry.taken, {}});
    at->second.push_back(entry.key);
  }
  std::string text = "not given, taken as said:";
  for (std::size_t i = 0; i < by_taken.size(); ++i)
    text += fmt::format("{} {} ({})", i > 0 ? ";" : "", deck::list_of(by_taken[i].second, "and"), by_taken[i].first);
  return text + ": measure them (shard8 calibrate)\n";
}

std::string to_text(const Answer& a, const deck::Config& config, const Machine& machine) {
  std::string text =
      fmt::format("projected  {} on {} ({}), simulated: nothing below was measured here\n",
                  a.stack.empty() ? "shard8's step" : "the step of " + a.stack, machine.name, machine.path);
  for (const machine::Source& s : machine.sources)
    text += fmt::format("source     {}: {}: {}\n", s.name, name_of(s.kind), s.text);
  if (a.efficiency != 1)
    text += fmt::format("efficiency {:.4f}: times of computation are divided by it\n", a.efficiency);
  text +=
      fmt::format("memory     {:.2f} GiB a rank are planned{}\n\n", static_cast<double>(a.memory) / base::kGiB,
                  machine.memory.given() ? fmt::format(", the device has {:.2f} GiB", machine.memory.value / base::kGiB)
                                         : ", device.memory is not given");
  text += profile::to_text(report_of(a, config, machine));
  text += energy_text(energy_of(a, config, machine), machine, tokens_of(config));
  return text + surety_text(a, config, machine) + changes_text(a) + goodput_text(a);
}

std::string to_json(const Answer& a, const deck::Config& config, const Machine& machine,
                    const profile::SummaryInput& input) {
  Json object = Json::parse(profile::to_json(report_of(a, config, machine), input));
  object["projected"] = json_of(a, config, machine);
  add_energy(object, energy_of(a, config, machine), machine, tokens_of(config));
  return object.dump(2);
}

}  // namespace shard8::project
