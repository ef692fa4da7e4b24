// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "app/commands.hpp"
#include "base/error.hpp"
#include "profile/output_file.hpp"
#include "trace/outputs.hpp"
#include "trace/rank_trace.hpp"

namespace shard8::app {
namespace {

namespace fs = std::filesystem;

/// Writes a file and says its name. `option` names the file.
void write(const fs::path& path, const std::string& text, const std::string& option) {
  profile::write_output(path, text, fmt::format("give {}", option));
  fmt::print("{}\n", path.string());
}

trace::TimelineChoice choice_of(const TraceArguments& arguments, const trace::RunTrace& run) {
  if (arguments.rank >= static_cast<int>(run.ranks.size()))
    base::fail(base::ExitCode::deck, "--rank {}: the trace has ranks 0 to {}", arguments.rank, run.ranks.size() - 1);
  return {.layer = arguments.layer, .step = arguments.step};
}

}  // namespace

int trace_command(const TraceArguments& arguments) {
  const trace::RunTrace run = trace::read_run(arguments.folder, arguments.name);
  const bool merge =
      !arguments.output.empty() || (arguments.ranks.empty() && arguments.chakra.empty() && arguments.timeline.empty());
  if (merge)
    write(arguments.output.empty() ? fs::path(arguments.folder) / run.name : fs::path(arguments.output),
          trace::kineto_of_all(run.ranks), "--output a file in");
  if (!arguments.ranks.empty())
    for (const trace::RankTrace& rank : run.ranks)
      write(fs::path(arguments.ranks) / fmt::format("rank{:04}.json", rank.rank), trace::kineto_of(rank), "--ranks");
  if (!arguments.chakra.empty()) {
    const fs::path folder = arguments.chakra;
    for (const trace::RankTrace& rank : run.ranks)
      write(folder / fmt::format("chakra.{}.et", rank.rank), trace::chakra_of(rank), "--chakra");
    write(folder / "groups.json", trace::chakra_groups(run.ranks.front()), "--chakra");
  }
  if (!arguments.timeline.empty()) {
    const trace::TimelineChoice choice = choice_of(arguments, run);
    write(arguments.timeline, trace::timeline(run.ranks[static_cast<std::size_t>(arguments.rank)], choice),
          "--timeline a file in");
  }
  fmt::print("\n{}", trace::overlap_text(run.ranks));
  return base::to_int(base::ExitCode::ok);
}

}  // namespace shard8::app
