// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/timing_file.hpp"

#include <fmt/format.h>

#include <iterator>

#include "profile/output_file.hpp"

namespace shard8::profile {

void write_timing(const std::filesystem::path& path, const Report& report) {
  OutputFile file(path);
  file.write("step,phase,part,min_s,mean_s,max_s,worst_rank\n");
  for (std::size_t step = 0; step < report.times.steps.size(); ++step) {
    std::string rows;
    for (std::size_t i = 0; i < kTimed; ++i) {
      const Spread& s = report.times.steps[step][i];
      fmt::format_to(std::back_inserter(rows), "{},{},{},{},{},{},{}\n",
                     report.first_step + static_cast<std::int64_t>(step), timed()[i].phase,
                     part_label(timed()[i], !report.emulated.empty()), s.min, s.mean, s.max, s.worst_rank);
    }
    file.write(rows);
  }
  file.close();
}

}  // namespace shard8::profile
