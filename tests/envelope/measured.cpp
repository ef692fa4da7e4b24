// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/envelope/measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.hpp"
#include "deck/choices.hpp"
#include "profile/compare/comparison.hpp"
#include "tests/random/trial.hpp"

namespace shard8::test {
namespace {

using Json = nlohmann::ordered_json;

using Member = std::vector<double> MeasuredPair::*;
constexpr std::pair<const char*, Member> kFigures[] = {{"loss", &MeasuredPair::loss},
                                                       {"grad_norm", &MeasuredPair::grad_norm},
                                                       {"unit_norm", &MeasuredPair::unit_norm},
                                                       {"weight_norm", &MeasuredPair::weight_norm}};

/// With three digits, so that files are short.
double rounded(double x) { return std::strtod(fmt::format("{:.2e}", x).c_str(), nullptr); }
/// The next number with three digits that is not smaller.
double rounded_up(double x) {
  const double near = rounded(x);
  return near >= x ? near : rounded(near * 1.01);
}

std::string mesh_text(const deck::Config& c) {
  return fmt::format("{}x{}x{}/{}", c.mesh.replicate, c.mesh.shard, c.mesh.tensor, c.data.micro_batch);
}

Json json_of(const MeasuredPair& p) {
  const auto list = [](const std::vector<double>& values) {
    Json out = Json::array();
    for (const double v : values) out.push_back(std::isfinite(v) ? Json(rounded(v)) : Json(nullptr));
    return out;
  };
  return {{"deck", p.deck},
          {"kind", p.kind},
          {"meshes", p.meshes},
          {"parameters", p.parameters},
          {"lr", p.learning_rate},
          {"tokens", p.tokens},
          {"finite", p.finite},
          {"loss", list(p.loss)},
          {"grad_norm", list(p.grad_norm)},
          {"unit_norm", list(p.unit_norm)},
          {"weight_norm", list(p.weight_norm)}};
}

MeasuredPair pair_of(const Json& j) {
  MeasuredPair p{.deck = j.at("deck"),
                 .kind = j.at("kind"),
                 .meshes = j.at("meshes"),
                 .parameters = j.at("parameters"),
                 .learning_rate = j.at("lr"),
                 .tokens = j.at("tokens"),
                 .loss = {},
                 .grad_norm = {},
                 .unit_norm = {},
                 .weight_norm = {},
                 .finite = j.at("finite")};
  for (const auto& [name, member] : kFigures)
    for (const Json& v : j.at(name)) (p.*member).push_back(v.is_null() ? HUGE_VAL : v.get<double>());
  return p;
}

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<double>(i);
  return ranks;
}

/// Spearman's.
double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const std::vector<double> a = ranks_of(x), b = ranks_of(y);
  const double mean = (static_cast<double>(a.size()) - 1) / 2;
  double ab = 0, aa = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
  }
  return aa > 0 ? ab / aa : 0;
}

/// Of sorted values.
double quantile(const std::vector<double>& sorted, double share) {
  const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(at, 1, sorted.size()) - 1];
}

std::vector<double> sorted_at(const std::vector<MeasuredPair>& pairs, const std::string& kind, Member member,
                              std::size_t step) {
  std::vector<double> values;
  for (const MeasuredPair& p : pairs)
    if (p.kind == kind && step < (p.*member).size()) values.push_back((p.*member)[step]);
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<std::string> kinds_of(const std::vector<MeasuredPair>& pairs) {
  std::vector<std::string> kinds;
  for (const MeasuredPair& p : pairs)
    if (std::find(kinds.begin(), kinds.end(), p.kind) == kinds.end()) kinds.push_back(p.kind);
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

}  // namespace

double MeasuredPair::largest(const std::vector<double>& values) const {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

namespace {

std::vector<double> largest_differences(const std::vector<double>& one, const std::vector<double>& other,
                                        std::size_t steps) {
  const std::size_t units = steps == 0 ? 0 : one.size() / steps;
  SHARD8_REQUIRE(other.size() == steps * units && one.size() == steps * units, "{} and {} norms of units in {} steps",
                 one.size(), other.size(), steps);
  std::vector<double> largest(steps);
  for (std::size_t i = 0; i < steps * units; ++i) {
    double& of_step = largest[i / units];
    of_step = std::max(of_step, profile::relative_difference(one[i], other[i]));
  }
  return largest;
}

}  // namespace

std::vector<double> unit_norm_differences(const Outcome& one, const Outcome& other) {
  return largest_differences(one.unit_norms, other.unit_norms, one.losses.size());
}

std::vector<double> weight_norm_differences(const Outcome& one, const Outcome& other) {
  if (one.weight_norms.empty() || other.weight_norms.empty()) return {};
  return largest_differences(one.weight_norms, other.weight_norms, one.losses.size());
}

MeasuredPair measured(const Pair& pair, const Outcome& one, const Outcome& other) {
  MeasuredPair p{.deck = pair.deck,
                 .kind = pair.kind,
                 .meshes = mesh_text(pair.one) + " " + mesh_text(pair.other),
                 .parameters = pair.parameters(),
                 .learning_rate = pair.one.optimizer.lr,
                 .tokens = pair.tokens(),
                 .loss = {},
                 .grad_norm = {},
                 .unit_norm = {},
                 .weight_norm = {}};
  const auto steps = static_cast<std::size_t>(pair.one.run.steps);
  for (const Outcome* outcome : {&one, &other}) {
    SHARD8_REQUIRE(outcome->error.empty() && outcome->losses.size() == steps && outcome->norms.size() == steps,
                   "deck {} of {}: {} steps were trained, not {}: {}", pair.deck, pair.kind, outcome->losses.size(),
                   steps, outcome->error);
    for (std::size_t s = 0; s < steps; ++s)
      p.finite = p.finite && std::isfinite(outcome->losses[s]) && std::isfinite(outcome->norms[s]);
  }
  for (std::size_t s = 0; s < steps; ++s) {
    p.loss.push_back(profile::relative_difference(one.losses[s], other.losses[s]));
    p.grad_norm.push_back(profile::relative_difference(one.norms[s], other.norms[s]));
  }
  p.unit_norm = unit_norm_differences(one, other);
  p.weight_norm = weight_norm_differences(one, other);
  return p;
}

Measurements::Measurements(std::filesystem::path file, std::uint64_t seed, std::int64_t steps)
    : file_(std::move(file)), seed_(seed), steps_(steps) {
  if (file_.empty() || !std::filesystem::exists(file_)) return;
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);) {
    const Json j = Json::parse(line, nullptr, false);
    if (j.is_discarded()) break;  // the last line, of a program that was killed
    if (j.contains("seed"))
      SHARD8_REQUIRE(j.at("seed") == seed && j.at("steps") == steps, "{} is of seed {} and {} steps", file_.string(),
                     j.at("seed").dump(), j.at("steps").dump());
    else if (j.contains("looked_at"))
      next_ = j.at("looked_at").get<std::int64_t>() + 1;
    else
      pairs_.push_back(pair_of(j));
  }
  // Pairs behind the last whole round are measured again.
  std::erase_if(pairs_, [this](const MeasuredPair& p) { return p.deck >= next_; });
  written_ = pairs_.size();
}

void Measurements::add(const MeasuredPair& pair) { pairs_.push_back(pair); }

void Measurements::write() {
  if (file_.empty()) return;
  std::string text;
  if (!std::filesystem::exists(file_)) text = Json{{"seed", seed_}, {"steps", steps_}}.dump() + "\n";
  for (; written_ < pairs_.size(); ++written_) text += json_of(pairs_[written_]).dump() + "\n";
  text += Json{{"looked_at", next_ - 1}}.dump() + "\n";
  std::ofstream(file_, std::ios::app) << text;
}

std::int64_t Measurements::count(const std::string& kind) const {
  return std::count_if(pairs_.begin(), pairs_.end(), [&](const MeasuredPair& p) { return p.kind == kind; });
}

std::string to_text(const std::vector<MeasuredPair>& pairs) {
  std::string text = fmt::format("{:<18} {:<9} {:>5} {:>6} {:>9} {:>9} {:>9} {:>9}\n", "rounding", "figure", "pairs",
                                 "step", "median", "90 %", "99 %", "largest");
  std::string relations;
  for (const std::string& kind : kinds_of(pairs)) {
    for (const auto& [name, member] : kFigures) {
      for (const std::size_t step : {0, 1, 2, 5, 10, 20, 30, 39}) {
        const auto values = sorted_at(pairs, kind, member, step);
        if (values.empty()) continue;
        text += fmt::format("{:<18} {:<9} {:>5} {:>6} {:>9.1e} {:>9.1e} {:>9.1e} {:>9.1e}\n", kind, name, values.size(),
                            step, quantile(values, 0.5), quantile(values, 0.9), quantile(values, 0.99), values.back());
      }
      std::vector<double> largest, parameters, tokens, rates;
      for (const MeasuredPair& p : pairs) {
        if (p.kind != kind) continue;
        largest.push_back(p.largest(p.*member));
        parameters.push_back(p.parameters);
        tokens.push_back(static_cast<double>(p.tokens));
        rates.push_back(p.learning_rate);
      }
      relations +=
          fmt::format("{:<18} {:<9} {:>10.2f} {:>10.2f} {:>10.2f}\n", kind, name, correlation(largest, parameters),
                      correlation(largest, tokens), correlation(largest, rates));
    }
  }
  const auto diverged = std::count_if(pairs.begin(), pairs.end(), [](const MeasuredPair& p) { return !p.finite; });
  return text +
         fmt::format(
             "\n{} pairs are not finite\n\nrank correlation of the largest difference with\n{:<28} "
             "{:>10} {:>10} {:>10}\n",
             diverged, "", "parameters", "tokens", "lr") +
         relations;
}

std::string envelope_text(const std::vector<MeasuredPair>& pairs, std::int64_t steps, const Provenance& provenance) {
  Json file{{"schema", 1},
            {"what",
             "By how much two right runs of one training differ at most: relative differences of loss, grad_norm, "
             "unit_norm (of the unit whose gradients' norms differ most) and weight_norm (the same of weights kept in "
             "FP8), by rounding and step. bound = factor x the largest "
             "of all pairs up to the step, in FP8 at least that of bf16, "
             "which rounds there as well. docs/training.md"},
            {"command", provenance.command},
            {"commit", provenance.commit},
            {"date", provenance.date},
            {"seed", provenance.seed},
            {"factor", kEnvelopeFactor},
            {"steps", steps},
            {"roundings", Json::object()}};
  constexpr const char* kBf16 = "bf16";
  for (const std::string& kind : kinds_of(pairs)) {  // in the order of their names: bf16 is before those of FP8
    const bool in_fp8 = kind != kBf16 && !kind.starts_with("fp32");
    const bool has_bf16 = file["roundings"].contains(kBf16);
    const Json wide = has_bf16 ? file["roundings"][kBf16] : Json();
    Json& of_kind = file["roundings"][kind];
    of_kind["pairs"] = std::count_if(pairs.begin(), pairs.end(), [&](const MeasuredPair& p) { return p.kind == kind; });
    for (const auto& [name, member] : kFigures) {
      const std::size_t having = sorted_at(pairs, kind, member, 0).size();
      if (having == 0) continue;  // no pair keeps weights in FP8
      Json& figure = of_kind[name];
      if (having < of_kind["pairs"].get<std::size_t>()) figure["pairs"] = having;  // the others keep none
      const bool of_units = member == &MeasuredPair::unit_norm || member == &MeasuredPair::weight_norm;
      double bound = of_units ? kLeastBound : 0;
      for (std::int64_t s = 0; s < steps; ++s) {
        const auto values = sorted_at(pairs, kind, member, static_cast<std::size_t>(s));
        SHARD8_REQUIRE(!values.empty() && std::isfinite(values.back()), "{}: a pair has no finite {} in step {}", kind,
                       name, s);
        bound = std::max(bound, kEnvelopeFactor * values.back());
        // Pairs in FP8 round as those in BF16 do besides, but few of them may have been drawn that differ by it.
        if (in_fp8 && has_bf16 && wide.contains(name))
          bound = std::max(bound, wide[name]["bound"][static_cast<std::size_t>(s)].get<double>());
        figure["bound"].push_back(rounded_up(bound));
        figure["median"].push_back(rounded(quantile(values, 0.5)));
        figure["p99"].push_back(rounded(quantile(values, 0.99)));
        figure["largest"].push_back(rounded(values.back()));
      }
    }
  }
  return file.dump() + "\n";
}

double Pair::parameters() const {
  const deck::ModelConfig& m = one.model;
  const auto product = [](std::int64_t a, std::int64_t b) { return static_cast<double>(a) * static_cast<double>(b); };
  return static_cast<double>(m.layers) * product(m.hidden, 4 * m.hidden + 3 * m.ffn) + product(m.vocab, m.hidden);
}

std::string kind_of(const deck::Config& c) {
  return profile::rounding_of(deck::to_string(c.fp8.recipe), deck::to_string(c.precision.compute),
                              deck::to_string(c.precision.reduce));
}

RandomDeck draw_training(std::uint64_t seed, std::int64_t number, std::int64_t steps,
                         const std::filesystem::path& folder, std::int64_t most_ranks) {
  constexpr std::int64_t kSlower = 8;  // drawn decks have 3 to 9 steps
  Acceptance ignored;
  RandomDeck deck = draw_deck(seed, number, folder, ignored, most_ranks);
  deck::Config& c = deck.config;
  c.run.steps = steps;
  c.run.stop_after = c.checkpoint.every = 0;
  c.run.skeleton = deck::Skeleton::none;
  c.data.batch_per_rank = 0;  // the batch stays on meshes of other ranks
  c.output.trace.clear();
  c.output.trace_steps = deck::Config{}.output.trace_steps;
  c.optimizer.decay_steps = c.optimizer.warmup + kSlower * (c.optimizer.decay_steps - c.optimizer.warmup);
  deck.restarts.clear();
  deck.change.reset();
  provide_data(deck, folder);  // slabs have as many steps as the run
  c = loaded(c);
  return deck;
}

Pair draw_pair(std::uint64_t seed, std::int64_t number, std::int64_t steps, const std::filesystem::path& folder,
               std::int64_t most_ranks) {
  constexpr int kMostTries = 4;
  RandomDeck deck = draw_training(seed, number, steps, folder, most_ranks);
  Pair pair{.deck = number, .kind = kind_of(deck.config), .one = deck.config, .other = {}};
  Draw draw(seed, number, 0, "other configuration");
  for (int i = 0; i < kMostTries; ++i) {
    const Restart restart = draw_restart(deck.config, most_ranks, draw);
    if (restart.same_mesh) continue;
    deck.restarts = {restart};
    pair.other = restarted(deck, 0);
    pair.other.run.stop_after = 0;
    pair.other = loaded(pair.other);
    return pair;
  }
  pair.other = alone(deck.config);
  return pair;
}

}  // namespace shard8::test
