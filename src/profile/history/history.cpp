// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/history/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"

namespace shard8::profile {
namespace {

/// The first step of which no line is known to be this leg's.
std::int64_t end_of(const std::vector<LegRecord>& legs, std::size_t at, const std::map<std::int64_t, double>& steps) {
  const LegRecord& leg = legs[at];
  if (leg.next_step) return std::max(*leg.next_step, leg.first_step);
  std::int64_t end = leg.first_step;
  if (at + 1 < legs.size())
    end = legs[at + 1].first_step + legs[at + 1].trained_again;  // the next leg found the lines of these steps
  else if (!steps.empty())
    end = steps.rbegin()->first + 1;
  return std::max(end, leg.first_step);
}

/// When a leg began and ended, and how its end is called.
void set_span(LegHistory& leg, const LegRecord& record, bool last) {
  leg.began = record.process_began ? record.process_began : record.trains_from;
  if (!record.trains_from) {
    leg.end = "not known";
    leg.notes.emplace_back("its files are in another folder, or a version without a record of legs wrote them");
    return;
  }
  if (record.to_the_second)
    leg.notes.emplace_back("begin, end and start-up are known to the second (before 0.3)");
  else if (!record.process_began)
    leg.notes.emplace_back("begin of the process not recorded (before 0.3): its start-up is in the gap before it");
  leg.ended = record.times ? std::max(record.times->ended, record.ended.value_or(0)) : record.ended;
  leg.end = record.end;
  if (!record.end.empty()) return;
  leg.ended = record.last_seen;
  leg.end = last ? "killed or failed, or runs" : "killed or failed";
  if (last)
    leg.notes.emplace_back(
        "a leg that goes on trains the steps behind its last checkpoint again; until one does, they count");
  leg.notes.emplace_back(record.last_seen
                             ? "no end is recorded: reconstructed from metrics.jsonl, up to its last written step"
                             : "no end and no step is recorded: ends where it began to train");
  leg.ended = std::max(leg.ended.value_or(*record.trains_from), *record.trains_from);
}

/// Where the time of a leg went.
void set_times(LegHistory& leg, const LegRecord& record, const std::map<std::int64_t, double>& steps,
               std::int64_t end_counted) {
  std::int64_t found = 0;
  for (auto at = steps.lower_bound(leg.first_step); at != steps.end() && at->first < end_counted; ++at, ++found)
    leg.counted_s += at->second;
  if (found < leg.counted)
    leg.notes.push_back(fmt::format("{} no line in metrics.jsonl: their time is in other",
                                    base::count(leg.counted - found, "step has", "steps have")));
  leg.start_up_s = record.times ? std::optional(record.times->start_up_s) : record.start_up_s;
  leg.lost_s = leg.lost == 0 ? std::optional(0.0) : record.lost_s;
  if (leg.lost > 0 && !leg.lost_s)
    leg.notes.push_back(fmt::format("time of {} not recorded (before 0.3): it is in other",
                                    base::count(leg.lost, "step that was lost", "steps that were lost")));
  if (record.times) {
    // The summary has one sum for all steps of the leg: how much of it was in those that were lost is not known.
    const double in_steps_s = leg.lost == 0 ? record.times->held_up_s : 0;
    if (leg.lost > 0 && record.times->held_up_s > 0)
      leg.notes.push_back(
          fmt::format("checkpoints held its steps up for {:.3f} s, which is in counted and lost, since {} lost",
                      record.times->held_up_s, base::count(leg.lost, "step was", "steps were")));
    leg.held_up_s = in_steps_s + record.times->after_last_s;
    leg.validation_s = record.times->validation_s;
    leg.counted_s -= std::min(in_steps_s, leg.counted_s);
  } else if (record.has_summary) {
    leg.notes.emplace_back("hold-up of checkpoints not recorded (before 0.3): it is in its steps");
  } else if (record.trains_from) {
    leg.notes.emplace_back("no summary: hold-up of checkpoints is in its steps");
  }
  if (leg.began && leg.ended)
    leg.other_s = *leg.ended - *leg.began - leg.start_up_s.value_or(0) - leg.counted_s - leg.lost_s.value_or(0) -
                  leg.held_up_s.value_or(0) - leg.validation_s;
}

/// How much the begin and the end of a leg may be off together, in seconds.
double rounding_of(const LegRecord& record) { return record.to_the_second ? 2.0 : 2 * base::kTick_s; }

}  // namespace

History add_up(const std::vector<LegRecord>& records, const std::map<std::int64_t, double>& steps, bool finished) {
  History all{};
  all.finished = finished;
  std::int64_t outside = 0;  // steps of legs whose times are not known
  // The first steps of later legs: below the least of them nothing was trained again.
  std::vector<std::int64_t> later(records.size() + 1, std::numeric_limits<std::int64_t>::max());
  for (std::size_t i = records.size(); i-- > 0;) later[i] = std::min(later[i + 1], records[i].first_step);
  std::optional<double> before;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const LegRecord& record = records[i];
    LegHistory leg;
    leg.number = static_cast<std::int64_t>(i) + 1;
    leg.first_step = record.first_step;
    const std::int64_t end = end_of(records, i, steps);
    const std::int64_t end_counted = std::max(record.first_step, std::min(end, later[i + 1]));
    leg.counted = end_counted - record.first_step;
    leg.lost = end - end_counted;
    set_span(leg, record, i + 1 == records.size());
    set_times(leg, record, steps, end_counted);
    if (before && leg.began) leg.gap_s = *leg.began - *before;
    if (leg.gap_s && *leg.gap_s < -1)
      leg.notes.push_back(fmt::format(
          "begins {:.1f} s before the end of the leg before: the clocks of their hosts differ", -*leg.gap_s));
    if (leg.began && !all.began) all.began = leg.began;
    if (leg.ended) before = all.ended = leg.ended;
    all.counted += leg.counted;
    all.lost += leg.lost;
    if (leg.began && leg.ended) {
      all.rounding_s += rounding_of(record);
      all.counted_s += leg.counted_s;
      all.lost_s += leg.lost_s.value_or(0);
      all.held_up_s += leg.held_up_s.value_or(0);
      all.start_up_s += leg.start_up_s.value_or(0);
      all.gaps_s += leg.gap_s.value_or(0);
      all.validation_s += leg.validation_s;
      all.other_s += leg.other_s.value_or(0);
    } else {
      outside += leg.counted;
    }
    all.legs.push_back(std::move(leg));
  }
  if (outside > 0)
    all.notes.push_back(fmt::format("{} not in the wall-clock, since the times of their legs are not known",
                                    base::count(outside, "step is", "steps are")));
  if (all.began && all.ended) all.wall_s = *all.ended - *all.began;
  return all;
}

namespace {

std::optional<LegTimes> times_of(const nlohmann::json& times) {
  const auto began = base::unix_of(times.at("began").get<std::string>());
  const auto ended = base::unix_of(times.at("ended").get<std::string>());
  if (!began || !ended) return std::nullopt;
  const auto number = [&](const char* key) { return times.at(key).get<double>(); };
  return LegTimes{.began = *began,
                  .ended = *ended,
                  .start_up_s = number("start_up_s"),
                  .steps_s = number("steps_s"),
                  .held_up_s = number("held_up_s"),
                  .validation_s = times.value("validation_s", 0.0),  // 0.2 has none
                  .after_last_s = number("after_last_s")};
}

}  // namespace

LegSummary read_leg_summary(const std::string& text, const std::string& name) {
  using Json = nlohmann::json;
  try {
    const Json summary = Json::parse(text);
    LegSummary read;
    bool whole = summary.at("schema").is_number_unsigned();
    if (summary.contains("training")) {
      read.training = summary.at("training").at("id").get<std::string>();
      read.leg = summary.at("training").at("leg").get<std::int64_t>();
    }
    if (summary.contains("date")) read.date = base::unix_of(summary.at("date").get<std::string>());
    if (summary.contains("leg_times")) {
      read.times = times_of(summary.at("leg_times"));
      whole = whole && read.times;
    }
    if (whole) return read;
  } catch (const Json::exception&) {  // said below
  }
  base::fail(base::ExitCode::deck,
             "{}: error: is not a whole summary of a run: move the file elsewhere to add up the leg without it", name);
}

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string seconds(std::optional<double> s) { return s ? fmt::format("{:.3f}", *s) : "-"; }

/// The time in UTC to the second, "-" for none. The table is wide enough.
std::string when(std::optional<double> at) { return at ? base::utc_text(*at).substr(0, 19) + "Z" : "-"; }

std::string row_of(const LegHistory& leg) {
  return fmt::format("{:>4}  {:<20}  {:<20}  {:>9}  {:>7}  {:>5}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {}\n",
                     leg.number, when(leg.began), when(leg.ended), leg.first_step, leg.counted, leg.lost,
                     seconds(leg.gap_s), seconds(leg.start_up_s), fmt::format("{:.3f}", leg.counted_s),
                     seconds(leg.lost_s), seconds(leg.held_up_s), seconds(leg.other_s), leg.end);
}

struct Share {
  const char* key;
  const char* name;
  double seconds;
};

std::vector<Share> parts_of(const History& h) {
  std::vector<Share> parts = {{"counted_s", "steps that count", h.counted_s},
                              {"lost_s", "steps trained again", h.lost_s},
                              {"held_up_s", "held up by checkpoints", h.held_up_s},
                              {"start_up_s", "start-up and restart", h.start_up_s},
                              {"gaps_s", "between legs", h.gaps_s}};
  if (h.validation_s > 0) parts.push_back({"validation_s", "validations", h.validation_s});
  parts.push_back({"other_s", "other", h.other_s});
  return parts;
}

OrderedJson json_or_null(std::optional<double> value) { return value ? OrderedJson(*value) : OrderedJson(nullptr); }
OrderedJson instant(std::optional<double> at) { return at ? OrderedJson(base::utc_text(*at)) : OrderedJson(nullptr); }

OrderedJson json_of(const LegHistory& leg) {
  return {{"leg", leg.number},
          {"began", instant(leg.began)},
          {"ended", instant(leg.ended)},
          {"end", leg.end},
          {"first_step", leg.first_step},
          {"counted", leg.counted},
          {"lost", leg.lost},
          {"gap_s", json_or_null(leg.gap_s)},
          {"start_up_s", json_or_null(leg.start_up_s)},
          {"counted_s", leg.counted_s},
          {"lost_s", json_or_null(leg.lost_s)},
          {"held_up_s", json_or_null(leg.held_up_s)},
          {"validation_s", leg.validation_s},
          {"other_s", json_or_null(leg.other_s)},
          {"notes", leg.notes}};
}

}  // namespace

bool History::shares_are_known() const {
  constexpr double kSlack = 0.01;  // chosen: clocks that are adjusted run a little faster or slower
  const double off_s = kSlack * wall_s + rounding_s;
  const auto parts = parts_of(*this);
  return std::all_of(parts.begin(), parts.end(),
                     [&](const Share& part) { return part.seconds >= -off_s && part.seconds <= wall_s + off_s; });
}

std::string to_text(const History& h, const std::string& name, const std::string& id) {
  std::string text = fmt::format("history    {}, training {}, {}, {}\n\n", name, id,
                                 base::count(static_cast<std::int64_t>(h.legs.size()), "leg", "legs"),
                                 h.finished ? "finished" : "not finished");
  text +=
      fmt::format("{:>4}  {:<20}  {:<20}  {:>9}  {:>7}  {:>5}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {}\n",
                  "leg", "began", "ended", "from step", "counted", "lost", "gap s", "start-up s", "counted s", "lost s",
                  "held up s", "other s", "end");
  for (const LegHistory& leg : h.legs) text += row_of(leg);
  text += '\n';
  for (const LegHistory& leg : h.legs)
    for (const std::string& note : leg.notes) text += fmt::format("leg {}: {}\n", leg.number, note);
  for (const std::string& note : h.notes) text += fmt::format("note: {}\n", note);
  if (h.wall_s <= 0) return text + "wall-clock: not known, so there is no goodput\n";
  text += fmt::format("{:<24}  {:>12}  {:>8}\n", "wall-clock", "s", "share %");
  const bool known = h.shares_are_known();
  for (const Share& part : parts_of(h))
    text += fmt::format("  {:<22}  {:>12.3f}  {:>8}\n", part.name, part.seconds,
                        known ? fmt::format("{:.2f}", 100 * part.seconds / h.wall_s) : "unknown");
  if (!known)
    return text + fmt::format(
                      "  {:<22}  {:>12.3f}  {:>8}\n\ngoodput: unknown, since clocks went back between the "
                      "times of these legs: {} that count, {} lost\n",
                      "all", h.wall_s, "unknown", base::count(h.counted, "step", "steps"), h.lost);
  return text + fmt::format("  {:<22}  {:>12.3f}  {:>8.2f}\n\ngoodput: {:.2f} % of {:.3f} s: {} that count, {} lost\n",
                            "all", h.wall_s, 100.0, 100 * h.goodput(), h.wall_s,
                            base::count(h.counted, "step", "steps"), h.lost);
}

std::string to_json(const History& h, const std::string& name, const std::string& id) {
  OrderedJson object{{"schema", 1},
                     {"folder", name},
                     {"training", id},
                     {"finished", h.finished},
                     {"began", instant(h.began)},
                     {"ended", instant(h.ended)},
                     {"wall_s", h.wall_s}};
  for (const Share& part : parts_of(h)) object[part.key] = part.seconds;
  object["counted"] = h.counted;
  object["lost"] = h.lost;
  object["goodput"] = h.wall_s > 0 && h.shares_are_known() ? OrderedJson(h.goodput()) : OrderedJson(nullptr);
  object["legs"] = OrderedJson::array();
  for (const LegHistory& leg : h.legs) object["legs"].push_back(json_of(leg));
  object["notes"] = h.notes;
  return object.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace shard8::profile
