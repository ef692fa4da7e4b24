// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "project/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "train/plan/plan.hpp"
#include "train/setup.hpp"

namespace shard8::project {

using Json = nlohmann::ordered_json;

namespace {

/// Calls `use` with each combination of the values, in their order, the last key varying fastest.
void for_each_combination(const std::vector<Varied>& varied,
                          const std::function<void(const std::vector<std::string>& values)>& use,
                          std::vector<std::string> values = {}) {
  if (values.size() == varied.size()) return use(values);
  for (const std::string& value : varied[values.size()].values) {
    values.push_back(value);
    for_each_combination(varied, use, values);
    values.pop_back();
  }
}

/// "data.micro_batch=2 model.recompute=full"
std::string settings_text(const std::vector<Varied>& varied, const std::vector<std::string>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += fmt::format("{}{}={}", i > 0 ? " " : "", varied[i].key, values[i]);
  return text;
}

Json json_of(const SweepRow& row, const std::vector<Varied>& varied) {
  Json one = base::json_of<Json>(row.mesh);
  for (std::size_t i = 0; i < varied.size(); ++i) one[varied[i].key] = row.values[i];
  one["memory_bytes"] = row.memory;
  if (row.step.nominal_s <= 0) return one;
  one["step_s"] = {{"low", row.step.low_s}, {"nominal", row.step.nominal_s}, {"high", row.step.high_s}};
  one["tokens_per_s"] = row.tokens_per_s;
  one["exposed_communication"] = row.step.exposed();
  return one;
}

/// What tells two steps of one mesh apart: the operations of one of two micro-batches, how many micro-batches there
/// are, and how many tokens.
std::string step_of(const deck::Config& config, std::uint64_t memory) {
  train::Setup setup = train::Setup::make(config, 0, 1);
  std::string text = fmt::format("{} {} {}", memory, config.data.batch * config.model.seq, setup.layout.micro_batches);
  setup.layout.micro_batches = std::min<std::int64_t>(2, setup.layout.micro_batches);
  train::record_step(setup, {}, [&](const operation::Operation& o) { text += '\n' + to_text(o); });
  return text;
}

}  // namespace

Sweep sweep(std::int64_t ranks, std::span<const std::int64_t> experts, std::uint64_t most,
            const machine::Machine& machine, const Settings& settings, std::vector<Varied> varied,
            const std::function<deck::Config(const base::Extents&, std::span<const std::string>)>& load) {
  Sweep all;
  all.ranks = ranks;
  all.varied = std::move(varied);
  all.most = most;
  std::map<std::string, std::vector<std::string>> steps;  // of the current mesh: the values that made each first
  const auto try_one = [&](const base::Extents& mesh, const std::vector<std::string>& values) {
    std::vector<std::string> given;
    for (std::size_t i = 0; i < values.size(); ++i) given.push_back(all.varied[i].key + '=' + values[i]);
    deck::Config config;
    try {
      config = load(mesh, given);
    } catch (const base::Error& e) {
      if (e.code() != base::ExitCode::deck) throw;
      if (all.refused++ == 0) all.why = e.what();
      return;
    }
    SweepRow row;
    row.mesh = config.mesh.extents();
    row.values = values;
    row.memory = train::make_plan(config, 1).needed_bytes();
    if (!all.varied.empty()) {
      const auto [first, added] = steps.try_emplace(step_of(config, row.memory), values);
      if (!added) return all.same.emplace_back(std::move(row), first->second), void();
    }
    if (most > 0 && row.memory > most) return all.too_large.push_back(std::move(row));
    try {
      row.step = project(config, machine, settings);
    } catch (const base::Error& e) {
      if (e.code() != base::ExitCode::deck) throw;
      return all.not_projected.emplace_back(std::move(row), e.what()), void();
    }
    row.tokens_per_s = static_cast<double>(config.data.batch * config.model.seq) / row.step.nominal_s;
    machine::add(all.not_given, row.step.not_given);
    all.rows.push_back(std::move(row));
  };
  for (const base::Extents& mesh : train::meshes_of(ranks, experts)) {
    steps.clear();
    for_each_combination(all.varied, [&](const std::vector<std::string>& values) { try_one(mesh, values); });
  }
  std::stable_sort(all.rows.begin(), all.rows.end(),
                   [](const SweepRow& a, const SweepRow& b) { return a.tokens_per_s > b.tokens_per_s; });
  std::stable_sort(all.too_large.begin(), all.too_large.end(),
                   [](const SweepRow& a, const SweepRow& b) { return a.memory < b.memory; });
  return all;
}

std::string to_text(const Sweep& sweep) {
  const bool experts =
      train::has_experts(sweep.rows) || train::has_experts(sweep.too_large) ||
      std::ranges::any_of(sweep.not_projected, [](const auto& row) { return row.first.mesh.expert != 1; });
  std::string text = fmt::format("{:>9} {:>7} {:>7}{}", "replicate", "shard", "tensor", experts ? "  expert" : "");
  for (const Varied& v : sweep.varied) text += fmt::format(" {:>{}}", v.key, std::max<std::size_t>(v.key.size(), 8));
  text += fmt::format(" {:>12} {:>14} {:>12} {:>12} {:>14} {:>10}\n", "memory GiB", "projected s", "low s", "high s",
                      "tokens/s", "exposed %");
  const auto begin = [&](const SweepRow& row) {
    text += fmt::format("{:>9} {:>7} {:>7}", row.mesh[base::Axis::replicate], row.mesh[base::Axis::shard],
                        row.mesh[base::Axis::tensor]);
    if (experts) text += fmt::format(" {:>7}", row.mesh.expert);
    for (std::size_t i = 0; i < row.values.size(); ++i)
      text += fmt::format(" {:>{}}", row.values[i], std::max<std::size_t>(sweep.varied[i].key.size(), 8));
    text += fmt::format(" {:>12.2f}", static_cast<double>(row.memory) / base::kGiB);
  };
  for (const SweepRow& row : sweep.rows) {
    begin(row);
    text += fmt::format(" {:>14.4f} {:>12.4f} {:>12.4f} {:>14.1f} {:>10.2f}\n", row.step.nominal_s, row.step.low_s,
                        row.step.high_s, row.tokens_per_s, 100 * row.step.exposed());
  }
  for (const SweepRow& row : sweep.too_large) {
    begin(row);
    text += " does not fit\n";
  }
  for (const auto& [row, why] : sweep.not_projected) {
    begin(row);
    text += " not projected\n";
  }
  if (!sweep.not_projected.empty())
    text += fmt::format("not projected, since the machine file does not say enough: {}; the first:\n{}\n",
                        sweep.not_projected.size(), sweep.not_projected.front().second);
  text += fmt::format("{} projected{}, the fastest first; {} need more than {:.4g} GiB a rank\n",
                      base::count(static_cast<std::int64_t>(sweep.rows.size()), "combination", "combinations"),
                      fmt::format(" of {}", base::count(sweep.ranks, "rank", "ranks")), sweep.too_large.size(),
                      static_cast<double>(sweep.most) / base::kGiB);
  if (sweep.refused > 0)
    text += fmt::format("left out, since they do not go with the deck: {}; the first:\n{}\n", sweep.refused, sweep.why);
  if (!sweep.same.empty()) {
    const auto& [row, as] = sweep.same.front();
    text +=
        fmt::format("left out, since their step is that of other values: {}; the first: {}, as {}, on {} x {} x {}\n",
                    sweep.same.size(), settings_text(sweep.varied, row.values), settings_text(sweep.varied, as),
                    row.mesh[base::Axis::replicate], row.mesh[base::Axis::shard], row.mesh[base::Axis::tensor]);
  }
  return text + not_given_text(sweep.not_given);
}

std::string to_json(const Sweep& sweep, const std::vector<std::pair<std::string, std::string>>& settings) {
  Json object{{"schema", 1}, {"projected", Json::object()}};
  for (const auto& [name, value] : settings) object["projected"][name] = value;
  object["ranks"] = sweep.ranks;
  object["fit_bytes"] = sweep.most;
  object["refused"] = sweep.refused;
  object["meshes"] = Json::array();
  for (const SweepRow& row : sweep.rows) object["meshes"].push_back(json_of(row, sweep.varied));
  object["too_large"] = Json::array();
  for (const SweepRow& row : sweep.too_large) object["too_large"].push_back(json_of(row, sweep.varied));
  object["not_projected"] = Json::array();
  for (const auto& [row, why] : sweep.not_projected) {
    object["not_projected"].push_back(json_of(row, sweep.varied));
    object["not_projected"].back()["why"] = why;
  }
  object["same_step"] = Json::array();
  for (const auto& [row, as] : sweep.same) {
    object["same_step"].push_back(json_of(row, sweep.varied));
    for (std::size_t i = 0; i < as.size(); ++i) object["same_step"].back()["as"][sweep.varied[i].key] = as[i];
  }
  object["projected"]["not_given"] = Json::array();
  for (const machine::NotGiven& entry : sweep.not_given) object["projected"]["not_given"].push_back(to_text(entry));
  return object.dump(2);
}

}  // namespace shard8::project
