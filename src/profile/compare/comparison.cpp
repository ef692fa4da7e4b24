// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/compare/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "profile/measurement.hpp"

namespace shard8::profile {
namespace {

using Verdict = ComparedFigure::Verdict;

/// The least share of the limit, and of a step, by which a phase must change. Chosen: a small phase may change much
/// from run to run, and nobody would notice.
constexpr double kLeastShare = 0.2;

/// The chances that the step (and the rate, which is the same time) and that some phase of two equal runs are called
/// different. Chosen: the step is looked at first, and with 3 % a slowdown of 3 % is still found in 95 % of pairs of
/// 200 steps with a spread of 5 % and a correlation of 0.3. What is left of 1 − kCompareConfidence allows for errors
/// that are too small in short series with a strong correlation.
constexpr double kChanceOfStep = 0.6 * (1 - kCompareConfidence);
constexpr double kChanceOfPhases = 0.2 * (1 - kCompareConfidence);

/// The change of a figure of which less is better, where a difference up to `least` does not count.
Verdict judge(double a, double b, double percent, double least) {
  if (std::abs(b - a) <= least) return Verdict::within;
  if (b > a * (1 + percent / 100)) return Verdict::worse;
  if (a > b * (1 + percent / 100)) return Verdict::better;
  return b > a ? Verdict::slower : Verdict::faster;
}

/// As judge(), of a size in bytes, which has no errors.
Verdict judge_size(double a, double b, double percent) {
  const Verdict verdict = judge(a, b, percent, 0);
  return verdict == Verdict::worse || verdict == Verdict::better ? verdict : Verdict::within;
}

/// Lists the texts that differ.
void differ(std::vector<Difference>& out, const std::string& what, const RecordedRun::Texts& a,
            const RecordedRun::Texts& b, const std::function<bool(const std::string&)>& counts) {
  const auto value = [](const RecordedRun::Texts& texts, const std::string& name) -> std::string {
    const std::string* const found = value_of(texts, name);
    return found == nullptr ? "-" : *found;
  };
  for (const auto& [name, text] : a)
    if (counts(name) && value(b, name) != text) out.push_back({what, name, text, value(b, name)});
  for (const auto& [name, text] : b)
    if (counts(name) && value(a, name) == "-" && text != "-") out.push_back({what, name, "-", text});
}

std::vector<Difference> differences(const RecordedRun& a, const RecordedRun& b) {
  std::vector<Difference> out;
  const auto all = [](const std::string&) { return true; };
  // Two runs have their own folders, and jobs their own numbers.
  differ(out, "deck", a.deck, b.deck, [&](const std::string& name) {
    const bool unread = name == "data.path" && !(a.skeleton.empty() && b.skeleton.empty());  // by a skeleton
    return name != "output.dir" && name != "checkpoint.dir" && !unread;
  });
  if (a.projected.has_value() == b.projected.has_value()) differ(out, "version", a.version, b.version, all);
  if (!a.projected && !b.projected) differ(out, "run", a.run, b.run, all);
  if (a.projected || b.projected) return out;  // a projection ran nowhere
  if (a.hosts != b.hosts) out.push_back({"hosts", "", a.hosts, b.hosts});
  differ(out, "environment", a.environment, b.environment,
         [](const std::string& name) { return !name.starts_with("SLURM_"); });
  return out;
}

/// Pairs the rows of both runs by name, those of `a` first.
template <class Row, class Use>
void for_each_pair(const std::vector<Row>& a, const std::vector<Row>& b, Use use) {
  const auto find = [](const std::vector<Row>& rows, const std::string& name) -> const Row* {
    const auto at = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
    return at == rows.end() ? nullptr : &*at;
  };
  for (const Row& row : a) use(row.name, &row, find(b, row.name));
  for (const Row& row : b)
    if (find(a, row.name) == nullptr) use(row.name, static_cast<const Row*>(nullptr), &row);
}

/// Whether the cores of both runs were of one speed, as far as it is known: the same work took the same time on them,
/// but for kSpeedsDiffer.
bool is_of_one_speed(const RecordedRun& a, const RecordedRun& b) {
  const auto [least, most] = std::minmax(a.core_work_s, b.core_work_s);
  return least <= 0 || most / least <= 1 + kSpeedsDiffer;
}

/// Whether the machine was not busy in either run, its cores kept their speed, and had the same speed in both runs. Two
/// machines may be of different speed: comparing them is what such a pair of runs is for.
bool was_quiet(const RecordedRun& a, const RecordedRun& b) {
  if (std::max(a.core_slowed, b.core_slowed) > kUnevenSpeed) return false;
  return a.busy.empty() && b.busy.empty() && (a.hosts != b.hosts || is_of_one_speed(a, b));
}

/// Makes the tables of figures. `steps_alike`: a step of both runs is the same work for a rank. No time of a busy
/// machine is judged.
class Figures {
 public:
  Figures(const RecordedRun& a, const RecordedRun& b, double percent, bool steps_alike)
      : a_(a), b_(b), percent_(percent), steps_alike_(steps_alike), quiet_(was_quiet(a, b)) {}

  ComparedKind steps() const {
    ComparedKind kind{"step", "ms", 1e3};
    const auto time = [&](const char* name, double a, double b) {
      if (a <= 0 || b <= 0) return false;
      kind.figures.push_back({name, a, b});
      return true;
    };
    if (time("mean", a_.mean_s, b_.mean_s)) {
      ComparedFigure& mean = kind.figures.back();
      mean.a_band = band_of(a_, 1);
      mean.b_band = band_of(b_, 1);
      if (!is_projected())
        judge_means(mean, a_.known, b_.known, 1 - kChanceOfStep);
      else if (steps_alike_)
        judge_bands(mean, a_.mean_s, b_.mean_s, mean.a_band, mean.b_band);
    }
    time("p50", a_.p50_s, b_.p50_s);
    return kind;
  }

  /// The rate, which is judged by the time of a token.
  ComparedKind rate() const {
    ComparedKind kind{"rate", "tokens/s"};
    if (a_.tokens_per_s <= 0 || b_.tokens_per_s <= 0) return kind;
    const bool by_rank = a_.ranks > 0 && b_.ranks > 0;
    const double a = a_.tokens_per_s / static_cast<double>(by_rank ? a_.ranks : 1);
    const double b = b_.tokens_per_s / static_cast<double>(by_rank ? b_.ranks : 1);
    ComparedFigure& figure = kind.figures.emplace_back(ComparedFigure{by_rank ? "of a rank" : "of all ranks", a, b});
    if (a_.mean_s <= 0 || b_.mean_s <= 0) return kind;
    if (is_projected()) {
      const std::optional<Band> of_a = band_of(a_, 1 / (a * a_.mean_s)), of_b = band_of(b_, 1 / (b * b_.mean_s));
      if (of_a) figure.a_band = {1 / of_a->high, 1 / of_a->low};
      if (of_b) figure.b_band = {1 / of_b->high, 1 / of_b->low};
      judge_bands(figure, 1 / a, 1 / b, of_a, of_b);  // times of a token
      return kind;
    }
    if (!a_.known || !b_.known) return kind;
    const StepMean of_a = a_.known->of(1 / a), of_b = b_.known->of(1 / b);
    set_margin(figure, difference_of(of_a, of_b), of_a.mean, 1 - kChanceOfStep);
    if (quiet_) figure.verdict = judge(of_a.mean, of_b.mean, percent_, *figure.margin);
    *figure.margin *= a * a;  // d(1/t) = dt/t²
    return kind;
  }

  ComparedKind phases() const {
    ComparedKind kind{"phases", "ms", 1e3};
    const double least = kLeastShare * percent_ / 100 * a_.mean_s;
    std::size_t large = 0;  // phases that can change by more than `least`
    for_each_pair(a_.phases, b_.phases, [&](const std::string&, const auto* a, const auto* b) {
      if (a != nullptr && b != nullptr && std::max(a->mean_s, b->mean_s) > least) ++large;
    });
    const double chance = kChanceOfPhases / static_cast<double>(std::max<std::size_t>(large, 1));  // Bonferroni
    for_each_pair(a_.phases, b_.phases, [&](const std::string& name, const auto* a, const auto* b) {
      ComparedFigure& figure = add(kind, name, a, b, &RecordedRun::Time::mean_s);
      if (a != nullptr && b != nullptr) judge_means(figure, a->known, b->known, 1 - chance, least);
    });
    return kind;
  }

  ComparedKind exchanges() const {
    ComparedKind kind{"exchanges, exposed", "ms", 1e3};
    for_each_pair(a_.exchanges, b_.exchanges, [&](const std::string& name, const auto* a, const auto* b) {
      add(kind, name, a, b, &RecordedRun::Time::mean_s);
    });
    return kind;
  }

  ComparedKind experts() const {
    ComparedKind kind{"experts", ""};
    const auto value_in = [](const RecordedRun& run, const std::string& name) -> std::optional<double> {
      for (const auto& [known, value] : run.experts)
        if (known == name) return value;
      return std::nullopt;
    };
    for (const auto& [name, value] : a_.experts.empty() ? b_.experts : a_.experts)
      kind.figures.push_back({name, value_in(a_, name), value_in(b_, name)});
    return kind;
  }

  ComparedKind collectives(const char* what, const char* unit, double scale, double RecordedRun::Traffic::*member,
                           bool judged = false) const {
    ComparedKind kind{what, unit, scale};
    for_each_pair(a_.collectives, b_.collectives, [&](const std::string& name, const auto* a, const auto* b) {
      ComparedFigure& figure = add(kind, name, a, b, member);
      if (judged && a != nullptr && b != nullptr && steps_alike_)
        figure.verdict = judge_size(a->*member, b->*member, percent_);
    });
    return kind;
  }

  /// Joules of a token are judged by the limit alone: their error is not known. Joules are not judged where different
  /// counters were read, or where the times are not judged.
  ComparedKind energy(const char* unit, double RecordedRun::*member) const {
    ComparedKind kind{"energy", unit};
    const double a = a_.*member, b = b_.*member;
    if (a <= 0 && b <= 0) return kind;
    ComparedFigure& figure =
        kind.figures.emplace_back(ComparedFigure{member == &RecordedRun::watts ? "mean" : "a token"});
    if (a > 0) figure.a = a;
    if (b > 0) figure.b = b;
    const bool judged = member == &RecordedRun::joules_per_token && a > 0 && b > 0 && a_.energy_of == b_.energy_of;
    if (judged && quiet_ && !is_projected()) figure.verdict = judge_size(a, b, percent_);
    return kind;
  }

  ComparedKind memory() const {
    ComparedKind kind{"memory of a rank", "MiB", 1.0 / (1024 * 1024)};
    struct Memory {
      std::string name;
      double bytes;
    };
    const auto rows = [](const RecordedRun& run) {
      std::vector<Memory> out;
      for (const auto& [name, bytes] : run.memory) out.push_back({name, bytes});
      return out;
    };
    for_each_pair(rows(a_), rows(b_), [&](const std::string& name, const Memory* a, const Memory* b) {
      ComparedFigure& figure = add(kind, name, a, b, &Memory::bytes);
      // A skeleton of the communication on hosts takes memory only for what is communicated.
      if (a != nullptr && b != nullptr && name == "planned_total" && a_.skeleton == b_.skeleton)
        figure.verdict = judge_size(a->bytes, b->bytes, percent_);
    });
    return kind;
  }

  ComparedKind casts(const char* what, const char* unit, double scale,
                     double (*value)(const RecordedRun::Casts&)) const {
    ComparedKind kind{what, unit, scale};
    for_each_pair(a_.casts, b_.casts, [&](const std::string& name, const auto* a, const auto* b) {
      ComparedFigure figure{name};
      if (a != nullptr) figure.a = value(*a);
      if (b != nullptr) figure.b = value(*b);
      kind.figures.push_back(figure);
    });
    return kind;
  }

 private:
  bool is_projected() const { return a_.projected || b_.projected; }

  /// The band of a projected step, multiplied by `factor`; nothing if the step was measured.
  static std::optional<Band> band_of(const RecordedRun& run, double factor) {
    if (!run.projected) return std::nullopt;
    return Band{factor * run.projected->low_s, factor * run.projected->high_s};
  }

  /// Judges two times, of which at least one was projected: within if their bands meet, where a measured time is a band
  /// of one value. A measured time has to be known.
  void judge_bands(ComparedFigure& figure, double a, double b, const std::optional<Band>& of_a,
                   const std::optional<Band>& of_b) const {
    if (!quiet_ || (!of_a && !a_.known) || (!of_b && !b_.known)) return;
    const Band x = of_a.value_or(Band{a, a}), y = of_b.value_or(Band{b, b});
    figure.in_band = std::max(x.low, y.low) <= std::min(x.high, y.high);
    figure.verdict = figure.in_band ? Verdict::within : judge(a, b, percent_, 0);
  }

  /// Sets the margin and the confidence of a figure from the difference of two means, of which `mean` is one. Cores
  /// that did not keep their speed may have lengthened either mean by kCoresToSteps times their slowdown. The margin is
  /// larger by that time, and the confidence is that of what the difference has beyond it.
  void set_margin(ComparedFigure& figure, MeanDifference difference, double mean, double confidence) const {
    const double by_cores = kCoresToSteps * std::max(a_.core_slowed, b_.core_slowed) * mean;
    figure.margin = difference.margin(confidence) + by_cores;
    difference.difference = std::max(0.0, std::abs(difference.difference) - by_cores);
    figure.confidence = difference.confidence();
  }

  /// Judges two means, where a difference up to `least` does not count.
  void judge_means(ComparedFigure& figure, const std::optional<StepMean>& a, const std::optional<StepMean>& b,
                   double confidence, double least = 0) const {
    if (!a || !b || !steps_alike_) return;
    set_margin(figure, difference_of(*a, *b), a->mean, confidence);
    if (quiet_) figure.verdict = judge(a->mean, b->mean, percent_, std::max(*figure.margin, least));
  }

  template <class Row>
  static ComparedFigure& add(ComparedKind& kind, const std::string& name, const Row* a, const Row* b,
                             double Row::*member) {
    ComparedFigure& figure = kind.figures.emplace_back(ComparedFigure{name});
    if (a != nullptr) figure.a = a->*member;
    if (b != nullptr) figure.b = b->*member;
    return figure;
  }

  const RecordedRun& a_;
  const RecordedRun& b_;
  double percent_;
  bool steps_alike_;
  bool quiet_;  ///< was_quiet()
};

using Losses = std::map<std::int64_t, double>;

LossDifference compare_losses(const Losses& a, const Losses& b) {
  LossDifference loss;
  for (const auto& [step, of_a] : a) {
    const auto found = b.find(step);
    if (found == b.end()) {
      ++loss.only_a;
      continue;
    }
    ++loss.common;
    const double relative = relative_difference(of_a, found->second);
    if (relative > 0 && !loss.first) {
      loss.first = step;
      loss.a = of_a;
      loss.b = found->second;
    }
    if (relative <= loss.largest) continue;
    loss.largest = relative;
    loss.largest_step = step;
  }
  loss.only_b = static_cast<std::int64_t>(b.size()) - loss.common;
  return loss;
}

void note_what_is_missing(Comparison& result, const RecordedRun& a, const RecordedRun& b, bool steps_alike) {
  for (const RecordedRun* run : {&a, &b}) {
    if (run->projected) {
      result.notes.push_back(fmt::format(
          "{}: projected on {}: nothing ran, so losses and verification are not compared, and phases are not judged",
          run->name, run->projected->machine));
      continue;
    }
    if (!run->has_summary) result.notes.push_back(fmt::format("{}: losses and step times only", run->name));
    if (!run->skeleton.empty())
      result.notes.push_back(
          fmt::format("{}: a skeleton of the {}: it trained nothing, so losses and rates are not compared", run->name,
                      run->skeleton));
    else if (run->loss.empty())
      result.notes.push_back(fmt::format("{}: no metrics.jsonl, so no losses", run->name));
    if (!run->busy.empty())
      result.notes.push_back(fmt::format(
          "{}: the machine was busy, so no time is judged: {}; run it again on a quiet machine, or with fewer "
          "ranks or threads",
          run->name, run->busy));
    if (run->core_slowed > kUnevenSpeed)
      result.notes.push_back(fmt::format(
          "{}: something unseen slowed its cores by {:.1f} % (other machines of the hypervisor, a hyperthread, a "
          "clock), so no time is judged",
          run->name, 100 * run->core_slowed));
    if (!run->known)
      result.notes.push_back(fmt::format(
          "{}: fewer than 4 measured steps do not tell how well their mean is known: no time is judged", run->name));
  }
  if (!is_of_one_speed(a, b)) {
    const bool same = a.hosts == b.hosts;
    result.notes.push_back(fmt::format(
        "{}: its cores took {:.2f} us for a fixed piece of work, those of {} {:.2f} us: {}", b.name,
        1e6 * b.core_work_s, a.name, 1e6 * a.core_work_s,
        same ? "their clock, or what shared them, was not the same, so no time is judged; run both again in turns"
             : "these are not the same cores, or something slowed them"));
  }
  for (const RecordedRun* run : {&a, &b})
    if (!run->energy_missing.empty() && a.joules_per_token + b.joules_per_token > 0)
      result.notes.push_back(fmt::format("{}: energy not read: {}", run->name, run->energy_missing));
  if (a.watts > 0 && b.watts > 0 && a.energy_of != b.energy_of)
    result.notes.push_back(
        fmt::format("energy of {} and of {} was counted: it is not judged", a.energy_of, b.energy_of));
  if (!steps_alike)
    result.notes.push_back(
        "a step is not the same work for a rank in both runs: of the times, only the rate is judged");
  if (!result.loss) return;
  const LossDifference& loss = *result.loss;
  if (loss.only_a + loss.only_b > 0)
    result.notes.push_back(fmt::format("the runs have {} and {} steps: losses of the {} common ones are compared",
                                       loss.common + loss.only_a, loss.common + loss.only_b, loss.common));
}

}  // namespace

std::optional<double> ComparedFigure::change() const {
  if (!a || !b || *a == 0) return std::nullopt;
  return *b / *a - 1;
}

Comparison compare_runs(const RecordedRun& a, const RecordedRun& b, const CompareLimits& limits) {
  Comparison result{.a = a.name, .b = b.name};
  const bool both = a.has_summary && b.has_summary;
  const bool same_tokens = a.tokens_per_step == 0 || b.tokens_per_step == 0 || a.tokens_per_step == b.tokens_per_step;
  const bool steps_alike = same_tokens && (!both || a.ranks == b.ranks);
  const auto is_known = [](const RecordedRun& run) { return run.known || run.projected; };
  result.times_judged = was_quiet(a, b) && is_known(a) && is_known(b);
  if (a.projected) result.a_projected = a.projected->machine;
  result.a_skeleton = a.skeleton;
  result.b_skeleton = b.skeleton;
  if (b.projected) result.b_projected = b.projected->machine;
  if (both) result.differences = differences(a, b);
  const Figures figures(a, b, limits.percent, steps_alike);
  const auto add = [&](ComparedKind kind) {
    for (const ComparedFigure& figure : kind.figures)
      if (figure.verdict == Verdict::worse || figure.verdict == Verdict::slower)
        (figure.verdict == Verdict::worse ? result.exceeded : result.slower)
            .push_back(fmt::format("{} {}: {}", kind.name, figure.name, change_text(figure, kind)));
    if (!kind.figures.empty()) result.kinds.push_back(std::move(kind));
  };
  add(figures.steps());
  add(figures.rate());
  if (both) {
    add(figures.energy("J", &RecordedRun::joules_per_token));
    add(figures.energy("W", &RecordedRun::watts));
    add(figures.phases());
    add(figures.exchanges());
    add(figures.experts());
    add(figures.collectives("collectives, bytes a step", "bytes", 1, &RecordedRun::Traffic::bytes, true));
    add(figures.collectives("collectives, calls a step", "", 1, &RecordedRun::Traffic::calls));
    add(figures.collectives("collectives, time of all calls", "ms", 1e3, &RecordedRun::Traffic::total_s));
    add(figures.collectives("collectives, exposed", "ms", 1e3, &RecordedRun::Traffic::exposed_s));
    add(figures.memory());
    add(figures.casts("casts, saturated", "ppm", 1e6,
                      [](const RecordedRun::Casts& c) { return c.elements > 0 ? c.saturated / c.elements : 0; }));
    add(figures.casts("casts, flushed to 0", "ppm", 1e6,
                      [](const RecordedRun::Casts& c) { return c.elements > 0 ? c.flushed / c.elements : 0; }));
    add(figures.casts("casts, scale change", "", 1, [](const RecordedRun::Casts& c) { return c.scale_change; }));
  }
  if (!a.validation.empty()) result.last_validation_a = a.validation.rbegin()->second;
  if (!b.validation.empty()) result.last_validation_b = b.validation.rbegin()->second;
  if (result.last_validation_a && result.last_validation_b) {
    result.validation = compare_losses(a.validation, b.validation);
    if (result.validation->largest > limits.loss_limit())
      result.exceeded.push_back(fmt::format("validation loss: {:.3g} relative behind step {}",
                                            result.validation->largest, result.validation->largest_step));
  }
  if (!a.loss.empty() && !b.loss.empty()) {
    result.loss = compare_losses(a.loss, b.loss);
    if (result.loss->largest > limits.loss_limit())
      result.exceeded.push_back(
          fmt::format("loss: {:.3g} relative in step {}", result.loss->largest, result.loss->largest_step));
  }
  note_what_is_missing(result, a, b, steps_alike);
  return result;
}

}  // namespace shard8::profile
