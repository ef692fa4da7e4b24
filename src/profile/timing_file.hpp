// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "profile/report.hpp"

namespace shard8::profile {

/// timing.csv: step,phase,part,min_s,mean_s,max_s,worst_rank; for each measured step a row for each
/// phase, each part of forward and backward, and the whole ("step"). The part of emulated products is
/// "gemm (emulated)".
void write_timing(const std::filesystem::path& path, const Report& report);

}  // namespace shard8::profile
