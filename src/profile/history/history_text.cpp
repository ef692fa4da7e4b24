// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "base/utc.hpp"
#include "profile/history/history.hpp"

namespace shard8::profile {
namespace {

using Json = nlohmann::ordered_json;

std::string seconds(std::optional<double> s) { return s ? fmt::format("{:.3f}", *s) : "-"; }

/// To the second: the table is wide enough.
std::string when(std::optional<double> at) { return at ? base::utc_text(*at).substr(0, 19) + "Z" : "-"; }

std::string row_of(const LegHistory& leg) {
  return fmt::format("{:>4}  {:<20}  {:<20}  {:>9}  {:>7}  {:>5}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {}\n",
                     leg.number, when(leg.began), when(leg.ended), leg.first_step, leg.counted, leg.lost,
                     seconds(leg.gap_s), seconds(leg.start_up_s), fmt::format("{:.3f}", leg.counted_s),
                     seconds(leg.lost_s), seconds(leg.held_up_s), seconds(leg.other_s), leg.end);
}

struct Part {
  const char* key;
  const char* name;
  double seconds;
};

std::vector<Part> parts_of(const History& h) {
  std::vector<Part> parts = {{"counted_s", "steps that count", h.counted_s},
                             {"lost_s", "steps trained again", h.lost_s},
                             {"held_up_s", "held up by checkpoints", h.held_up_s},
                             {"start_up_s", "start-up and restart", h.start_up_s},
                             {"gaps_s", "between legs", h.gaps_s}};
  if (h.validation_s > 0) parts.push_back({"validation_s", "validations", h.validation_s});
  parts.push_back({"other_s", "other", h.other_s});
  return parts;
}

Json number(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }
Json instant(std::optional<double> at) { return at ? Json(base::utc_text(*at)) : Json(nullptr); }

Json json_of(const LegHistory& leg) {
  return {{"leg", leg.number},
          {"began", instant(leg.began)},
          {"ended", instant(leg.ended)},
          {"end", leg.end},
          {"first_step", leg.first_step},
          {"counted", leg.counted},
          {"lost", leg.lost},
          {"gap_s", number(leg.gap_s)},
          {"start_up_s", number(leg.start_up_s)},
          {"counted_s", leg.counted_s},
          {"lost_s", number(leg.lost_s)},
          {"held_up_s", number(leg.held_up_s)},
          {"validation_s", leg.validation_s},
          {"other_s", number(leg.other_s)},
          {"notes", leg.notes}};
}

}  // namespace

bool History::shares_are_known() const {
  constexpr double kSlack = 0.01;  // chosen: clocks that are adjusted run a little faster or slower
  const double off_s = kSlack * wall_s + rounding_s;
  const auto parts = parts_of(*this);
  return std::all_of(parts.begin(), parts.end(),
                     [&](const Part& part) { return part.seconds >= -off_s && part.seconds <= wall_s + off_s; });
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
  for (const Part& part : parts_of(h))
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
  Json object{{"schema", 1},
              {"folder", name},
              {"training", id},
              {"finished", h.finished},
              {"began", instant(h.began)},
              {"ended", instant(h.ended)},
              {"wall_s", h.wall_s}};
  for (const Part& part : parts_of(h)) object[part.key] = part.seconds;
  object["counted"] = h.counted;
  object["lost"] = h.lost;
  object["goodput"] = h.wall_s > 0 && h.shares_are_known() ? Json(h.goodput()) : Json(nullptr);
  object["legs"] = Json::array();
  for (const LegHistory& leg : h.legs) object["legs"].push_back(json_of(leg));
  object["notes"] = h.notes;
  return object.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shard8::profile
