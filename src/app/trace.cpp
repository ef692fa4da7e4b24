// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "app/commands.hpp"
#include "base/error.hpp"
#include "io/durable_file.hpp"
#include "profile/output_file.hpp"
#include "trace/chakra.hpp"
#include "trace/kineto.hpp"
#include "trace/overlap.hpp"
#include "trace/rank_trace.hpp"
#include "trace/timeline.hpp"

namespace shard8::app {
namespace {

namespace fs = std::filesystem;

/// Writes a file as a whole: what is at `path` stays if this fails. A device is written to. `option` names the file.
void write(const fs::path& path, const std::string& text, const std::string& option) {
  const std::string remedy = fmt::format("give {}", option);
  std::error_code ignored;
  const bool special = fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  const fs::path file = fs::is_symlink(path, ignored) && !special ? fs::weakly_canonical(path) : path;
  const fs::path whole = special ? path : fs::path(io::temporary_of(file.string()));
  try {
    profile::OutputFile out(whole, profile::OutputFile::Existing::replaced, remedy);
    out.write(text);
    out.close();
    if (!special) fs::rename(whole, file);
  } catch (const fs::filesystem_error& e) {
    fs::remove(whole, ignored);
    base::fail(base::ExitCode::environment, "cannot write '{}': {}; {} a folder that can be written to and has room",
               path.string(), e.code().message(), remedy);
  } catch (const base::Error&) {
    if (!special) fs::remove(whole, ignored);
    throw;
  }
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
