// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// The command that adds up the legs of a training.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>

#include "app/commands.hpp"
#include "base/error.hpp"
#include "base/plain_file.hpp"
#include "base/utc.hpp"
#include "io/file.hpp"
#include "profile/history/history.hpp"
#include "profile/metrics.hpp"
#include "profile/report_files.hpp"
#include "train/training_file.hpp"

namespace shard8::app {
namespace {

namespace fs = std::filesystem;

/// What output.KEY is called in the training's deck.
std::string name_in(const train::TrainingFile& training, const std::string& key, const std::string& otherwise) {
  for (const checkpoint::ManifestKey& known : training.deck)
    if (known.key == key && !known.value.empty()) return known.value;
  return otherwise;
}

/// The summaries of a training's legs in the folder, by leg.
std::map<std::int64_t, profile::LegSummary> summaries_of(const fs::path& folder, const std::string& name,
                                                         const std::string& training) {
  std::map<std::int64_t, profile::LegSummary> found;
  std::error_code error;
  const auto names = base::names_in(folder, error);
  if (error)
    base::fail(base::ExitCode::deck, "{}: error: it cannot be listed: {}; give a folder that can be read",
               folder.string(), error.message());
  for (const std::string& file : names) {
    const fs::path path = folder / file;
    if (file != name && !profile::leg_of_name(file, name)) continue;
    const auto summary = profile::read_leg_summary(io::text_of(path.string()), path.string());
    if (summary.training == training) found.emplace(summary.leg, summary);
  }
  return found;
}

profile::LegRecord record_of(const train::Leg& leg) {
  profile::LegRecord record;
  record.first_step = leg.first_step;
  record.trained_again = leg.trained_again;
  record.next_step = leg.next_step;
  record.end = leg.end;
  record.process_began = base::unix_of(leg.process_began);
  record.trains_from = base::unix_of(leg.date);
  record.ended = base::unix_of(leg.ended);
  record.last_seen = base::unix_of(leg.last_seen);
  record.start_up_s = leg.start_up_s;
  record.lost_s = leg.lost_s;
  return record;
}

/// Versions before 0.3 wrote when a leg began to train, for how long its process had lived when it made its report, and
/// the date of the report.
void fill_in(profile::LegRecord& record, std::optional<double> report, std::optional<double> seconds) {
  if (record.process_began || !record.trains_from || !seconds) return;
  record.ended = report.value_or(*record.trains_from + *seconds);  // without a report, as if start-up took no time
  record.process_began = std::min(*record.ended - *seconds, *record.trains_from);
  record.start_up_s = *record.trains_from - *record.process_began;
  record.to_the_second = true;
}

/// Whether a skeleton run wrote to the folder, under the usual name.
bool is_skeleton_folder(const fs::path& folder) {
  const fs::path summary = folder / "summary.json";
  std::error_code ignored;
  return fs::is_regular_file(summary, ignored) && !profile::skeleton_of_summary(io::text_of(summary.string())).empty();
}

/// Error(deck) for a folder in which no training has written.
[[noreturn]] void refuse(const fs::path& folder) {
  if (!base::kind_of_file(folder).is_there())
    base::fail(base::ExitCode::deck, "{}: error: it does not exist: give the output.dir of a run that trained",
               folder.string());
  if (is_skeleton_folder(folder))
    base::fail(base::ExitCode::deck,
               "{}: error: it is the output.dir of a skeleton run, which trains nothing: give the output.dir of a run "
               "that trained",
               folder.string());
  base::fail(base::ExitCode::deck,
             "{}: error: there is no {} in it: give the output.dir of a run that trained (shard8 check --files says "
             "which folder that is)",
             folder.string(), train::TrainingFile::kName);
}

}  // namespace

int history_command(const HistoryArguments& arguments) {
  const fs::path folder = arguments.folder;
  const auto training = train::read_training_file(folder.string());
  if (!training) refuse(folder);
  const std::string metrics = (folder / name_in(*training, "output.metrics", "metrics.jsonl")).string();
  const auto summaries =
      summaries_of(folder, name_in(*training, "output.summary", "summary.json"), training->identity.id);

  std::vector<profile::LegRecord> legs;
  for (const train::Leg& leg : training->legs) {
    legs.push_back(record_of(leg));
    const auto summary = summaries.find(static_cast<std::int64_t>(legs.size()));
    const bool found = summary != summaries.end();
    legs.back().has_summary = found;
    if (found) legs.back().times = summary->second.times;
    fill_in(legs.back(), found ? summary->second.date : std::nullopt, leg.seconds);
  }
  std::map<std::int64_t, double> steps;
  std::error_code ignored;
  if (fs::is_regular_file(metrics, ignored))
    io::read_stream(metrics, [&](std::istream& in) {
      profile::metrics_before(in, std::numeric_limits<std::int64_t>::max(), training->identity.id,
                              std::numeric_limits<std::int64_t>::max(),
                              [&](const profile::RecordedStep& step) { steps[step.step] = step.step_s; });
    });
  if (!legs.empty() && legs.back().end.empty()) {
    const auto written = base::last_write(metrics);
    if (written && *written + base::kTick_s >= legs.back().trains_from.value_or(*written))
      legs.back().last_seen = written;
  }
  const profile::History history = profile::add_up(legs, steps, training->finished);
  const std::string& id = training->identity.id;
  fmt::print("{}", arguments.json ? profile::to_json(history, folder.string(), id) + "\n"
                                  : profile::to_text(history, folder.string(), id));
  return base::to_int(base::ExitCode::ok);
}

}  // namespace shard8::app
