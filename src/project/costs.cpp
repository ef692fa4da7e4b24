// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "project/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "deck/fields.hpp"
#include "machine/times.hpp"

namespace shard8::project {
namespace {

std::string missing_text(const machine::Machine& machine) {
  return fmt::format("{} gives no device.watts: give it, and device.watts_idle", machine.path);
}

}  // namespace

std::optional<ProjectedEnergy> energy_of(const Projection& step, const machine::Machine& machine, double ranks) {
  if (!machine.watts.given() || step.nominal_s <= 0) return std::nullopt;
  ProjectedEnergy energy;
  energy.idle_given = machine.watts_idle.given();
  energy.busy = std::clamp(step.computing_s / step.nominal_s, 0.0, 1.0);
  const auto watts = [&](double idle) {
    return ranks * (energy.busy * machine.watts.value + (1 - energy.busy) * idle);
  };
  energy.watts = watts(energy.idle_given ? machine.watts_idle.value : machine.watts.value);
  energy.nominal_j = energy.watts * step.nominal_s;
  energy.low_j = watts(energy.idle_given ? machine.watts_idle.value : 0) * step.low_s;
  energy.high_j = energy.watts * step.high_s;
  return energy;
}

std::string energy_text(const std::optional<ProjectedEnergy>& energy, const machine::Machine& machine, double tokens) {
  if (!energy) return fmt::format("\nenergy: NOT PROJECTED: {}\n", missing_text(machine));
  return fmt::format(
      "\nprojected energy: {:.4g} J a step of all devices (low {:.4g}, high {:.4g}), {:.4g} J a token   mean: {:.1f} "
      "W: "
      "{:.4g} W for the {:.1f} % of a step in which a device computes, {}\n",
      energy->nominal_j, energy->low_j, energy->high_j, energy->nominal_j / tokens, energy->watts, machine.watts.value,
      100 * energy->busy,
      energy->idle_given ? fmt::format("{:.4g} W for the rest", machine.watts_idle.value)
                         : fmt::format("and for the rest, 0 W in low: {} gives no device.watts_idle", machine.path));
}

void add_energy(nlohmann::ordered_json& summary, const std::optional<ProjectedEnergy>& energy,
                const machine::Machine& machine, double tokens) {
  if (!energy) {
    summary["energy_missing"] = missing_text(machine);
    return;
  }
  summary["energy"] = {{"projected", true},
                       {"joules_per_step", energy->nominal_j},
                       {"joules_per_token", energy->nominal_j / tokens},
                       {"low_joules_per_token", energy->low_j / tokens},
                       {"high_joules_per_token", energy->high_j / tokens},
                       {"mean_watts", energy->watts},
                       {"busy_share", energy->busy},
                       {"idle_watts_given", energy->idle_given}};
}

double wait_s(const Failures& f, double interval_s) { return std::max(0.0, f.durable_s - f.hold_up_s - interval_s); }

double goodput(const Failures& f, double interval_s) {
  const double m = f.between_s, hold_up = f.hold_up_s + wait_s(f, interval_s);
  const double after_hold_up = std::max(0.0, f.durable_s - hold_up);
  // An interval takes τ + h without a failure. With one, what is lost begins at the last durable checkpoint: the delay
  // until it is durable is trained again, once for each failure.
  const double spent = m * std::exp((f.restart_s + after_hold_up) / m) * std::expm1((interval_s + hold_up) / m);
  return interval_s / spent;
}

double best_interval_s(const Failures& f) {
  constexpr double kLeast = 1e-3;
  double low = 0, high = f.between_s;  // τ − M (1 − e^(−(τ + h)/M)) rises from at most 0 to more
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (middle + f.between_s * std::expm1(-(middle + f.hold_up_s) / f.between_s) > 0 ? high : low) = middle;
  }
  return std::max({kLeast, high, std::min(f.durable_s - f.hold_up_s, f.between_s)});
}

double best_steps(const Failures& f, double step_s) {
  const double fewer = std::max(1.0, std::floor(best_interval_s(f) / step_s));
  return goodput(f, fewer * step_s) >= goodput(f, (fewer + 1) * step_s) ? fewer : fewer + 1;
}

using machine::Machine;

namespace {

/// The time of the smallest entry of each kind of collective, which stays: it is latency, not bandwidth.
void scale_collectives(Machine& m, bool network, double factor) {
  for (machine::CollectiveTime& entry : m.collectives) {
    if ((entry.nodes > 1) != network) continue;
    double latency = entry.seconds;
    for (const machine::CollectiveTime& other : m.collectives)
      if (other.op == entry.op && other.nodes == entry.nodes && other.ranks == entry.ranks)
        latency = std::min(latency, other.seconds);
    entry.seconds = latency + (entry.seconds - latency) / factor;
  }
}

/// Scales the latency of collectives over nodes. The time of the smallest row of a kind is latency.
void scale_latencies(Machine& m, double factor) {
  const std::vector<machine::CollectiveTime> before = m.collectives;
  for (machine::CollectiveTime& entry : m.collectives) {
    if (entry.nodes == 1) continue;
    double latency = entry.seconds;
    for (const machine::CollectiveTime& other : before)
      if (other.op == entry.op && other.nodes == entry.nodes && other.ranks == entry.ranks)
        latency = std::min(latency, other.seconds);
    entry.seconds += (factor - 1) * latency;
  }
}

void scale_kernels(Machine& m, double factor) {
  for (machine::KernelTime& entry : m.kernels) {
    double launch = entry.seconds;  // the time of the smallest entry, which is no matter of bandwidth
    for (const machine::KernelTime& other : m.kernels) launch = std::min(launch, other.seconds);
    entry.seconds = launch + (entry.seconds - launch) / factor;
  }
  m.bandwidth_of_kernels *= factor;
}

void scale_products(Machine& m, double factor) {
  for (machine::Figure* peak : {&m.peak_fp32, &m.peak_bf16, &m.peak_fp8}) peak->value *= factor;
  for (machine::ProductTime& entry : m.products) entry.seconds /= factor;
  for (machine::AttentionTime& entry : m.attention) entry.seconds /= factor;
}

/// The shortest time in which a device's peak lets it multiply; 0 where the file gives no peak.
double least_seconds(const Machine& m, double flops, tensor::DType left, tensor::DType right) {
  const machine::Figure& peak = m.peak_of(std::max(tensor::size_of(left), tensor::size_of(right)));
  return peak.given() ? flops / peak.value : 0;
}

/// Dynamic power grows with the third power of the clock where voltage follows it, so clocks follow the cube root of
/// the power limit (Weste and Harris, CMOS VLSI Design, section 5.2). No power makes a clock faster than the one that
/// device.peak_* stand for. Kernels that memory bounds keep their time. A device without work takes no more than the
/// limit.
void scale_power(Machine& m, double factor) {
  const auto scale = [&](double& seconds, double least) {
    seconds = std::max(seconds / std::cbrt(factor), std::min(seconds, least));
  };
  for (machine::ProductTime& entry : m.products) {
    const operation::Product& p = entry.product;
    scale(entry.seconds, least_seconds(m, p.flops(), p.left.dtype, p.right.dtype));
  }
  for (machine::AttentionTime& entry : m.attention) {
    const operation::Attention& a = entry.attention;
    scale(entry.seconds, least_seconds(m, machine::flops_of(a), a.dtype, a.dtype));
  }
  m.watts.value *= factor;
  if (m.watts.given()) m.watts_idle.value = std::min(m.watts_idle.value, m.watts.value);
}

void scale_issue(Machine& m, double factor) {
  for (machine::Figure* f : {&m.issue_product, &m.issue_attention, &m.issue_kernel, &m.issue_collective, &m.issue_step})
    f->value /= factor;
}

constexpr Property kProperties[] = {
    {"device.products", "rate of products and attention", scale_products},
    {"device.bandwidth", "bandwidth of the memory, for kernels that it bounds", scale_kernels},
    {"device.power", "power limit, which is device.watts: clocks of products follow its cube root, up to the peak",
     scale_power},
    {"host.speed", "speed at which the host issues operations", scale_issue},
    {"node.bandwidth", "bandwidth between the ranks of a node",
     [](Machine& m, double factor) {
       scale_collectives(m, false, factor);
       m.link_bandwidth.value *= factor;
     }},
    {"network.bandwidth", "bandwidth of each rail",
     [](Machine& m, double factor) {
       scale_collectives(m, true, factor);
       m.rail_bandwidth.value *= factor;
     }},
    {"network.latency", "both latencies of the network",
     [](Machine& m, double factor) {
       scale_latencies(m, factor);
       m.latency.value *= factor;
       m.latency_rank.value *= factor;
     }},
    {"spread", "spread between ranks and steps",
     [](Machine& m, double factor) {
       m.spread_ranks.value *= factor;
       m.spread_steps.value *= factor;
       m.spread_calls.value *= factor;
     }},
};

/// The text without blanks at its begin and end.
std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

Change read_change(const std::string& text, std::string_view option) {
  const auto equals = text.find('=');
  const std::string key = trimmed(text.substr(0, equals));
  std::vector<std::string_view> keys;
  for (const Property& p : kProperties) keys.push_back(p.key);
  const auto found =
      std::find_if(std::begin(kProperties), std::end(kProperties), [&](const Property& p) { return p.key == key; });
  if (found == std::end(kProperties)) {
    const std::string_view near = deck::nearest(key, keys);
    base::fail(base::ExitCode::deck, "{}: unknown property '{}': {}there are {}", option, key,
               near.empty() ? "" : fmt::format("did you mean '{}'? ", near), deck::list_of(keys, "and"));
  }
  double factor = 0;
  const std::string value = equals == std::string::npos ? "" : trimmed(text.substr(equals + 1));
  const char* const last = value.data() + value.size();
  const auto [end, status] = std::from_chars(value.data(), last, factor);
  if (status != std::errc() || last - end != 1 || *end != 'x' || !(factor >= 0.01 && factor <= 100))
    base::fail(base::ExitCode::deck, "{}: '{}' is not a factor from 0.01x to 100x: write {}=0.5x", option, value, key);
  return {found, factor};
}

}  // namespace

std::span<const Property> properties() { return kProperties; }

std::vector<Change> read_changes(const std::string& text, std::string_view option) {
  std::vector<Change> changes;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const Change change = read_change(text.substr(at, comma - at), option);
    for (const Change& before : changes)
      if (before.property == change.property)
        base::fail(base::ExitCode::deck, "{}: '{}' is given twice, as {}x and as {}x: give it once", option,
                   change.property->key, before.factor, change.factor);
    changes.push_back(change);
    at = comma + 1;
  }
  return changes;
}

Machine changed(Machine machine, std::span<const Change> changes) {
  for (const Change& change : changes) change.property->scale(machine, change.factor);
  return machine;
}

std::vector<Sensitivity> sensitivities(const deck::Config& config, const Machine& machine, const Settings& settings) {
  std::vector<Sensitivity> all;
  const double nominal = project_nominal(config, machine, settings).nominal_s;
  for (const Property& p : kProperties) {
    const auto with = [&](double factor) {
      const Change change{&p, factor};
      return project_nominal(config, changed(machine, {&change, 1}), settings).nominal_s;
    };
    all.push_back({p.key, with(0.5), with(2)});
  }
  std::stable_sort(all.begin(), all.end(), [&](const Sensitivity& a, const Sensitivity& b) {
    const auto most = [&](const Sensitivity& s) {
      return std::max(std::abs(s.half_s - nominal), std::abs(s.double_s - nominal));
    };
    return most(a) > most(b);
  });
  return all;
}

}  // namespace shard8::project
