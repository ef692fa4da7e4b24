// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/run_output.hpp"

#include <optional>

#include "app/commands.hpp"
#include "app/run_trace.hpp"
#include "comm/agree.hpp"
#include "io/durable_file.hpp"
#include "profile/output_file.hpp"
#include "tensor/exec.hpp"

namespace shard8::app {

namespace fs = std::filesystem;

void RunOutput::check(bool overlap_is_kept) const {
  comm::agree_on_root(world_, 0, [&] {
    const std::string ranks = deck::OutputConfig::kRanks;
    for (const auto& name : {config_.metrics, config_.timing, config_.summary, ranks})
      profile::require_writable(path(name));
    if (overlap_is_kept) profile::require_writable(io::temporary_of(path(deck::OutputConfig::kOverlap)));
    if (tensor::kDevice) profile::require_writable(io::temporary_of(path(deck::OutputConfig::kAlgorithms)));
  });
  if (config_.trace.empty()) return;
  const fs::path trace = trace_file(config_, world_.rank());
  std::optional<profile::FoldersForCheck> folders;  // no rank removes the folder while others write to it
  comm::agree(world_, [&] { folders.emplace(trace); });
  comm::agree(world_, [&] { profile::require_writable(trace); });
}

void RunOutput::start(std::int64_t first_step) {
  comm::agree_on_root(world_, 0, [&] {
    require_standard_output();
    const std::string ranks = deck::OutputConfig::kRanks;
    for (const auto& name : {config_.timing, config_.summary, ranks}) profile::remove_output(path(name));
    const fs::path file = path(config_.metrics);
    auto existing = profile::OutputFile::Existing::replaced;
    if (first_step > 0) {
      existing = profile::OutputFile::Existing::continued;
      if (fs::is_regular_file(file))  // the file itself, where `file` is a link
        io::write_durably(fs::canonical(file).string(),
                          profile::metrics_before(io::text_of(file.string()), first_step));
    }
    metrics_ = std::make_unique<profile::MetricsFile>(file, existing);
  });
  if (config_.trace.empty()) return;
  comm::agree(world_, [&] { profile::remove_output(trace_file(config_, world_.rank())); });
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
    profile::write_summary(path(config_.summary), report, summary);
  });
}

}  // namespace shard8::app
