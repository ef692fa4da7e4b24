// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/compare/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/plain_file.hpp"
#include "base/text.hpp"
#include "profile/compare/shipped_envelope.hpp"
#include "profile/measurement.hpp"

namespace shard8::profile {
namespace {

using Json = nlohmann::ordered_json;
using base::json_member;
using base::json_value;
using Place = EnvelopeVerdict::Place;

constexpr int kSchema = 1;

/// Norms by unit that an envelope bounds.
struct UnitFigure {
  const char* metric;  ///< in metrics.jsonl
  const char* bound;   ///< in an envelope
  const char* name;    ///< before the unit's
  const char* what;    ///< in notes
  RecordedRun::UnitNorms RecordedRun::*norms;
  std::vector<double> Envelope::Bounds::*bounds;
};
constexpr std::array<UnitFigure, 2> kUnitFigures = {
    {{"unit_norms", "unit_norm", "grad_norm of ", "norms of single layers", &RecordedRun::unit_norms,
      &Envelope::Bounds::unit_norm},
     {"weight_norms", "weight_norm", "weights of ", "norms of weights in FP8", &RecordedRun::weight_norms,
      &Envelope::Bounds::weight_norm}}};

template <class... Args>
[[noreturn]] void refuse(const std::string& where, fmt::format_string<Args...> format, Args&&... args) {
  base::fail(base::ExitCode::deck, "{}: error: {}", where, fmt::format(format, std::forward<Args>(args)...));
}

std::vector<double> bounds_of(const Json& figure, const std::string& name, const std::string& what) {
  std::vector<double> bounds = base::json_value<std::vector<double>>(figure, "bound");
  double before = 0;
  for (std::size_t s = 0; s < bounds.size(); ++s) {
    if (!(std::isfinite(bounds[s]) && bounds[s] > 0 && bounds[s] >= before))
      refuse(name, "{}: the bound of step {} is {}; bounds are positive and never fall: measure the envelope again",
             what, s, bounds[s]);
    before = bounds[s];
  }
  if (bounds.empty()) refuse(name, "{} has no bounds: measure the envelope again", what);
  return bounds;
}

Envelope parse_envelope(std::string_view text, const std::string& name) {
  Envelope envelope{.name = name, .origin = {}};
  Json file;
  try {
    file = base::parse_json<Json>(text);
  } catch (const base::JsonProblem& e) {
    refuse(name, "is no envelope ({}); give a file that envelope.pairs --write has written, or leave the file out",
           e.what());
  }
  if (!file.is_object() || !file.contains("roundings"))
    refuse(name, "is no envelope; give a file that envelope.pairs --write has written, or leave the file out");
  const auto read = [&] {
    if (const Json& schema = json_member(file, "schema"); schema != kSchema)
      refuse(name, "has schema version {}, this program reads {}: use the program that wrote it",
             base::shown_json(schema), kSchema);
    envelope.origin = fmt::format("{}, {}", json_value<std::string>(file, "commit").substr(0, 12),
                                  json_value<std::string>(file, "date"));
    for (const auto& [rounding, of] : base::json_object(json_member(file, "roundings")).items()) {
      Envelope::Bounds& bounds = envelope.roundings[rounding];
      bounds.pairs = json_value<std::int64_t>(of, "pairs");
      bounds.loss = bounds_of(json_member(of, "loss"), name, rounding + " loss");
      bounds.grad_norm = bounds_of(json_member(of, "grad_norm"), name, rounding + " grad_norm");
      for (const UnitFigure& figure : kUnitFigures)
        if (of.contains(figure.bound))
          bounds.*figure.bounds =
              bounds_of(json_member(of, figure.bound), name, fmt::format("{} {}", rounding, figure.bound));
      const auto same = [&](const char* figure, std::size_t count) {
        if (count != bounds.loss.size())
          refuse(name, "{}: {} bounds of loss, {} of {}: measure the envelope again", rounding, bounds.loss.size(),
                 count, figure);
      };
      same("grad_norm", bounds.grad_norm.size());
      for (const UnitFigure& figure : kUnitFigures)
        if (const auto& of_units = bounds.*figure.bounds; !of_units.empty()) same(figure.bound, of_units.size());
    }
  };
  try {
    base::in_json(file, read);
  } catch (const base::JsonProblem& e) {
    refuse(name, "is no envelope ({}); give a file that envelope.pairs --write has written, or leave the file out",
           e.what());
  }
  return envelope;
}

std::string rounding_of(const RecordedRun& run) {
  std::array<std::string, 3> values;
  constexpr std::array<const char*, 3> kKeys = {"fp8.recipe", "precision.compute", "precision.reduce"};
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    const std::string* value = value_of(run.deck, kKeys[i]);
    if (value == nullptr) refuse(run.name, "its deck has no key {}: run it again with this program", kKeys[i]);
    values[i] = *value;
  }
  return profile::rounding_of(values[0], values[1], values[2]);
}

/// The number of steps from 0 on; refuses a run that lacks one.
std::int64_t steps_of(const RecordedRun& run) {
  if (run.projected || !run.skeleton.empty())
    refuse(run.name, "{}: it has no losses; give the output folder of a training",
           run.projected ? "it was projected" : "it is a skeleton of the " + run.skeleton);
  if (!run.has_summary)
    refuse(run.name, "has no summary.json, so nothing says of which deck it is; give the output folder of a run");
  if (run.loss.empty()) refuse(run.name, "has no metrics.jsonl; give the output folder of a training");
  std::int64_t next = 0;
  for (const auto& [step, loss] : run.loss) {
    if (step != next)
      refuse(run.name,
             "step {} is missing in its metrics, the next one is {}: an envelope is of trainings from step 0 "
             "on; run it again from the start",
             next, step);
    ++next;
  }
  return next;
}

/// Refuses runs that are not one training; returns what was taken for granted.
std::vector<std::string> check_decks(const RecordedRun& a, const RecordedRun& b,
                                     const std::function<bool(const std::string& key)>& may_differ) {
  // Compared by content or by another key.
  constexpr std::array<std::string_view, 3> kElsewhere = {"data.path", "model.init_file", "data.batch_per_rank"};
  std::vector<std::string> notes;
  for (const auto& [key, of_a] : a.deck) {
    const std::string* const of_b = value_of(b.deck, key);
    if (of_b == nullptr) notes.push_back(fmt::format("{} is in A's deck alone: taken for its default", key));
    if (of_b == nullptr || *of_b == of_a || may_differ(key)) continue;
    if (std::find(kElsewhere.begin(), kElsewhere.end(), key) == kElsewhere.end())
      refuse(b.name,
             "{} is {} in {}, here {}: these are two trainings, an envelope is for one; give runs that differ only in "
             "mesh, micro-batches, overlap, recomputation and what else a restart may change",
             key, base::quotable(of_a), a.name, base::quotable(*of_b));
    if (key != "data.batch_per_rank")
      notes.push_back(
          fmt::format("{} is {} and {}: taken for the same content", key, base::quotable(of_a), base::quotable(*of_b)));
  }
  for (const auto& [key, of_b] : b.deck)
    if (value_of(a.deck, key) == nullptr)
      notes.push_back(fmt::format("{} is in B's deck alone: taken for its default", key));
  return notes;
}

bool keeps_fp8_weights(const RecordedRun& run) {
  const std::string *recipe = value_of(run.deck, "fp8.recipe"), *weights = value_of(run.deck, "fp8.weights");
  return recipe != nullptr && *recipe != "none" && weights != nullptr && *weights == "fp8";
}

/// Whether both runs have these norms of the same units in all judged steps, and the envelope bounds for them.
/// Otherwise a note says what is missing, unless neither run should have any.
bool has_norms(const UnitFigure& figure, const RecordedRun& a, const RecordedRun& b, const Envelope::Bounds& bounds,
               std::int64_t judged, std::vector<std::string>& notes) {
  const auto note = [&](const std::string& what) {
    notes.push_back(fmt::format("{}: {} are not judged", what, figure.what));
    return false;
  };
  const auto &of_a = a.*figure.norms, &of_b = b.*figure.norms;
  const bool none = of_a.by_step.empty() && of_b.by_step.empty();
  if ((bounds.*figure.bounds).empty())
    return none ? false : note(fmt::format("the envelope has no bounds of {}", figure.bound));
  const bool of_weights = figure.norms == &RecordedRun::weight_norms;
  if (of_weights && none && !keeps_fp8_weights(a) && !keeps_fp8_weights(b)) return false;
  for (const RecordedRun* run : {&a, &b}) {
    const RecordedRun::UnitNorms& norms = run->*figure.norms;
    for (std::int64_t step = 0; step < std::min(judged, RecordedRun::kUnitNormSteps); ++step) {
      const auto found = norms.by_step.find(step);
      if (found == norms.by_step.end())
        return note(fmt::format("{} has no {} in step {}", run->name, figure.metric, step));
      if (found->second.size() != of_a.units.size())
        return note(fmt::format("{} has {} of {} {} in step {}", run->name, found->second.size(), of_a.units.size(),
                                figure.metric, step));
    }
  }
  return true;
}

/// Notes from which judged step on right runs differ by any amount.
void note_wide_bounds(const char* figure, const std::vector<double>& bounds, EnvelopeVerdict& v) {
  const auto wide = std::find_if(bounds.begin(), bounds.end(), [](double bound) { return bound >= 1; });
  if (wide - bounds.begin() < v.judged)
    v.notes.push_back(fmt::format("{}: right runs differ by any amount from step {} on, so it is not judged there",
                                  figure, wide - bounds.begin()));
}

std::string text_of(const Place& p) {
  return fmt::format("{} in step {}: A {:.9g}, B {:.9g}, relative difference {:.2e}, bound {:.2e}", p.figure, p.step,
                     p.a, p.b, p.difference, p.bound);
}

Json json_of(const std::optional<Place>& place) {
  if (!place) return nullptr;
  const auto finite = [](double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); };
  return {{"step", place->step},
          {"figure", place->figure},
          {"a", finite(place->a)},
          {"b", finite(place->b)},
          {"difference", finite(place->difference)},
          {"bound", place->bound}};
}

}  // namespace

std::string rounding_of(std::string_view recipe, std::string_view compute, std::string_view reduce) {
  if (recipe != "none") return std::string(recipe);
  if (compute == "fp32" && reduce == "bf16") return "fp32, reduce bf16";
  return std::string(compute);
}

double relative_difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
  return std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}

Envelope read_envelope(const std::filesystem::path& path) {
  const base::PlainText file = base::read_plain(path.string(), base::Pipes::read);
  if (!file.why.empty())
    refuse(path.string(),
           "cannot be read: {}; give the file of an envelope, or leave it out for the one of the program", file.why);
  return parse_envelope(file.text, path.string());
}

Envelope shipped_envelope() { return parse_envelope(kShippedEnvelope, "the envelope of this program"); }

EnvelopeVerdict judge_by_envelope(const RecordedRun& a, const RecordedRun& b, const Envelope& envelope,
                                  const std::function<bool(const std::string& key)>& may_differ) {
  EnvelopeVerdict v{.a = a.name, .b = b.name, .rounding = {}, .envelope = envelope.name, .origin = envelope.origin};
  const std::int64_t of_a = steps_of(a), of_b = steps_of(b), common = std::min(of_a, of_b);
  v.notes = check_decks(a, b, may_differ);
  v.rounding = rounding_of(a);
  const auto found = envelope.roundings.find(v.rounding);
  if (found == envelope.roundings.end())
    refuse(envelope.name, "has no bounds for trainings in {}; give the file of an envelope that has them", v.rounding);
  const Envelope::Bounds& bounds = found->second;
  v.pairs = bounds.pairs;
  v.judged = std::min(common, static_cast<std::int64_t>(bounds.loss.size()));
  v.not_judged = common - v.judged;
  if (of_a != of_b)
    v.notes.push_back(fmt::format("A has {}, B {}: steps of one alone are not judged",
                                  base::count(of_a, "step", "steps"), base::count(of_b, "step", "steps")));
  std::vector<UnitFigure> by_unit;
  for (const UnitFigure& figure : kUnitFigures)
    if (has_norms(figure, a, b, bounds, v.judged, v.notes)) by_unit.push_back(figure);
  note_wide_bounds("loss", bounds.loss, v);
  note_wide_bounds("grad_norm", bounds.grad_norm, v);
  for (const UnitFigure& figure : by_unit)
    note_wide_bounds(fmt::format("{}layers", figure.name).c_str(), bounds.*figure.bounds, v);
  for (std::int64_t step = 0; step < v.judged; ++step) {
    const auto place_of = [&](const std::string& figure, double in_a, double in_b, const std::vector<double>& most) {
      const Place place{
          step, figure, in_a, in_b, relative_difference(in_a, in_b), most[static_cast<std::size_t>(step)]};
      if (!std::isfinite(place.a) && !std::isfinite(place.b) && !v.outside)
        refuse(b.name,
               "{} of step {} is finite in neither run: both trainings diverged, and no envelope says which is "
               "right; train with a smaller learning rate",
               figure, step);
      return place;
    };
    const auto look = [&](const Place& place) {
      if (place.difference > 0) v.equal = false;
      if (place.difference > place.bound && !v.outside) v.outside = place;
      const bool wide = place.bound >= 1;
      if (place.difference > 0 && !wide && (!v.largest || place.share() > v.largest->share())) v.largest = place;
    };
    look(place_of("loss", a.loss.at(step), b.loss.at(step), bounds.loss));
    look(place_of("grad_norm", a.grad_norm.at(step), b.grad_norm.at(step), bounds.grad_norm));
    if (step >= RecordedRun::kUnitNormSteps) continue;
    for (const UnitFigure& figure : by_unit) {
      const auto &in_a = (a.*figure.norms).by_step.at(step), &in_b = (b.*figure.norms).by_step.at(step);
      std::optional<Place> most;
      for (std::size_t u = 0; u < in_a.size(); ++u) {
        const Place place = place_of(figure.name + (a.*figure.norms).units[u], in_a[u], in_b[u], bounds.*figure.bounds);
        if (!most || place.share() > most->share()) most = place;
      }
      if (!most) continue;
      look(*most);  // their bounds are the same: if one is outside, this one is
      const bool in_time = v.outside && v.outside->step == step;
      if (in_time && (!v.unit || most->share() > v.unit->share())) v.unit = most;
    }
  }
  return v;
}

std::string to_text(const EnvelopeVerdict& v) {
  std::string text = fmt::format("A: {}\nB: {}\n\n{}: {}, bounds of {} from {} ({})\n", v.a, v.b, "rounding",
                                 v.rounding, base::count(v.pairs, "pair", "pairs"), v.envelope, v.origin);
  text += fmt::format("judged: steps 0 to {}\n", v.judged - 1);
  if (v.not_judged > 0)
    text += fmt::format("not judged: {} after them, where right runs drift apart\n",
                        base::count(v.not_judged, "step", "steps"));
  for (const std::string& note : v.notes) text += fmt::format("note: {}\n", note);
  if (v.outside) {
    text += fmt::format("OUTSIDE: {}\n", text_of(*v.outside));
    if (v.unit && v.unit->figure != v.outside->figure)
      text += fmt::format("of its layers most: {}\n", text_of(*v.unit));
    return text;
  }
  if (v.equal) return text + "inside: equal bit for bit\n";
  if (!v.largest) return text + "inside: equal where bounds are below 1\n";
  return text +
         fmt::format("inside: at most {:.2g} % of the bound: {}\n", 100 * v.largest->share(), text_of(*v.largest));
}

std::string to_json(std::span<const EnvelopeVerdict> verdicts) {
  Json object{{"schema", 1}};
  object["inside"] =
      std::none_of(verdicts.begin(), verdicts.end(), [](const EnvelopeVerdict& v) { return v.outside.has_value(); });
  object["comparisons"] = Json::array();
  for (const EnvelopeVerdict& v : verdicts) {
    Json one{{"a", v.a}, {"b", v.b}, {"rounding", v.rounding}, {"envelope", v.envelope}, {"origin", v.origin}};
    one["pairs"] = v.pairs;
    one["judged_steps"] = v.judged;
    one["not_judged_steps"] = v.not_judged;
    one["inside"] = !v.outside.has_value();
    one["first_outside"] = json_of(v.outside);
    one["unit_outside"] = json_of(v.unit);
    one["largest_share"] = json_of(v.largest);
    one["notes"] = v.notes;
    object["comparisons"].push_back(std::move(one));
  }
  return object.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shard8::profile
