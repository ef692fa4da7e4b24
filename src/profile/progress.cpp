// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shard8::profile {
namespace {

constexpr double kRewriteEvery_s = 0.1;
constexpr double kWeightOfLast = 0.1;

}  // namespace

std::string clock_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::ceil(std::max(seconds, 0.0)));
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

Progress::Progress(std::FILE* out, bool is_terminal, std::int64_t first_step, std::int64_t end_step,
                   std::int64_t log_every)
    : out_(out),
      is_terminal_(is_terminal),
      first_step_(first_step),
      end_step_(end_step),
      log_every_(std::max<std::int64_t>(log_every, 1)) {}

std::string Progress::text(const StepMetrics& m) const {
  const std::int64_t done = m.step + 1;
  const double left_s = mean_step_s_ * static_cast<double>(end_step_ - done);
  return fmt::format("step {}/{} ({:.0f} %)  loss {:.5f}  grad norm {:.4g}  lr {:.3e}  {:.1f} tokens/s  left {}", done,
                     end_step_, 100 * static_cast<double>(done) / static_cast<double>(end_step_), m.loss, m.grad_norm,
                     m.lr, m.tokens_per_s, clock_text(left_s));
}

void Progress::step(const StepMetrics& metrics) {
  const bool first = metrics.step == first_step_;
  const bool last = metrics.step + 1 == end_step_;
  mean_step_s_ = first ? metrics.step_s : (1 - kWeightOfLast) * mean_step_s_ + kWeightOfLast * metrics.step_s;
  since_printed_s_ += metrics.step_s;
  if (is_terminal_) {
    if (!first && !last && since_printed_s_ < kRewriteEvery_s) return;
    // Back to the start of the line, and what the last one left over is erased.
    std::fputs(("\r" + text(metrics) + "\x1b[K").c_str(), out_);
    on_line_ = true;
    if (last) leave_line();
  } else {
    if (!first && !last && (metrics.step + 1) % log_every_ != 0) return;
    std::fputs((text(metrics) + "\n").c_str(), out_);
  }
  since_printed_s_ = 0;
  std::fflush(out_);
}

void Progress::leave_line() {
  if (!on_line_) return;
  std::fputc('\n', out_);
  std::fflush(out_);
  on_line_ = false;
}

}  // namespace shard8::profile
