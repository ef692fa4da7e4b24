// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "trace/rank_trace.hpp"

namespace shard8::trace {

/// How times are written. Tools that read floating-point times round begins up and ends down, which makes every span
/// shorter; whole microseconds are read as they are.
enum class Times {
  nanoseconds,  ///< microseconds with three decimals
  whole_microseconds
};

/// One trace of all ranks in the format of PyTorch's Kineto, for Perfetto (ui.perfetto.dev) and chrome://tracing: each
/// rank is a process, its host and its streams are threads.
std::string kineto_of_all(const std::vector<RankTrace>& ranks);

/// The trace of one rank, as HolisticTraceAnalysis reads a folder of them.
std::string kineto_of(const RankTrace& rank, Times times = Times::whole_microseconds);

}  // namespace shard8::trace
