// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "tests/random/draw.hpp"
#include "tests/restart/program.hpp"
#include "tests/support/long_run.hpp"

namespace shard8::test {

/// A small deck that writes checkpoints.
struct RoundDeck {
  std::string text;
  int ranks = 2;  ///< 2 to 4
  std::int64_t steps = 0, every = 1, keep = 1;
};

/// Draws mesh, architecture, number formats, recipe, schedule and how checkpoints are written.
RoundDeck draw_round_deck(Draw& draw);

}  // namespace shard8::test

// Kills runs that write checkpoints, and starts them again until they end: docs/testing.md, "Kill rounds".

namespace shard8::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::string_view kUsage =
    "usage: kill_rounds [--seed N] [--rounds N | --only K] [--state FILE] [--folder DIR]\n";

struct Options {
  std::uint64_t seed = 1;
  std::int64_t rounds = 4;
  std::int64_t only = -1;  ///< the number of the only round; -1: rounds 0 to rounds - 1
  fs::path folder = "kill_rounds";
  fs::path state;  ///< progress, deleted when all rounds are done; empty: none
};

std::optional<Options> read_options(int argc, char** argv) {
  Options o;
  const bool good = parse_options(argc, argv,
                                  {number("--seed", o.seed), number("--rounds", o.rounds, 1),
                                   number("--only", o.only, 0), path("--folder", o.folder), path("--state", o.state)});
  return good ? std::optional(o) : std::nullopt;
}

/// Counts over rounds.
struct Counts {
  std::int64_t rounds = 0;        ///< that are done
  std::int64_t kills = 0;         ///< of one rank or all
  std::int64_t all_ranks = 0;     ///< kills of all ranks
  std::int64_t inside_write = 0;  ///< kills that left a part of a checkpoint
  std::int64_t without = 0;       ///< kills before the first checkpoint
  std::int64_t lost = 0;          ///< steps that were trained before a kill and not in the checkpoint
  std::int64_t most_lost = 0;     ///< by one kill
  double longest_end_s = 0;       ///< from a kill until no process was left
  std::vector<std::int64_t> failed;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Counts, rounds, kills, all_ranks, inside_write, without, lost, most_lost,
                                   longest_end_s, failed)

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error(text); }

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error))
    names.push_back(it->path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_part(const std::string& name) { return name.ends_with(".tmp") || name.ends_with(".old"); }

/// Parts of checkpoints in a folder, which a write in progress has.
std::vector<std::string> parts_in(const fs::path& folder) {
  auto names = names_in(folder);
  std::erase_if(names, [](const std::string& name) { return !is_part(name); });
  return names;
}

/// When and whom to kill.
struct Blow {
  std::int64_t write = 0;  ///< when the run begins its checkpoint of this number, from 1; 0: when the run begins
  double delay_s = 0;      ///< after that
  bool all = false;        ///< all ranks, else one
  std::uint64_t which = 0;
};

class Round {
 public:
  Round(const Options& options, std::int64_t number, Counts& counts)
      : draw_(options.seed, number, 0, "round"),
        deck_(draw_round_deck(draw_)),
        folder_(fs::absolute(options.folder) / fmt::format("round_{}_{}", options.seed, number)),
        counts_(counts) {}

  /// Throws std::runtime_error with what is wrong; then the folder stays.
  void run() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream(folder_ / "deck.yaml") << deck_.text;
    train_without_stop();
    const std::int64_t kills = draw_.between(1, 3);
    for (std::int64_t k = 0; k < kills; ++k)
      if (!train_until_killed(draw_blow())) break;
    if (!done_) train_to_the_end();
    check_result();
    fs::remove_all(folder_);
  }

  const fs::path& folder() const { return folder_; }

 private:
  ProgramOptions program(std::vector<std::string> arguments) const {
    return {.folder = folder_, .ranks = deck_.ranks, .arguments = std::move(arguments)};
  }

  void train_without_stop() {
    const auto begin = Clock::now();
    const auto end = run_program(program({"output.dir=whole", "checkpoint.every=0"}));
    if (end.code != 0) fail("the run that is not killed: exit code " + std::to_string(end.code) + "\n" + end.output);
    whole_s_ = Seconds(Clock::now() - begin).count();
    whole_ = metrics_of(folder_ / "whole/metrics.jsonl");
  }

  Blow draw_blow() {
    Blow blow;
    blow.write = draw_.chance(0.5) ? draw_.between(1, 4) : 0;
    blow.delay_s = blow.write > 0 ? draw_.real(0, 0.03) : draw_.real(0, 1.3 * whole_s_);
    blow.all = draw_.chance(0.5);
    blow.which = draw_.bits();
    return blow;
  }

  /// Starts the run, and kills it unless it ends before. False if it ended; it must have ended well.
  bool train_until_killed(const Blow& blow) {
    const std::string from = newest_checkpoint(checkpoints_);
    ProgramRun run(program({}));
    auto at = Clock::now() + Seconds(blow.delay_s);
    std::int64_t begun = 0;  // checkpoints that this run has begun
    auto before = parts_in(checkpoints_);
    while (begun < blow.write || Clock::now() < at) {
      if (run.ended()) {
        check_end(run.wait(), from);
        return false;
      }
      if (begun < blow.write) {
        const auto now = parts_in(checkpoints_);
        if (now != before && !now.empty() && ++begun == blow.write) at = Clock::now() + Seconds(blow.delay_s);
        before = now;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(begun < blow.write ? 300 : 1000));
    }
    const auto ranks = run.ranks();
    if (ranks.empty()) {  // they have not begun, or have ended already
      check_end(run.wait(), from);
      return false;
    }
    for (std::size_t i = 0; i < ranks.size(); ++i)
      if (blow.all || i == blow.which % ranks.size()) ::kill(ranks[i], SIGKILL);
    const auto killed = Clock::now();
    const auto end = run.wait(std::chrono::seconds(30));
    if (end.code == 0) {  // its report was out before
      check_end(end, from);
      return false;
    }
    counts_.longest_end_s = std::max(counts_.longest_end_s, Seconds(Clock::now() - killed).count());
    check_header(end, from);
    count(blow);
    return true;
  }

  void count(const Blow& blow) {
    ++counts_.kills;
    if (blow.all) ++counts_.all_ranks;
    if (!parts_in(checkpoints_).empty()) ++counts_.inside_write;
    const std::string newest = newest_checkpoint(checkpoints_);
    if (newest.empty()) ++counts_.without;
    const std::int64_t saved = newest.empty() ? 0 : checkpoint::read_manifest(newest).step;
    const auto trained = static_cast<std::int64_t>(metrics_of(folder_ / "out/metrics.jsonl").size());
    const std::int64_t lost = std::max<std::int64_t>(0, trained - saved);
    // One checkpoint is written at a time, and the run waits for it when the next one is due.
    if (lost > 2 * deck_.every) fail(fmt::format("{} steps are lost, with a checkpoint every {}", lost, deck_.every));
    counts_.lost += lost;
    counts_.most_lost = std::max(counts_.most_lost, lost);
  }

  void train_to_the_end() {
    const std::string from = newest_checkpoint(checkpoints_);
    check_end(run_program(program({})), from);
  }

  /// A run that printed its header went on from the newest checkpoint.
  static void check_header(const ProgramEnd& end, const std::string& from) {
    if (end.output.find("watching its heartbeat") != std::string::npos)
      fail("a run waits for the lock of a process that is dead\n" + end.output);
    if (end.output.find("cannot be used") != std::string::npos) fail("a checkpoint cannot be used\n" + end.output);
    if (end.output.find("\nunigram entropy") == std::string::npos) return;
    const std::string said = restarted_from(end.output);
    const std::string named = said.empty() ? "" : fs::path(said).filename().string();
    if (named != fs::path(from).filename())
      fail(fmt::format("the run went on from '{}', the newest checkpoint is '{}'\n{}", said, from, end.output));
  }

  void check_end(const ProgramEnd& end, const std::string& from) {
    if (end.code != 0) fail(fmt::format("exit code {}\n{}", end.code, end.output));
    check_header(end, from);
    done_ = true;
  }

  void check_result() const {
    if (const auto text = difference_of_lines(metrics_of(folder_ / "out/metrics.jsonl"), whole_); !text.empty())
      fail(text);
    std::int64_t kept = 0;
    for (const std::string& name : names_in(checkpoints_)) {
      const bool is_checkpoint = name.starts_with("step_") && !is_part(name);
      if (!is_checkpoint && name != "latest") fail("left at the end: " + name);
      if (is_checkpoint) ++kept;
    }
    if (kept > deck_.keep) fail(fmt::format("{} checkpoints are left, checkpoint.keep is {}", kept, deck_.keep));
    const std::string newest = newest_checkpoint(checkpoints_);
    const std::int64_t last = deck_.steps / deck_.every * deck_.every;
    if (checkpoint::read_manifest(newest).step != last)
      fail(fmt::format("the last checkpoint is {}, not that of step {}", newest, last));
  }

  Draw draw_;
  RoundDeck deck_;
  fs::path folder_;
  fs::path checkpoints_ = folder_ / "out/checkpoints";
  Counts& counts_;
  std::vector<std::string> whole_;
  double whole_s_ = 0;
  bool done_ = false;
};

std::string text_of(const Counts& c) {
  return fmt::format(
      "{} rounds, {} failed: {} kills, {} of them of all ranks, {} inside of a write, {} before the first checkpoint; "
      "steps lost by a kill: mean {:.2f}, most {}; no process was left {:.2f} s after a kill at the latest",
      c.rounds, c.failed.size(), c.kills, c.all_ranks, c.inside_write, c.without,
      c.kills == 0 ? 0.0 : static_cast<double>(c.lost) / static_cast<double>(c.kills), c.most_lost, c.longest_end_s);
}

Counts read_state(const Options& options) {
  std::ifstream in(options.state);
  const auto state = nlohmann::json::parse(in, nullptr, false);
  if (!state.is_object() || state.value("key", "") != run_key(options.seed)) return {};
  return state["counts"].get<Counts>();
}

void write_state(const Options& options, const Counts& counts) {
  const fs::path draft = options.state.string() + ".new";
  std::ofstream(draft) << nlohmann::json{{"key", run_key(options.seed)}, {"counts", counts}}.dump(1) << '\n';
  fs::rename(draft, options.state);
}

bool run(const Options& options) {
  const bool resumes = !options.state.empty() && options.only < 0;
  Counts counts = resumes ? read_state(options) : Counts{};
  const std::int64_t first = options.only >= 0 ? options.only : counts.rounds;
  const std::int64_t end = options.only >= 0 ? first + 1 : options.rounds;
  const auto begin = Clock::now();
  for (std::int64_t number = first; number < end; ++number) {
    Round round(options, number, counts);
    try {
      round.run();
    } catch (const std::exception& error) {
      counts.failed.push_back(number);
      std::printf("FAILED: round %ld of seed %lu, in %s: %s\n", static_cast<long>(number),
                  static_cast<unsigned long>(options.seed), round.folder().c_str(), error.what());
    }
    ++counts.rounds;
    if (resumes) write_state(options, counts);
    if (counts.rounds % 20 == 0 || number + 1 == end)
      std::printf("%.0f s: %s\n", Seconds(Clock::now() - begin).count(), text_of(counts).c_str());
    std::fflush(stdout);
  }
  for (const std::int64_t number : counts.failed)
    std::printf("failed: %s --seed %lu --only %ld\n", fs::canonical("/proc/self/exe").c_str(),
                static_cast<unsigned long>(options.seed), static_cast<long>(number));
  if (resumes) fs::remove(options.state);
  return counts.failed.empty();
}

}  // namespace
}  // namespace shard8::test

int main(int argc, char** argv) {
  const auto options = shard8::test::read_options(argc, argv);
  if (!options) {
    std::fputs(std::string(shard8::test::kUsage).c_str(), stderr);
    return 2;
  }
  for (const char* name : {"SHARD8_PROGRAM", "SHARD8_MPIEXEC"}) {
    if (std::getenv(name) != nullptr) continue;
    std::fprintf(stderr, "kill_rounds: the environment variable %s must be set: docs/testing.md\n", name);
    return 2;
  }
  try {
    return shard8::test::run(*options) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kill_rounds: %s\n", error.what());
    return 1;
  }
}

namespace shard8::test {

namespace {

struct Mesh {
  int replicate, shard, tensor;
};

/// The number of which the sizes of FP8 products on a rank must be multiples (docs/fp8.md).
int multiple(std::string_view recipe) { return recipe == "block" ? 128 : recipe == "mxfp8" ? 32 : 16; }

}  // namespace

RoundDeck draw_round_deck(Draw& draw) {
  constexpr Mesh kMeshes[] = {{1, 2, 1}, {1, 1, 2}, {2, 1, 1}, {1, 3, 1}, {3, 1, 1}, {1, 2, 2}, {2, 2, 1}, {1, 4, 1}};
  constexpr std::string_view kRecipes[] = {"none", "none", "delayed", "current", "block", "mxfp8"};
  const Mesh mesh = draw.one_of(kMeshes);
  const std::string_view recipe = draw.one_of(kRecipes);
  const int g = multiple(recipe), layers = static_cast<int>(draw.between(1, 2));
  const int data_ranks = mesh.replicate * mesh.shard;
  const bool bf16 = recipe != "none" || draw.chance(0.5);
  const auto yes = [&](double probability) { return draw.chance(probability) ? "true" : "false"; };
  RoundDeck deck;
  deck.ranks = data_ranks * mesh.tensor;
  deck.steps = draw.between(16, 30);
  deck.every = draw.between(1, 4);
  deck.keep = draw.between(1, 3);
  const int width = std::max(2, g / 16) * 8;  // of a head; two heads on each tensor rank
  deck.text = fmt::format(
      "model:      {{arch: {}, hidden: {}, ffn: {}, layers: {}, heads: {}, vocab: 200, seq: {}, tie_embeddings: {}}}\n",
      draw.one_of({"llama", "gpt2"}), 2 * width * mesh.tensor, g * mesh.tensor, layers, 2 * mesh.tensor,
      g * mesh.tensor, yes(0.5));
  deck.text +=
      fmt::format("mesh:       {{replicate: {}, shard: {}, tensor: {}}}\n", mesh.replicate, mesh.shard, mesh.tensor);
  deck.text += fmt::format("precision:  {{compute: {}}}\n", bf16 ? "bf16" : "fp32");
  if (recipe != "none")
    deck.text += fmt::format("fp8:        {{recipe: {}, weights: {}, amax_history: {}}}\n", recipe,
                             draw.one_of({"fp8", "fp8", "bf16"}), draw.between(1, 4));
  deck.text +=
      fmt::format("fsdp:       {{reshard_after_forward: {}, prefetch: {}}}\n", yes(0.5), draw.between(0, layers));
  deck.text +=
      fmt::format("optimizer:  {{lr: 0.003, warmup: 3, clip: {}, master: {}, moments: {}}}\n", draw.one_of({0, 1}),
                  bf16 && draw.chance(0.4) ? "bf16_remainder" : "fp32", draw.one_of({"fp32", "bf16"}));
  deck.text += fmt::format("data:       {{kind: synthetic, batch: {}, micro_batch: 1}}\n",
                           data_ranks * draw.between(1, recipe == "block" ? 1 : 2));
  deck.text += fmt::format("run:        {{steps: {}, log_every: 1000}}\n", deck.steps);
  deck.text += fmt::format("checkpoint: {{every: {}, keep: {}, async: {}, files: {}}}\n", deck.every, deck.keep,
                           yes(0.6), draw.one_of({"rank", "node"}));
  return deck;
}

}  // namespace shard8::test
