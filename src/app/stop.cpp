// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/stop.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "base/log.hpp"
#include "comm/agree.hpp"

namespace shard8::app {

using base::ExitCode;

void StopRequests::begin_job(const comm::Environment& environment) {
  signals_.take_back();
  signals_.on_second([&environment](const std::string& what) { environment.abort(ExitCode::failed, what); });
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
  const char* const text = std::getenv("SLURM_JOB_END_TIME");
  comm::agree(world, [&] { sources.job_end = train::job_end(text, sources.clock().since_1970); });
  if (text != nullptr && *text != '\0' && !sources.job_end && world.rank() == 0)
    base::Logger(0, world.size())
        .warn("SLURM_JOB_END_TIME is {}, which is over: it is not used as the end of this job", text);
  return sources;
}

std::string stop_text(const train::StopReason& reason, std::int64_t next, std::int64_t steps, bool checkpoint) {
  return fmt::format("stopped by {} before step {} of {}; {}", train::name_of(reason), next, steps,
                     checkpoint ? "a checkpoint of this run is there: run again to go on"
                                : "without a checkpoint of this run: it cannot go on from here");
}

base::ExitCode stop_code(bool checkpoint) { return checkpoint ? ExitCode::stopped : ExitCode::failed; }

}  // namespace shard8::app
