// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "comm/communicator.hpp"
#include "comm/node.hpp"
#include "profile/energy.hpp"

namespace shard8::app {

/// Counts the energy of a run, each counter on one rank. What cannot be read is kept, to be said in the report.
class RunEnergy {
 public:
  /// Looks for counters and begins to count. Collective over `world`.
  RunEnergy(const comm::Communicator& world, const comm::Node& node);

  void begin() { meter_->begin(); }  ///< the measured steps begin
  void end() { meter_->end(); }      ///< and end
  /// Work that is of no step begins and ends. Its joules are in no window(). Collective.
  void pause(const comm::Communicator& world);
  void resume(const comm::Communicator& world);
  /// What this rank counted. The measured steps are over.
  profile::EnergyCounts counts();

  /// Joules of the job since the last call. Nothing if they are not known, or at the first call. Collective.
  std::optional<double> window(const comm::Communicator& world);
  struct Window {
    std::optional<double> joules{};
    std::int64_t steps = 0;
  };
  /// To be called after each step. If it is `logged`: window() and the steps since the last one that was. Collective.
  Window step_over(const comm::Communicator& world, bool logged);

 private:
  profile::EnergyDirectory directory_;
  std::optional<profile::EnergyMeter> meter_;
  std::optional<double> since_last(const comm::Communicator& world);

  std::int64_t steps_ = 0;                  ///< since the last one that was logged
  std::optional<double> joules_;            ///< of the job, at the last call of since_last()
  std::optional<double> before_pause_ = 0;  ///< joules of the window before pause(); nothing: not known
};

}  // namespace shard8::app
