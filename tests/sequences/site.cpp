// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/sequences/site.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

namespace shard8::test {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

namespace {

constexpr std::chrono::seconds kLimit{300};  // chosen: runs take a second, but other programs may take the cores
constexpr const char* kSecond = "second";    // the folder in which a second run at the same time is started

std::vector<std::string> before_program(const Command& command) {
  if (!command.requeue) return {};
  return {"env", "SLURM_RESTART_COUNT=1"};
}

/// Whether the lock file names a rank of the run. That of a killed run stays until another one takes the folder.
bool is_held(const fs::path& lock, const ProgramRun& run) {
  std::ifstream in(lock);
  const std::string name = "pid ";
  pid_t pid = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(name) &&
        std::from_chars(line.data() + name.size(), line.data() + line.size(), pid).ec == std::errc())
      break;
    pid = 0;
  }
  if (pid == 0 || ::kill(pid, 0) != 0) return false;
  const auto ranks = run.ranks();
  return std::find(ranks.begin(), ranks.end(), pid) != ranks.end();
}

bool has_part(const fs::path& checkpoints) {
  std::error_code error;
  for (auto it = fs::directory_iterator(checkpoints, error); !error && it != fs::end(it); it.increment(error))
    if (it->path().extension() == ".tmp" && it->path().filename().string().starts_with("step_")) return true;
  return false;
}

}  // namespace

Site::Site(fs::path folder, BaseDeck base, References& references)
    : folder_(std::move(folder)), base_(std::move(base)), references_(references) {
  fs::remove_all(folder_);
  fs::create_directories(folder_ / kSecond);
  std::ofstream(folder_ / "deck.yaml") << base_.text();
  std::ofstream(folder_ / kSecond / "deck.yaml") << base_.text();
  shell_.push_back("mkdir sequence; cd sequence; cat > deck.yaml << END\n" + base_.text() + "END");
}

Outcome Site::expect(Command command) const {
  const auto content = world_.files.find(command.deck.data_path);
  if (content == world_.files.end()) {
    Outcome outcome;
    outcome.refused = 2;
    outcome.says = {command.deck.data_path};
    outcome.why = "there are no data";
    outcome.or_refused = {4};
    return outcome;
  }
  command.deck.content = content->second;
  return decide(world_, command);
}

ProgramOptions Site::options(const Command& command) const {
  return {.folder = folder_,
          .ranks = command.deck.mesh.ranks(),
          .arguments = command.arguments(),
          .before = before_program(command)};
}

void Site::say(const Command& command, const Outcome& outcome, const std::string& around) {
  std::string text = around + command.shell();
  text += outcome.refused != 0 ? fmt::format("  # {}: refused with code {}", outcome.why, outcome.refused)
                               : fmt::format("  # {}, from step {}", outcome.why, outcome.first);
  shell_.push_back(std::move(text));
}

Outcome Site::run(Command command) {
  const Outcome outcome = expect(command);
  if (const auto found = world_.files.find(command.deck.data_path); found != world_.files.end())
    command.deck.content = found->second;
  say(command, outcome);
  const Digests before = digests_below(folder_);
  const ProgramEnd end = ProgramRun(options(command)).wait(kLimit);
  if (outcome.refused != 0) {
    check_refusal(outcome, end, before, pending_.has_value());
    return outcome;
  }
  settle(command, outcome, {RunEnd::How::by_itself, end.code, end.output}, before);
  check_pending(command, false);
  return outcome;
}

namespace {

/// A start may give back its name to a checkpoint that a killed run had moved aside, before it is refused.
Digests with_names_given_back(const Digests& digests) {
  Digests named;
  for (const auto& [path, digest] : digests) {
    const auto aside = path.find(".old/");
    const std::string name = aside == std::string::npos ? path : path.substr(0, aside) + path.substr(aside + 4);
    named[digests.contains(name) ? path : name] = digest;
  }
  return named;
}

}  // namespace

void Site::check_refusal(const Outcome& outcome, const ProgramEnd& end, const Digests& before_it,
                         bool may_change) const {
  const bool other_code =
      std::find(outcome.or_refused.begin(), outcome.or_refused.end(), end.code) != outcome.or_refused.end();
  if (end.code != outcome.refused && !other_code)
    throw Broken(fmt::format("exit code {}, not {}: {}\n{}", end.code, outcome.refused, outcome.why, end.output));
  if (!other_code)
    for (const std::string& text : outcome.says)
      if (end.output.find(text) == std::string::npos)
        throw Broken(fmt::format("refused, and does not say '{}': {}\n{}", text, outcome.why, end.output));
  if (may_change) return;
  const Digests before = with_names_given_back(before_it);
  const Digests after = with_names_given_back(digests_below(folder_));
  for (const auto& [path, digest] : before) {
    const auto found = after.find(path);
    if (found == after.end() || found->second != digest)
      throw Broken(fmt::format("refused, and {} {}: {}\n{}", path, found == after.end() ? "is gone" : "has changed",
                               outcome.why, end.output));
  }
  for (const auto& [path, digest] : after)
    if (!before.contains(path))
      throw Broken(fmt::format("refused, and {} is new: {}\n{}", path, outcome.why, end.output));
}

void Site::settle(const Command& command, const Outcome& outcome, const RunEnd& end, const Digests& before) {
  if (std::find(outcome.or_refused.begin(), outcome.or_refused.end(), end.code) != outcome.or_refused.end()) {
    Outcome refused;
    refused.refused = end.code;
    refused.why = "the rules leave it open";
    check_refusal(refused, {end.code, end.output}, before, pending_.has_value());
    return;
  }
  try {
    Outcome known = outcome;
    known.finishes_move = finishes_move(command);
    auto left = Settle({folder_, base_, references_}, world_, command, known, before).after_run(end);
    if (!left.empty()) pending_ = {command.output, command.checkpoints(), std::move(left)};
  } catch (const std::exception& error) {
    throw Broken(fmt::format("{} ({}, from step {})\n{}", error.what(), outcome.why, outcome.first, end.output));
  }
}

bool Site::finishes_move(const Command& command) const {
  return pending_ && pending_->output == command.output && pending_->folder == command.checkpoints();
}

/// A start in the folders of a killed move has completed it; one that was killed, too, perhaps.
void Site::check_pending(const Command& command, bool was_killed) {
  if (!finishes_move(command)) return;
  for (const auto& [path, digest] : digests_below(folder_))
    if (path.find("/replaced_") != std::string::npos) pending_->digests.erase(digest);
  if (was_killed && !pending_->digests.empty()) return;
  if (!pending_->digests.empty())
    throw Broken(fmt::format("{} files that a killed run was moving to replaced_N are not there after the next start",
                             pending_->digests.size()));
  pending_.reset();
}

/// Waits until it is time for the blow. False if the run ended before.
bool Site::wait_for(ProgramRun& run, const Command& command, const Blow& blow) const {
  const fs::path metrics = folder_ / command.output / "metrics.jsonl";
  const fs::path checkpoints = folder_ / command.checkpoints();
  const fs::path owner = folder_ / command.output / "training.json";
  std::error_code error;
  const auto time_of = [&](const fs::path& file) {
    return fs::exists(file) ? fs::last_write_time(file, error) : fs::file_time_type();
  };
  const auto lines_before = time_of(metrics), owner_before = time_of(owner);
  const bool part_before = has_part(checkpoints);
  const auto is_time = [&] {
    switch (blow.when) {
      case Blow::When::time:
        return true;
      case Blow::When::lock:
        return is_held(folder_ / command.output / "lock", run) && is_held(checkpoints / "lock", run);
      case Blow::When::write:
        return !part_before && has_part(checkpoints);
      case Blow::When::line:
        return fs::exists(metrics) && time_of(metrics) != lines_before;
      case Blow::When::owner:
        return fs::exists(owner) && time_of(owner) != owner_before;
    }
    return true;
  };
  while (!is_time()) {
    if (run.ended()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  const auto at = Clock::now() + Seconds(blow.delay_s);
  while (Clock::now() < at) {
    if (run.ended()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  return true;
}

Outcome Site::interrupt(Command command, const Blow& blow) {
  const Outcome outcome = expect(command);
  if (outcome.refused != 0) return run(command);
  command.deck.content = world_.files.at(command.deck.data_path);
  const Digests before = digests_below(folder_);
  const auto begin = Clock::now();
  ProgramRun run(options(command));
  RunEnd end;
  std::string ranks_hit = "no rank";
  if (wait_for(run, command, blow)) {
    const auto ranks = run.ranks();
    for (std::size_t i = 0; i < ranks.size(); ++i)
      if (blow.all || i == blow.which % ranks.size()) ::kill(ranks[i], blow.signal);
    if (!ranks.empty()) {
      end.how = blow.signal == SIGKILL ? RunEnd::How::killed : RunEnd::How::signalled;
      ranks_hit = blow.all ? "all ranks" : fmt::format("rank {}", blow.which % ranks.size());
    }
  }
  const double seconds = Seconds(Clock::now() - begin).count();
  say(command, outcome, fmt::format("timeout -s {} {:.3f} ", blow.signal, seconds));
  shell_.back() += ", hits " + ranks_hit;
  const ProgramEnd ended = run.wait(kLimit);
  end.code = ended.code;
  end.output = ended.output;
  settle(command, outcome, end, before);
  check_pending(command, end.how != RunEnd::How::by_itself && end.code != 0);
  return outcome;
}

Outcome Site::run_two(Command first, Command second) {
  const Outcome outcome = expect(first);
  if (outcome.refused != 0) return run(first);
  first.deck.content = world_.files.at(first.deck.data_path);
  say(first, outcome);
  shell_.back() = "(" + shell_.back() + "\n) & sleep 0.15; kill -STOP $(pgrep shard8)";
  const Digests before = digests_below(folder_);
  ProgramRun run(options(first));
  const bool stopped = wait_for(run, first, {.when = Blow::When::lock});
  const auto ranks = stopped ? run.ranks() : std::vector<pid_t>();
  run.stop_ranks(ranks);
  const bool locked =
      is_held(folder_ / first.output / "lock", run) && is_held(folder_ / first.checkpoints() / "lock", run);
  std::optional<std::string> wrong;
  if (stopped && locked && !ranks.empty()) {
    try {
      const Digests while_it_lives = digests_below(folder_);
      Outcome refused;
      refused.refused = 4;
      refused.why = "another run lives in the folder";
      refused.says = {"in use by", "process"};
      for (int attempt = 0; attempt < 2; ++attempt) {
        shell_.push_back(second.shell() + "  # refused with code 4");
        ProgramRun other(
            {.folder = folder_ / kSecond, .ranks = second.deck.mesh.ranks(), .arguments = second.arguments("../")});
        check_refusal(refused, other.wait(kLimit), while_it_lives, false);
      }
    } catch (const std::exception& error) {
      wrong = error.what();
    }
  }
  for (const pid_t rank : ranks) ::kill(rank, SIGCONT);
  shell_.emplace_back("kill -CONT $(pgrep shard8); wait");
  const ProgramEnd end = run.wait(kLimit);
  if (wrong) throw Broken(*wrong);
  settle(first, outcome, {RunEnd::How::by_itself, end.code, end.output}, before);
  check_pending(first, false);
  return outcome;
}

}  // namespace shard8::test
