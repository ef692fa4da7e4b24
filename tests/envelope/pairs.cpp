// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "base/utc.hpp"
#include "base/version.hpp"
#include "profile/output_file.hpp"
#include "tests/envelope/measured.hpp"
#include "tests/support/long_run.hpp"
#include "tests/support/mpi_program.hpp"

// Trains random decks in two right configurations each, and measures by how much losses and gradient norms differ, or
// holds the differences against an envelope: docs/testing.md, "Envelope".

namespace shard8::test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUsage =
    "usage: mpiexec -n 4 envelope.pairs [--seed N] [--pairs N] [--first N] [--decks N] [--steps N] [--state FILE]\n"
    "                                   [--folder DIR] [--limit SECONDS] [--write FILE] [--fp8] [--judge]\n"
    "Programs that measure parts of the decks side by side (--first, --decks) have states of their own.\n"
    "Put together in the order of their decks they are one state.\n";
constexpr const char* kKinds[] = {"fp32", "fp32, reduce bf16", "bf16", "delayed", "current", "block", "mxfp8"};

struct Options {
  std::uint64_t seed = 1;
  std::int64_t pairs = 12;             ///< of each kind of rounding
  std::int64_t first = 0;              ///< the first deck to look at, unless the state says another
  std::int64_t decks = 1'000'000'000;  ///< from `first` on that are looked at, at most
  std::int64_t steps = 24;             ///< of each training
  std::int64_t round = 28;             ///< pairs that are trained side by side, and after which the state is written
  std::int64_t limit = 300;            ///< seconds that a training may take
  fs::path folder = "envelope_data";   ///< for the data that decks read
  fs::path state;                      ///< what was measured; empty: it is not kept
  fs::path write;                      ///< the envelope's file; empty: none is written
  bool fp8 = false;                    ///< only the recipes in FP8
  bool judge = false;                  ///< fail if a pair lies outside of the shipped envelope
};

std::optional<Options> read_options(int argc, char** argv) {
  Options o;
  const bool good =
      parse_options(argc, argv,
                    {number("--seed", o.seed), number("--pairs", o.pairs, 1), number("--first", o.first, 0),
                     number("--decks", o.decks, 1), number("--steps", o.steps, 1), number("--round", o.round, 1),
                     number("--limit", o.limit, 1), path("--folder", o.folder), path("--state", o.state),
                     path("--write", o.write), flag("--fp8", o.fp8), flag("--judge", o.judge)});
  return good ? std::optional(o) : std::nullopt;
}

class Program {
 public:
  Program(Options options, Ranks& ranks)
      : options_(std::move(options)), ranks_(ranks), measurements_(options_.state, options_.seed, options_.steps) {}

  bool run(const std::string& command) {
    if (ranks_.rank() == 0) fs::create_directories(options_.folder);
    ranks_.train({});  // all wait for the folder, and nobody writes the state before all have read it
    const auto start = std::chrono::steady_clock::now();
    while (train_round()) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      print(fmt::format("{} pairs after {:.0f} s\n", measurements_.pairs().size(), seconds.count()));
      if (ranks_.rank() == 0) measurements_.write();
    }
    print(to_text(measurements_.pairs()));
    if (!options_.write.empty() && ranks_.rank() == 0) {
      const Provenance provenance{command, std::string(base::version().git_hash),
                                  base::utc_text(base::unix_now()).substr(0, 10), options_.seed};
      profile::write_output(options_.write, envelope_text(measurements_.pairs(), options_.steps, provenance),
                            "give --write a file in");
    }
    return !options_.judge || judge();
  }

 private:
  void print(const std::string& text) const {
    if (ranks_.rank() != 0) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  bool wanted(const std::string& kind) const {
    const bool fp8 = kind != "bf16" && !kind.starts_with("fp32");
    return fp8 || !options_.fp8;
  }

  bool enough(const std::map<std::string, std::int64_t>& counts) const {
    return std::all_of(std::begin(kKinds), std::end(kKinds),
                       [&](const char* kind) { return !wanted(kind) || counts.at(kind) >= options_.pairs; });
  }

  /// Trains some pairs. Returns false if there were enough of all kinds.
  bool train_round() {
    std::map<std::string, std::int64_t> counts;
    for (const char* kind : kKinds) counts[kind] = measurements_.count(kind);
    const std::int64_t end = options_.first + options_.decks;
    std::int64_t next = std::max(options_.first, measurements_.next_deck());
    if (enough(counts) || next >= end) return false;
    std::vector<Pair> pairs;
    std::vector<Job> jobs;
    const std::int64_t most_ranks = std::min<std::int64_t>(ranks_.size(), 9);
    for (; static_cast<std::int64_t>(pairs.size()) < options_.round && !enough(counts) && next < end; ++next) {
      const std::string kind = kind_of_deck(next, most_ranks);
      if (!wanted(kind) || ++counts.at(kind) > options_.pairs) continue;
      pairs.push_back(draw_pair(options_.seed, next, options_.steps, fs::absolute(options_.folder), most_ranks));
      const auto name = [&](const char* which, const deck::Config& config) {
        return fmt::format("deck {} of seed {}, {}\n{}", next, options_.seed, which, short_yaml(config));
      };
      jobs.push_back({.config = pairs.back().one, .name = name("one", pairs.back().one)});
      jobs.push_back({.config = pairs.back().other, .name = name("other", pairs.back().other)});
    }
    const std::vector<Outcome> outcomes = ranks_.train(jobs);
    for (std::size_t i = 0; i < pairs.size(); ++i)
      measurements_.add(measured(pairs[i], outcomes[2 * i], outcomes[2 * i + 1]));
    measurements_.looked_at(next - 1);
    return true;
  }

  std::string kind_of_deck(std::int64_t number, std::int64_t most_ranks) const {
    Acceptance ignored;
    return kind_of(draw_deck(options_.seed, number, fs::absolute(options_.folder), ignored, most_ranks).config);
  }

  bool judge() const {
    const profile::Envelope envelope = profile::shipped_envelope();
    std::int64_t outside = 0;
    for (const MeasuredPair& p : measurements_.pairs()) {
      const auto& bounds = envelope.roundings.at(p.kind);
      const auto look = [&](const char* figure, const std::vector<double>& values, const std::vector<double>& most) {
        for (std::size_t s = 0; s < std::min(values.size(), most.size()); ++s) {
          if (values[s] <= most[s]) continue;
          ++outside;
          print(fmt::format("OUTSIDE: deck {} of seed {} ({}, {}): {} in step {} differs by {:.2e}, allowed {:.2e}\n",
                            p.deck, options_.seed, p.kind, p.meshes, figure, s, values[s], most[s]));
          return;
        }
      };
      look("loss", p.loss, bounds.loss);
      look("grad_norm", p.grad_norm, bounds.grad_norm);
      look("unit_norm", p.unit_norm, bounds.unit_norm);
      look("weight_norm", p.weight_norm, bounds.weight_norm);
    }
    return outside == 0;
  }

  Options options_;
  Ranks& ranks_;
  Measurements measurements_;
};

int run(int argc, char** argv, MPI_Comm comm) {
  const auto options = read_options(argc, argv);
  if (!options) {
    std::fputs(std::string(kUsage).c_str(), stderr);
    return 2;
  }
  std::string command = "envelope.pairs";
  for (int i = 1; i < argc; ++i) command += fmt::format(" {}", argv[i]);
  return run_on_ranks("envelope.pairs", comm, std::chrono::seconds(options->limit), options->folder, [&](Ranks& ranks) {
    return Program(*options, ranks).run(fmt::format("mpiexec -n {} {}", ranks.size(), command));
  });
}

}  // namespace
}  // namespace shard8::test

int main(int argc, char** argv) { return shard8::tests::mpi_program(argc, argv, shard8::test::run); }
