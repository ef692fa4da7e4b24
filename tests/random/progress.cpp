// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/random/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

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

}  // namespace shard8::test
