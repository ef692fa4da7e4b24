// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include "tests/sequences/sequence.hpp"
#include "tests/support/long_run.hpp"

// Random sequences of what users do with trainings and their folders: docs/testing.md, "Sequences of operations".

namespace shard8::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kUsage =
    "usage: sequences [--seed N] [--first K] [--sequences N | --only K] [--jobs N] [--failures N] [--state FILE]\n"
    "                 [--folder DIR]\n";

struct Options {
  std::uint64_t seed = 1;
  std::int64_t first = 0;  ///< the number of the first sequence
  std::int64_t sequences = 200;
  std::int64_t only = -1;     ///< the number of the only sequence; -1: sequences first to first + sequences - 1
  std::int64_t jobs = 1;      ///< sequences at a time
  std::int64_t failures = 0;  ///< ends after so many; 0: never
  fs::path folder = "sequences";
  fs::path state;  ///< progress, deleted when all sequences are done; empty: none
};

std::optional<Options> read_options(int argc, char** argv) {
  Options o;
  const bool good =
      parse_options(argc, argv,
                    {number("--seed", o.seed), number("--first", o.first, 0), number("--sequences", o.sequences, 1),
                     number("--only", o.only, 0), number("--jobs", o.jobs, 1), number("--failures", o.failures, 0),
                     path("--folder", o.folder), path("--state", o.state)});
  return good ? std::optional(o) : std::nullopt;
}

/// Counts over sequences.
struct Counts {
  std::int64_t done = 0;  ///< sequences
  std::int64_t operations = 0, runs = 0;
  std::vector<std::int64_t> failed;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Counts, done, operations, runs, failed)

std::vector<std::size_t> all_of(const Drawn& drawn) {
  std::vector<std::size_t> all(drawn.operations.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// The calling thread and the programs that it starts stay on one of the cores: runs at the same time do not disturb
/// each other, and ranks that wait do not take the time of others (they yield where there are more ranks than cores).
void stay_on_core(std::int64_t job) {
  cpu_set_t all, one;
  if (::sched_getaffinity(0, sizeof all, &all) != 0) return;
  const int wanted = static_cast<int>(job) % CPU_COUNT(&all);
  CPU_ZERO(&one);
  for (int core = 0, seen = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all) || seen++ != wanted) continue;
    CPU_SET(core, &one);
    break;
  }
  ::sched_setaffinity(0, sizeof one, &one);
}

/// A text without what is in the middle of many lines.
std::string shortened(const std::string& text) {
  constexpr std::size_t kFirst = 24, kLast = 8;  // chosen: the header and what is wrong, and the end
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  if (lines.size() > kFirst + kLast)
    lines.erase(lines.begin() + kFirst, lines.end() - static_cast<std::ptrdiff_t>(kLast));
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

class Runner {
 public:
  explicit Runner(const Options& options)
      : options_(options), references_(fs::absolute(options.folder) / "references") {}

  bool run() {
    const bool resumes = !options_.state.empty() && options_.only < 0;
    if (resumes) counts_ = read_state();
    const std::int64_t first = options_.only >= 0 ? options_.only : options_.first + counts_.done;
    const std::int64_t end = options_.only >= 0 ? first + 1 : options_.first + options_.sequences;
    drawn_ = draw_sequences(options_.seed, end);
    // Sequences go in groups, one for each job; after a group the state is written.
    for (std::int64_t begin = first; begin < end && !is_enough();) {
      const std::int64_t group_end = std::min(end, begin + (resumes ? 10 * options_.jobs : end));
      run_group(begin, group_end);
      begin = group_end;
      if (resumes) write_state();
    }
    report();
    const bool has_pairs = options_.only >= 0 || options_.sequences < kForAllPairs || is_enough() || check_pairs();
    if (resumes) fs::remove(options_.state);
    if (counts_.failed.empty()) fs::remove_all(fs::absolute(options_.folder) / "references");
    return counts_.failed.empty() && has_pairs;
  }

 private:
  static constexpr std::int64_t kForAllPairs = 100;  ///< sequences that have every ordered pair

  bool is_enough() const {
    return options_.failures > 0 && static_cast<std::int64_t>(counts_.failed.size()) >= options_.failures;
  }

  void run_group(std::int64_t begin, std::int64_t end) {
    std::atomic<std::int64_t> next = begin;
    const auto work = [&](std::int64_t job) {
      if (options_.jobs > 1) stay_on_core(job);
      for (std::int64_t number = next++; number < end; number = next++) {
        {
          const std::lock_guard guard(mutex_);
          if (is_enough()) return;
        }
        one(number);
      }
    };
    std::vector<std::thread> others;
    for (std::int64_t job = 1; job < options_.jobs; ++job) others.emplace_back(work, job);
    others.emplace_back(work, 0);
    for (std::thread& other : others) other.join();
  }

  fs::path folder_of(std::int64_t number) const {
    return fs::absolute(options_.folder) / fmt::format("sequence_{}_{}", options_.seed, number);
  }

  struct Failure {
    std::string what;
    std::size_t at = 0;
    std::vector<std::string> shell;
  };

  /// `folder` stays after a failure.
  std::optional<Failure> try_sequence(const fs::path& folder, std::int64_t number,
                                      const std::vector<std::size_t>& chosen, std::int64_t& runs) {
    Sequence sequence(folder, references_, options_.seed, number, drawn_[static_cast<std::size_t>(number)], chosen);
    std::optional<Failure> failure;
    try {
      sequence.run();
    } catch (const std::exception& error) {
      failure = {error.what(), sequence.at(), sequence.site().shell()};
    }
    runs += sequence.runs();
    if (!failure) fs::remove_all(folder);
    return failure;
  }

  void one(std::int64_t number) {
    const Drawn& drawn = drawn_[static_cast<std::size_t>(number)];
    std::int64_t runs = 0;
    auto failure = try_sequence(folder_of(number), number, all_of(drawn), runs);
    std::string text;
    if (failure) text = describe(number, *failure) + shrink(number, *failure);
    const std::lock_guard guard(mutex_);
    ++counts_.done;
    counts_.operations += static_cast<std::int64_t>(drawn.operations.size());
    counts_.runs += runs;
    if (failure) counts_.failed.push_back(number);
    std::fputs(text.c_str(), stdout);
    if (counts_.done % 20 == 0)
      std::printf("%.0f s: %ld sequences, %ld failed\n", seconds(), static_cast<long>(counts_.done),
                  static_cast<long>(counts_.failed.size()));
    std::fflush(stdout);
  }

  std::string describe(std::int64_t number, const Failure& failure) const {
    const Drawn& drawn = drawn_[static_cast<std::size_t>(number)];
    std::string text =
        fmt::format("FAILED: sequence {} of seed {}, in {}:", number, options_.seed, folder_of(number).string());
    for (std::size_t i = 0; i <= failure.at; ++i) text += fmt::format(" {}", name_of(drawn.operations[i]));
    text += "\n" + shortened(failure.what);
    for (const std::string& line : failure.shell) text += "    " + line + "\n";
    return text;
  }

  /// Leaves operations out while the rest still fails. Kills come at other moments each time, so a failure that needs
  /// one may not come back.
  std::string shrink(std::int64_t number, Failure failure) {
    std::int64_t runs = 0;
    const fs::path folder = folder_of(number).string() + "_shrunk";
    std::vector<std::size_t> chosen(failure.at + 1);
    std::iota(chosen.begin(), chosen.end(), 0);
    const std::size_t before = chosen.size();
    for (std::size_t at = chosen.size() - 1; at-- > 0;) {
      auto fewer = chosen;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at));
      const auto still = try_sequence(folder, number, fewer, runs);
      if (!still) continue;
      failure = *still;
      while (!fewer.empty() && fewer.back() > failure.at) fewer.pop_back();
      chosen = std::move(fewer);
      at = std::min(at, chosen.size() - 1);
    }
    if (chosen.size() == before) return {};
    try_sequence(folder, number, chosen, runs);
    std::string text = fmt::format("  shrunk to {} of {} operations, in {}:", chosen.size(), before, folder.string());
    for (const std::size_t i : chosen)
      text += fmt::format(" {}", name_of(drawn_[static_cast<std::size_t>(number)].operations[i]));
    text += fmt::format("\n  {}\n", failure.what.substr(0, failure.what.find('\n')));
    for (const std::string& line : failure.shell) text += "    " + line + "\n";
    return text;
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  void report() const {
    std::printf("%.0f s: %ld sequences, %ld operations, %ld commands and %d references, %ld sequences failed\n",
                seconds(), static_cast<long>(counts_.done), static_cast<long>(counts_.operations),
                static_cast<long>(counts_.runs), references_.runs(), static_cast<long>(counts_.failed.size()));
    for (const std::int64_t number : counts_.failed)
      std::printf("failed: %s --seed %lu --only %ld\n", program_.c_str(), static_cast<unsigned long>(options_.seed),
                  static_cast<long>(number));
  }

  bool check_pairs() const {
    PairCounts pairs = {};
    for (auto number = static_cast<std::size_t>(options_.first); number < drawn_.size(); ++number)
      count_pairs(pairs, drawn_[number].operations);
    std::int64_t fewest = pairs[0][0], missing = 0;
    for (std::size_t first = 0; first < kOperations; ++first)
      for (std::size_t second = 0; second < kOperations; ++second) {
        fewest = std::min(fewest, pairs[first][second]);
        if (pairs[first][second] > 0) continue;
        ++missing;
        std::printf("no sequence has %s and then %s\n", std::string(name_of(static_cast<Operation>(first))).c_str(),
                    std::string(name_of(static_cast<Operation>(second))).c_str());
      }
    std::printf("%zu ordered pairs of operations, each at least %ld times\n", kOperations * kOperations,
                static_cast<long>(fewest));
    return missing == 0;
  }

  std::string key() const { return fmt::format("{}, from sequence {}", run_key(options_.seed), options_.first); }

  Counts read_state() const {
    std::ifstream in(options_.state);
    const auto state = nlohmann::json::parse(in, nullptr, false);
    if (!state.is_object() || state.value("key", "") != key()) return {};
    return state["counts"].get<Counts>();
  }

  void write_state() const {
    const fs::path draft = options_.state.string() + ".new";
    std::ofstream(draft) << nlohmann::json{{"key", key()}, {"counts", counts_}}.dump(1) << '\n';
    fs::rename(draft, options_.state);
  }

  Options options_;
  fs::path program_ = fs::canonical("/proc/self/exe");
  References references_;
  std::vector<Drawn> drawn_;
  Counts counts_;
  mutable std::mutex mutex_;
  Clock::time_point begin_ = Clock::now();
};

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
    std::fprintf(stderr, "sequences: the environment variable %s must be set: docs/testing.md\n", name);
    return 2;
  }
  // What a batch system says of this test's job is not meant for the runs.
  for (const char* name : {"SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME"}) ::unsetenv(name);
  try {
    return shard8::test::Runner(*options).run() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sequences: %s\n", error.what());
    return 1;
  }
}
