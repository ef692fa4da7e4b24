// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shard8::profile {

/// What a host gives a device to do, timed by the host's own clock. (On hosts that is the work itself.)
enum class Issue : std::uint8_t { gather, layer_forward, layer_backward, optimizer };
inline constexpr int kIssues = 4;
std::string_view name_of(Issue issue);

/// Host seconds of every call of a run.
class IssueTimes {
 public:
  using Clock = std::chrono::steady_clock;
  class Scope {
   public:
    Scope(IssueTimes& times, Issue issue) : times_(times), issue_(issue), began_(Clock::now()) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { times_.add(issue_, std::chrono::duration<double>(Clock::now() - began_).count()); }

   private:
    IssueTimes& times_;
    Issue issue_;
    Clock::time_point began_;
  };

  void add(Issue issue, double seconds) { of_[static_cast<std::size_t>(issue)].push_back(seconds); }
  const std::vector<double>& of(Issue issue) const { return of_[static_cast<std::size_t>(issue)]; }
  /// Memory for the calls of `steps` steps that are like those so far, taken as one.
  void reserve(std::int64_t steps) {
    for (auto& seconds : of_) seconds.reserve(seconds.size() * static_cast<std::size_t>(steps));
  }
  void clear() {
    for (auto& seconds : of_) seconds.clear();
  }

 private:
  std::array<std::vector<double>, kIssues> of_;
};

}  // namespace shard8::profile
