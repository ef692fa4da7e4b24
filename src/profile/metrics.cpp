// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace shard8::profile {
namespace {

constexpr double kRewriteInterval_s = 0.1;  ///< chosen: a line that changes faster cannot be read
/// The number rounded to nine digits, which tell all floats apart: a line has one number for each layer.
double nine_digits(double x) { return std::isfinite(x) ? std::strtod(fmt::format("{:.8e}", x).c_str(), nullptr) : x; }
std::vector<double> nine_digits(std::vector<double> all) {
  for (double& x : all) x = nine_digits(x);
  return all;
}

constexpr double kLastStepWeight = 0.1;  ///< chosen: the mean step time follows about the last ten steps

}  // namespace

std::string to_json_line(const StepMetrics& metrics) {
  nlohmann::ordered_json line;
  line["step"] = metrics.step;
  line["loss"] = metrics.loss;
  line["grad_norm"] = metrics.grad_norm;
  line["lr"] = metrics.lr;
  line["tokens"] = metrics.tokens;
  line["step_s"] = metrics.step_s;
  line["tokens_per_s"] = metrics.tokens_per_s;
  line["run"] = metrics.run;
  if (metrics.energy_j) {
    line["energy_j"] = *metrics.energy_j;
    line["energy_steps"] = metrics.energy_steps;
  }
  if (metrics.validation_loss) {
    line["validation_loss"] = *metrics.validation_loss;
    line["validation_s"] = metrics.validation_s;
  }
  if (metrics.experts) {
    const StepMetrics::Experts& experts = *metrics.experts;
    line["balance"] = experts.balance;
    line["expert_tokens"] = {{"least", experts.least}, {"mean", experts.mean}, {"most", experts.most}};
  }
  if (metrics.unit_norms) {
    const StepMetrics::UnitNorms& norms = *metrics.unit_norms;
    auto& to = line["unit_norms"];
    to = {{"embedding", nine_digits(norms.embedding)},
          {"layers", nine_digits(norms.layers)},
          {"head", nine_digits(norms.head)}};
    if (!norms.experts.empty()) to["experts"] = nine_digits(norms.experts);
  }
  if (metrics.weight_norms) {
    auto& to = line["weight_norms"];
    to = {{"layers", nine_digits(metrics.weight_norms->layers)}};
    if (!metrics.weight_norms->experts.empty()) to["experts"] = nine_digits(metrics.weight_norms->experts);
  }
  return line.dump();
}

MetricsFile::MetricsFile(std::filesystem::path path) : path_(std::move(path)) { open(); }

void MetricsFile::open() {
  std::error_code ignored;
  file_.emplace(path_, OutputFile::Existing::continued);
  if (!std::filesystem::is_regular_file(path_, ignored)) return;
  if (!size_) size_ = std::filesystem::file_size(path_, ignored);
  std::filesystem::resize_file(path_, *size_, ignored);
}

bool MetricsFile::write(const StepMetrics& metrics) {
  const std::string line = to_json_line(metrics) + '\n';
  if (!file_ && std::chrono::steady_clock::now() - failed_ < kRetry) return false;
  try {
    if (!file_) open();
    file_->write(line);
    if (size_) *size_ += line.size();
    return true;
  } catch (const base::Error&) {
    file_.reset();  // with what it still has to write
    failed_ = std::chrono::steady_clock::now();
    std::error_code ignored;
    if (size_) std::filesystem::resize_file(path_, *size_, ignored);
    throw;
  }
}

void MetricsFile::close() {
  if (file_) file_->close();
}

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
  const double rate = since_printed_s_ > 0 ? static_cast<double>(since_printed_tokens_) / since_printed_s_ : 0;
  const double left_s = mean_step_s_ * static_cast<double>(end_step_ - done);
  const auto validation =
      m.validation_loss ? fmt::format("  validation loss {:.5f}", *m.validation_loss) : std::string();
  return fmt::format("step {}/{} ({:.0f} %)  loss {:.5f}  grad norm {:.4g}  lr {:.3e}  {:.1f} tokens/s  left {}{}",
                     done, end_step_, 100 * static_cast<double>(done) / static_cast<double>(end_step_), m.loss,
                     m.grad_norm, m.lr, rate, clock_text(left_s), validation);
}

void Progress::step(const StepMetrics& metrics) {
  const bool first = metrics.step == first_step_;
  const bool last = metrics.step + 1 == end_step_;
  mean_step_s_ = first ? metrics.step_s : (1 - kLastStepWeight) * mean_step_s_ + kLastStepWeight * metrics.step_s;
  since_printed_s_ += metrics.step_s;
  since_printed_tokens_ += metrics.tokens;
  if (is_terminal_) {
    if (!first && !last && since_printed_s_ < kRewriteInterval_s && !metrics.validation_loss) return;
    // Carriage return, the text, then ANSI "erase to the end of the line": the line before may have been longer.
    std::fputs(("\r" + text(metrics) + "\x1b[K").c_str(), out_);
    line_open_ = true;
    if (last || metrics.validation_loss) end_line();  // the line stays
  } else {
    const bool due = (metrics.step + 1) % log_every_ == 0 || metrics.validation_loss;
    if (!first && !last && !due) return;
    std::fputs((text(metrics) + "\n").c_str(), out_);
  }
  since_printed_s_ = 0;
  since_printed_tokens_ = 0;
  std::fflush(out_);
}

void Progress::end_line() {
  if (!line_open_) return;
  std::fputc('\n', out_);
  std::fflush(out_);
  line_open_ = false;
}

namespace {

/// Calls visit(line, step, run) for each line that ends with a newline. `step` is null where the line is no JSON object
/// with a step, `run` where it names no training.
/// Returns whether the text ends with a newline or is empty.
template <class Visit>
bool for_each_line(std::istream& in, Visit&& visit) {
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) return false;
    line += '\n';
    const auto read = nlohmann::json::parse(line, nullptr, false);
    const nlohmann::json* step = nullptr;
    const nlohmann::json* run = nullptr;
    if (read.is_object()) {
      if (const auto at = read.find("step"); at != read.end() && at->is_number_integer()) step = &*at;
      if (const auto at = read.find("run"); at != read.end() && at->is_string()) run = &*at;
    }
    visit(line, read, step, run);
  }
  return true;
}

RecordedStep recorded(const nlohmann::json& line, std::int64_t step) {
  const auto number = [&](const char* key, double otherwise) {
    const auto at = line.find(key);
    return at != line.end() && at->is_number() ? at->get<double>() : otherwise;
  };
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  RecordedStep recorded{step, number("loss", kNone), static_cast<std::int64_t>(number("tokens", 0)),
                        number("step_s", 0)};
  if (line.contains("validation_loss")) recorded.validation_loss = number("validation_loss", kNone);
  return recorded;
}

}  // namespace

MetricsOwners owners_of_metrics(std::string_view text) {
  std::istringstream in{std::string(text)};
  return owners_of_metrics(in);
}

MetricsOwners owners_of_metrics(std::istream& in) {
  MetricsOwners owners;
  for_each_line(in,
                [&](std::string_view, const nlohmann::json&, const nlohmann::json* step, const nlohmann::json* run) {
                  if (step == nullptr) return;
                  if (run == nullptr) {
                    owners.has_unnamed = true;
                    return;
                  }
                  const auto number = step->get<std::int64_t>();
                  const auto [at, is_new] =
                      owners.trainings.try_emplace(run->get<std::string>(), MetricsOwners::Steps{number, number});
                  if (is_new) return;
                  at->second.first = std::min(at->second.first, number);
                  at->second.last = std::max(at->second.last, number);
                });
  return owners;
}

std::string KeptMetrics::warning() const {
  std::string said;
  const auto add = [&](const std::string& why) { said += (said.empty() ? "" : "; ") + why; };
  if (of_others > 0)
    add(base::count(of_others, "line of another training is", "lines of another training are") + " left out");
  if (unreadable > 0) add(base::count(unreadable, "line is", "lines are") + " no metrics of a step and left out");
  if (missing > 0)
    add(fmt::format("{} no line that can be read, the first is step {}", base::count(missing, "step has", "steps have"),
                    first_missing));
  return said;
}

KeptMetrics metrics_before(std::string_view text, std::int64_t first, std::string_view run, std::int64_t begin,
                           const std::function<void(const RecordedStep&)>& each) {
  std::istringstream in{std::string(text)};
  std::string lines;
  KeptMetrics kept = metrics_before(in, first, run, begin, each, [&](std::string_view line) { lines += line; });
  kept.text = std::move(lines);
  return kept;
}

KeptMetrics metrics_before(std::istream& in, std::int64_t first, std::string_view run, std::int64_t begin,
                           const std::function<void(const RecordedStep&)>& each,
                           const std::function<void(std::string_view line)>& keep,
                           const std::function<void(const RecordedStep&)>& lost) {
  KeptMetrics kept;
  std::int64_t next = begin;  // the step whose line should come
  const auto skip_to = [&](std::int64_t step) {
    if (step <= next) return;
    if (kept.missing == 0) kept.first_missing = next;
    kept.missing += step - next;
  };
  const bool ended = for_each_line(
      in, [&](std::string_view line, const nlohmann::json& read, const nlohmann::json* step, const nlohmann::json* of) {
        if (step == nullptr) {
          ++kept.unreadable;
          return;
        }
        if (of != nullptr && *of != run) {
          ++kept.of_others;
          return;
        }
        const auto number = step->get<std::int64_t>();
        if (number >= first) {
          ++kept.cut_back;
          if (lost) lost(recorded(read, number));
          return;
        }
        skip_to(number);
        next = std::max(next, number + 1);
        if (keep) keep(line);
        if (each) each(recorded(read, number));
      });
  skip_to(first);
  kept.whole = ended && kept.cut_back + kept.of_others + kept.unreadable == 0;
  return kept;
}

}  // namespace shard8::profile
