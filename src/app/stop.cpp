// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/stop.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <system_error>

#include "app/refusals.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "comm/agree.hpp"

namespace shard8::app {

using base::ExitCode;

namespace {

/// Starts a process that holds this process's standard error, and with `both` its standard output, for so many seconds.
/// Nothing is said where it cannot be started.
void hold_outputs(const char* seconds, bool both) {
  posix_spawn_file_actions_t actions;
  if (::posix_spawn_file_actions_init(&actions) != 0) return;
  std::string program = "sleep", time = seconds;
  char* const arguments[] = {program.data(), time.data(), nullptr};
  pid_t process = 0;
  if (both || ::posix_spawn_file_actions_addclose(&actions, STDOUT_FILENO) == 0)
    static_cast<void>(::posix_spawnp(&process, program.c_str(), &actions, nullptr, arguments, environ));
  ::posix_spawn_file_actions_destroy(&actions);
}

}  // namespace

void StopRequests::begin_job(const comm::Environment& environment) {
  signals_.take_back();
  signals_.on_second([&environment](const std::string& what) { environment.abort(ExitCode::failed, what); });
}

void StopRequests::leave_launcher() {
  signals_.ignore();
  constexpr const char* kSetByHydra = "MPI_LOCALNRANKS";
  if (signals_.first() == 0 || std::getenv(kSetByHydra) == nullptr) return;
  // Hydra leaves pipes of all ranks open in every rank.
  constexpr int kDescriptors = 1024;
  for (int file = STDERR_FILENO + 1; file < kDescriptors; ++file) ::fcntl(file, F_SETFD, FD_CLOEXEC);
  // Chosen: by then all ranks have left MPI_Finalize and ended. Hydra looks for ended ranks when the first of the two
  // ends, and takes 0 for those that it finds after the second one.
  hold_outputs("0.3", true);
  hold_outputs("0.4", false);
}

void StopRequests::refuse_start() const {
  if (const int signal = signals_.first(); signal != 0)
    base::fail(ExitCode::failed, "stopped by {} before the first step", base::signal_name(signal));
}

train::Stopping::Sources StopRequests::sources(const comm::Communicator& world) const {
  train::Stopping::Sources sources;
  sources.signal = [this] { return signals_.first(); };
  sources.clock = [this] {
    using Seconds = std::chrono::duration<double>;
    return train::ClockTimes{Seconds(std::chrono::steady_clock::now() - began_).count(),
                             Seconds(std::chrono::system_clock::now().time_since_epoch()).count()};
  };
  SlurmJob job;
  at_stage(Stage::job, [&] { comm::agree(world, [&] { job = slurm_job(sources.clock().since_1970); }); });
  sources.job_end = job.end;
  if (!job.past_end.empty() && world.rank() == 0)
    base::Logger(0, world.size())
        .warn("SLURM_JOB_END_TIME is {}, which is over: it is not used as the end of this job", job.past_end);
  return sources;
}

SlurmJob slurm_job(double now) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  SlurmJob job;
  job.id = variable("SLURM_JOB_ID");
  const std::string restarts = variable("SLURM_RESTART_COUNT"), end = variable("SLURM_JOB_END_TIME");
  if (!restarts.empty()) {
    std::uint64_t count = 0;
    const char* const last = restarts.data() + restarts.size();
    const auto [rest, error] = std::from_chars(restarts.data(), last, count);
    if (error != std::errc() || rest != last)
      base::fail(ExitCode::environment,
                 "SLURM_RESTART_COUNT is '{}': it must be the number of times that Slurm has queued this job again; "
                 "unset it if Slurm has not",
                 base::quotable(restarts));
    job.requeued = count > 0;
  }
  job.end = train::job_end(end.c_str(), now);
  if (!end.empty() && !job.end) job.past_end = end;
  return job;
}

std::string stop_text(const train::StopReason& reason, std::int64_t next, std::int64_t steps, bool checkpoint,
                      std::optional<std::int64_t> earlier, bool restarts) {
  std::string rest = "without a checkpoint of this run: it cannot go on from here";
  if (earlier) rest = fmt::format("no checkpoint was written here: run again to go on from that of step {}", *earlier);
  if (checkpoint) rest = "a checkpoint of this run is there: run again to go on";
  if (checkpoint && !restarts)
    rest = "a checkpoint of this run is there: to go on, run again with checkpoint.restart = auto";
  return fmt::format("stopped by {} before step {} of {}; {}", train::name_of(reason), next, steps, rest);
}

base::ExitCode stop_code(bool checkpoint) { return checkpoint ? ExitCode::stopped : ExitCode::failed; }

}  // namespace shard8::app
