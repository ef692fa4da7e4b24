// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/random/spread.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace shard8::test {

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

void measure_spread(std::span<const RandomDeck> decks, Ranks& ranks, SpreadFigures& figures) {
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
        figures[std::string(bounds_of(decks[d].config).kind)].push_back(difference_of(outcomes[i], outcomes[j]));
}

std::string to_text(const SpreadFigures& figures) {
  constexpr const char* kNames[] = {"first loss", "first norm", "later loss", "later norm"};
  std::string text;
  for (std::size_t m = 0; m < std::size(kNames); ++m) {
    text +=
        fmt::format("{:<20} {:>6} {:>9} {:>9} {:>9} {:>9}\n", kNames[m], "pairs", "median", "90 %", "99 %", "largest");
    for (const auto& [kind, pairs] : figures) {
      std::vector<double> all;
      for (const Spread& s : pairs) all.push_back(s.*kSpreadMembers[m]);
      std::sort(all.begin(), all.end());
      const auto at = [&](std::size_t percent) { return all[std::min(all.size() - 1, all.size() * percent / 100)]; };
      text += fmt::format("{:<20} {:>6} {:>9.1e} {:>9.1e} {:>9.1e} {:>9.1e}\n", kind, all.size(), at(50), at(90),
                          at(99), all.back());
    }
  }
  return text;
}

}  // namespace shard8::test
