// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/random/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace shard8::test {

void Progress::add(std::int64_t number, const RandomDeck& deck, const Verdict& verdict) {
  if (verdict.failure != Failure::none) failed.push_back(number);
  KindFigures& kind = kinds[std::string(bounds_of(deck.config).kind)];
  ++kind.decks;
  kind.largest.raise(verdict.difference);
}

std::string Progress::table() const {
  std::string text = fmt::format("{:<34} {:>6} {:>11} {:>11} {:>11} {:>11}\n", "largest difference from one rank",
                                 "decks", "first loss", "first norm", "later loss", "later norm");
  for (const auto& [name, k] : kinds) {
    text += fmt::format("{:<34} {:>6}", name, k.decks);
    for (const auto member : kSpreadMembers) text += fmt::format(" {:>11.1e}", k.largest.*member);
    text += '\n';
  }
  return text;
}

Progress read_progress(const std::filesystem::path& file, const std::string& key) {
  Progress p;
  std::ifstream in(file);
  const auto state = nlohmann::json::parse(in, nullptr, false);
  if (!state.is_object() || state.value("key", "") != key) return p;
  p.done = state["done"];
  p.acceptance.drawn = state["drawn"];
  p.acceptance.rejected = state["rejected"];
  p.failed = state["failed"].get<std::vector<std::int64_t>>();
  for (const auto& [name, k] : state["kinds"].items()) {
    KindFigures& kind = p.kinds[name];
    kind.decks = k["decks"];
    for (std::size_t i = 0; i < std::size(kSpreadMembers); ++i) kind.largest.*kSpreadMembers[i] = k["largest"][i];
  }
  return p;
}

void write_progress(const std::filesystem::path& file, const std::string& key, const Progress& p) {
  nlohmann::json state = {{"key", key},
                          {"done", p.done},
                          {"drawn", p.acceptance.drawn},
                          {"rejected", p.acceptance.rejected},
                          {"failed", p.failed},
                          {"kinds", nlohmann::json::object()}};
  for (const auto& [name, k] : p.kinds) {
    auto& kind = state["kinds"][name] = {{"decks", k.decks}, {"largest", nlohmann::json::array()}};
    for (const auto member : kSpreadMembers) kind["largest"].push_back(k.largest.*member);
  }
  const std::filesystem::path draft = file.string() + ".new";
  std::ofstream(draft) << state.dump(1) << '\n';
  std::filesystem::rename(draft, file);
}

namespace {

using deck::Config;

/// Other forms of the deck that give equally right trainings. The first is the one on one rank with which random decks
/// are compared.
std::vector<Config> forms_of(const Config& config) {
  const Config one = alone(config);
  std::vector<Config> forms = {one};
  const auto add = [&](auto&& change) {
    Config other = one;
    change(other);
    try {
      forms.push_back(loaded(other));
    } catch (const base::Error&) {  // the deck's sizes do not divide in this form
    }
  };
  for (const std::int64_t micro_batch : {1, 2, 3})
    if (micro_batch < config.data.batch) add([&](Config& c) { c.data.micro_batch = micro_batch; });
  add([](Config& c) { c.mesh.shard = 2; });
  add([](Config& c) { c.mesh.tensor = 2; });
  return forms;
}

}  // namespace

void measure_spread(std::int64_t number, std::span<const RandomDeck> decks, Ranks& ranks, SpreadFigures& figures) {
  std::vector<Job> jobs;
  std::vector<std::size_t> first;
  for (const RandomDeck& deck : decks) {
    first.push_back(jobs.size());
    for (const Config& form : forms_of(deck.config)) jobs.push_back({form, "a form of\n" + short_yaml(form)});
  }
  first.push_back(jobs.size());
  const std::vector<Outcome> outcomes = ranks.train(jobs);
  for (std::size_t d = 0; d < decks.size(); ++d)
    for (std::size_t i = first[d]; i < first[d + 1]; ++i)
      for (std::size_t j = i + 1; j < first[d + 1]; ++j)
        figures[std::string(bounds_of(decks[d].config).kind)].push_back(
            {difference_of(outcomes[i], outcomes[j]), number + static_cast<std::int64_t>(d)});
}

std::string to_text(const SpreadFigures& figures) {
  constexpr const char* kNames[] = {"first loss", "first norm", "later loss", "later norm"};
  std::string text;
  for (std::size_t m = 0; m < std::size(kNames); ++m) {
    text += fmt::format("{:<20} {:>6} {:>9} {:>9} {:>9} {:>9} {:>6}\n", kNames[m], "pairs", "median", "90 %", "99 %",
                        "largest", "deck");
    for (const auto& [kind, pairs] : figures) {
      std::vector<std::pair<double, std::int64_t>> all;
      for (const auto& [spread, deck] : pairs) all.emplace_back(spread.*kSpreadMembers[m], deck);
      std::sort(all.begin(), all.end());
      const auto at = [&](std::size_t percent) {
        return all[std::min(all.size() - 1, all.size() * percent / 100)].first;
      };
      text += fmt::format("{:<20} {:>6} {:>9.1e} {:>9.1e} {:>9.1e} {:>9.1e} {:>6}\n", kind, all.size(), at(50), at(90),
                          at(99), all.back().first, all.back().second);
    }
  }
  return text;
}

}  // namespace shard8::test
