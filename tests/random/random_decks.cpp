// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/random/progress.hpp"
#include "tests/random/trial.hpp"
#include "tests/support/execution.hpp"
#include "tests/support/long_run.hpp"
#include "tests/support/mpi_program.hpp"

// Trains random decks, each on its mesh with two schedules and on one rank, and compares the three trainings. Some are
// stopped as well, and go on from a checkpoint on the same or another mesh.

namespace shard8::test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUsage =
    "usage: mpiexec -n 9 random.decks [--seed N] [--decks N | --only K] [--state FILE] [--folder DIR] [--round N]\n"
    "                                 [--limit SECONDS] [--no-shrink] [--spread] [--skeletons]\n";
constexpr std::size_t kMostShrunk = 3;  // decks that are made smaller; further decks that fail are printed as drawn

struct Options {
  std::uint64_t seed = 1;
  std::int64_t decks = 60;
  std::int64_t only = -1;            ///< the number of the only deck to train; -1: decks 0 to decks - 1
  std::int64_t round = 60;           ///< decks that are trained side by side, and after which the state is written
  std::int64_t limit = 300;          ///< seconds that a training may take
  fs::path folder = "random_decks";  ///< for the data that decks read
  fs::path state;                    ///< progress, deleted when all decks are done; empty: none
  bool as_drawn = false;             ///< print decks that fail as drawn, without making them smaller
  bool skeletons = false;            ///< run only skeletons: each deck's on hosts, and on devices if they can
  bool spread = false;               ///< measure the differences between equally right trainings
};

std::optional<Options> read_options(int argc, char** argv) {
  Options o;
  const bool good = parse_options(argc, argv,
                                  {number("--seed", o.seed), number("--decks", o.decks, 1), number("--only", o.only, 0),
                                   number("--round", o.round, 1), number("--limit", o.limit, 1),
                                   path("--folder", o.folder), path("--state", o.state), flag("--spread", o.spread),
                                   flag("--skeletons", o.skeletons), flag("--no-shrink", o.as_drawn)});
  return good ? std::optional(o) : std::nullopt;
}

class Program {
 public:
  Program(Options options, Ranks& ranks) : options_(std::move(options)), ranks_(ranks) {}

  bool run() {
    if (ranks_.rank() == 0) fs::create_directories(options_.folder);
    ranks_.train({});  // all wait for the folder
    if (options_.spread) return measure();
    if (options_.skeletons) return run_skeletons();
    const auto start = std::chrono::steady_clock::now();
    const std::int64_t first = options_.only >= 0 ? options_.only : 0;
    const std::int64_t end = options_.only >= 0 ? first + 1 : options_.decks;
    const bool resumes = !options_.state.empty() && options_.only < 0;
    const std::string key = run_key(options_.seed);
    if (resumes) progress_ = read_progress(options_.state, key);
    ranks_.train({});  // nobody writes the state before all have read it
    progress_.done = std::max(progress_.done, first);
    print(fmt::format("seed {}, decks {} to {}{}\n", options_.seed, first, end - 1,
                      progress_.done > first ? fmt::format(", {} of them done before", progress_.done) : ""));
    for (std::int64_t next = progress_.done; next < end; next = progress_.done) {
      run_round(next, std::min(end, next + options_.round));
      if (resumes && ranks_.rank() == 0) write_progress(options_.state, key, progress_);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      print(fmt::format("{} decks after {:.0f} s, {} failed\n", progress_.done - first, seconds.count(),
                        progress_.failed.size()));
    }
    const Acceptance& a = progress_.acceptance;
    print(fmt::format("{}accepted by the checks: {} of {} decks drawn ({:.1f} %)\n", progress_.table(),
                      a.drawn - a.rejected, a.drawn,
                      100.0 * static_cast<double>(a.drawn - a.rejected) / static_cast<double>(a.drawn)));
    for (const std::int64_t number : progress_.failed) print(fmt::format("failed: {}\n", command(number)));
    if (resumes && ranks_.rank() == 0) fs::remove(options_.state);
    return progress_.failed.empty();
  }

 private:
  void print(const std::string& text) const {
    if (ranks_.rank() != 0) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  std::string name(std::int64_t number) const { return fmt::format("deck {} of seed {}", number, options_.seed); }
  std::string command(std::int64_t number) const {
    return fmt::format("OMP_NUM_THREADS={} OMP_WAIT_POLICY=passive mpiexec -n {} {} --seed {} --only {}",
                       tests::threads(), ranks_.size(), fs::canonical("/proc/self/exe").string(), options_.seed,
                       number);
  }

  /// Meshes have at most so many ranks. Few ranks give other decks than many.
  std::int64_t most_ranks() const { return std::min<std::int64_t>(ranks_.size(), 9); }

  RandomDeck accepted(std::int64_t number) {
    return draw_deck(options_.seed, number, fs::absolute(options_.folder), progress_.acceptance, most_ranks());
  }

  void run_round(std::int64_t first, std::int64_t end) {
    std::vector<RandomDeck> decks;
    std::vector<Job> jobs;
    std::vector<std::size_t> first_job;  // of each deck
    for (std::int64_t number = first; number < end; ++number) {
      decks.push_back(accepted(number));
      first_job.push_back(jobs.size());
      for (Job& job : jobs_of(decks.back(), name(number), std::to_string(number))) jobs.push_back(std::move(job));
    }
    first_job.push_back(jobs.size());
    const std::vector<Outcome> outcomes = ranks_.train(jobs);
    for (std::size_t i = 0; i < decks.size(); ++i) {
      const std::int64_t number = first + static_cast<std::int64_t>(i);
      const Verdict verdict =
          judged(decks[i], std::span(outcomes).subspan(first_job[i], first_job[i + 1] - first_job[i]), name(number));
      progress_.add(number, decks[i], verdict);
      if (options_.only >= 0 && verdict.failure == Failure::none) print(fmt::format("{}\n", text_of(decks[i])));
      if (verdict.failure != Failure::none) report(number, decks[i], verdict);
    }
    progress_.done = end;
  }

  /// judge(), which asks the training in FP32 where there is a doubt, then neighbours on one rank.
  Verdict judged(const RandomDeck& deck, std::span<const Outcome> outcomes, const std::string& name) {
    Verdict verdict = judge(deck, outcomes);
    const auto in_doubt = [&] {
      return verdict.failure == Failure::differs || verdict.failure == Failure::restarted_badly;
    };
    const auto in_fp32 = in_doubt() ? job_in_fp32(deck, name) : std::nullopt;
    if (!in_fp32) return verdict;
    const auto exact = ranks_.train(std::span(&*in_fp32, 1));
    verdict = judge(deck, outcomes, {.in_fp32 = &exact.front()});
    std::string_view from = "FP32";
    if (in_doubt()) {
      const auto neighbours = ranks_.train(neighbour_jobs(deck, name));
      verdict = judge(deck, outcomes, {.in_fp32 = &exact.front(), .neighbours = neighbours});
      from = "its neighbours";
    }
    if (verdict.failure == Failure::none)
      print(fmt::format("{} differs from one rank by more than the bounds, but not from {}\n", name, from));
    return verdict;
  }

  void report(std::int64_t number, const RandomDeck& deck, const Verdict& verdict) {
    print(fmt::format("FAILED: {} {}run it again: {}\n", name(number), verdict.text, command(number)));
    if (options_.as_drawn || progress_.failed.size() > kMostShrunk) {
      print(fmt::format("its deck:\n{}\n", text_of(deck)));
      return;
    }
    const auto again = [&](const RandomDeck& smaller) {
      const auto outcomes = ranks_.train(jobs_of(smaller, "a smaller form of " + name(number), "smaller"));
      return judged(smaller, outcomes, "a smaller form of " + name(number));
    };
    const Shrunk shrunk = shrink(deck, verdict, fs::absolute(options_.folder), again);
    print(fmt::format("the smallest deck found that fails in this way, after {} others:\n\n{}\n{} {}\n", shrunk.trials,
                      text_of(shrunk.deck), name(number) + ", made smaller,", shrunk.verdict.text));
  }

  bool run_skeletons() {
    bool good = true;
    std::int64_t on_hosts = 0, on_devices = 0;
    const std::int64_t first = options_.only >= 0 ? options_.only : 0;
    const std::int64_t end = options_.only >= 0 ? first + 1 : options_.decks;
    std::vector<RandomDeck> decks;
    std::vector<Job> jobs;
    for (std::int64_t number = first; number < end; ++number) {
      const RandomDeck deck = accepted(number);
      for (const SkeletonJob kind : {SkeletonJob::host, SkeletonJob::cuda}) {
        RandomDeck one = deck;
        one.skeleton = kind;
        try {
          jobs.push_back(skeleton_job(one, name(number)));
        } catch (const base::Error&) {
          continue;  // devices cannot run it
        }
        decks.push_back(one);
        ++(kind == SkeletonJob::cuda ? on_devices : on_hosts);
      }
    }
    const std::vector<Outcome> outcomes = ranks_.train(jobs);
    for (std::size_t i = 0; i < decks.size(); ++i) {
      const Verdict verdict = judge_skeleton(decks[i], outcomes[i], nullptr);
      if (verdict.failure == Failure::none) continue;
      good = false;
      print(fmt::format("FAILED: {} {}\n", jobs[i].name, verdict.text));
    }
    print(fmt::format("skeletons of {} decks on hosts and of {} on devices\n", on_hosts, on_devices));
    return good && (options_.only >= 0 || (on_hosts > 0 && on_devices > 0));
  }

  bool measure() {
    SpreadFigures figures;
    for (std::int64_t first = 0; first < options_.decks; first += options_.round) {
      std::vector<RandomDeck> decks;
      for (std::int64_t n = first; n < std::min(options_.decks, first + options_.round); ++n)
        decks.push_back(accepted(n));
      measure_spread(first, decks, ranks_, figures);
      print(fmt::format("{} decks\n", first + static_cast<std::int64_t>(decks.size())));
    }
    print(to_text(figures));
    return true;
  }

  Options options_;
  Ranks& ranks_;
  Progress progress_;
};

int run(int argc, char** argv, MPI_Comm comm) {
  const auto options = read_options(argc, argv);
  if (!options) {
    std::fputs(std::string(kUsage).c_str(), stderr);
    return 2;
  }
  return run_on_ranks("random.decks", comm, std::chrono::seconds(options->limit), options->folder,
                      [&](Ranks& ranks) { return Program(*options, ranks).run(); });
}

}  // namespace
}  // namespace shard8::test

int main(int argc, char** argv) { return shard8::tests::mpi_program(argc, argv, shard8::test::run); }
