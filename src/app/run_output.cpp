// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/run_output.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "app/commands.hpp"
#include "app/run_trace.hpp"
#include "comm/agree.hpp"
#include "io/durable_file.hpp"
#include "profile/output_file.hpp"
#include "tensor/exec.hpp"

namespace shard8::app {

namespace fs = std::filesystem;

namespace {

/// The files that rank 0 writes at the end.
std::vector<std::string> files_of_the_end(const deck::OutputConfig& config) {
  std::vector<std::string> names = {config.timing, config.summary, deck::OutputConfig::kRanks};
  if (!config.timing_ranks.empty()) names.push_back(config.timing_ranks);
  return names;
}

}  // namespace

void RunOutput::check(bool overlap_is_kept) const {
  comm::agree_on_root(world_, 0, [&] {
    profile::require_writable(path(config_.metrics));
    for (const std::string& name : files_of_the_end(config_)) profile::require_writable(path(name));
    if (overlap_is_kept) profile::require_writable(io::temporary_of(path(deck::OutputConfig::kOverlap)));
    if (tensor::kDevice) profile::require_writable(io::temporary_of(path(deck::OutputConfig::kAlgorithms)));
  });
  if (config_.trace.empty()) return;
  const fs::path trace = trace_file(config_, world_.rank());
  std::optional<profile::FoldersForCheck> folders;  // no rank removes the folder while others write to it
  comm::agree(world_, [&] { folders.emplace(trace); });
  comm::agree(world_, [&] { profile::require_writable(trace); });
}

std::string RunOutput::start(std::int64_t first_step, std::string_view run) {
  std::string warning;
  comm::agree_on_root(world_, 0, [&] {
    require_standard_output();
    for (const std::string& name : files_of_the_end(config_)) profile::remove_output(path(name));
    const fs::path file = path(config_.metrics);
    auto existing = profile::OutputFile::Existing::replaced;
    if (first_step > 0) {
      existing = profile::OutputFile::Existing::continued;
      if (fs::is_regular_file(file)) {
        const auto kept = profile::metrics_before(io::text_of(file.string()), first_step, run);
        io::write_durably(fs::canonical(file).string(), kept.text);  // the file itself, where `file` is a link
        if (const std::string text = kept.warning(); !text.empty())
          warning = fmt::format("{}: {}", file.string(), text);
      }
    }
    metrics_ = std::make_unique<profile::MetricsFile>(file, existing);
  });
  if (!config_.trace.empty()) comm::agree(world_, [&] { profile::remove_output(trace_file(config_, world_.rank())); });
  return warning;
}

void RunOutput::keep_overlap(const std::string& plan) const {
  if (plan.empty()) return;
  comm::agree_on_root(world_, 0, [&] {
    const std::string file = path(deck::OutputConfig::kOverlap).string();
    if (io::text_of(file) != plan) io::write_durably(file, plan);
  });
}

void RunOutput::write(const profile::Report& report, const profile::SummaryInput& summary) {
  comm::agree_on_root(world_, 0, [&] {
    if (const auto metrics = std::move(metrics_)) metrics->close();
    profile::write_timing(path(config_.timing), report);
    profile::write_ranks(path(deck::OutputConfig::kRanks), report);
    if (!config_.timing_ranks.empty()) profile::write_timing_ranks(path(config_.timing_ranks), report);
    profile::write_summary(path(config_.summary), report, summary);
  });
}

}  // namespace shard8::app
