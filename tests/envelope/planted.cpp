// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "profile/compare/envelope.hpp"
#include "tests/envelope/pair.hpp"
#include "tests/envelope/plant.hpp"
#include "tests/support/execution.hpp"
#include "tests/support/long_run.hpp"
#include "tests/support/mpi_program.hpp"

// Plants faults in trainings of random decks, and looks whether the shipped envelope finds them within 20 steps in the
// comparison with a right training in another configuration: docs/testing.md, "Envelope".

namespace shard8::test {
namespace {

constexpr std::int64_t kWithin = 20;  // steps in which a fault is to be found
constexpr std::int64_t kSteps = 24;

struct Options {
  std::uint64_t seed = 3;
  std::int64_t decks = 10;  ///< for each fault and rounding
  std::int64_t most_missed = 0;
  std::filesystem::path folder = "planted_data";
};

class Program {
 public:
  Program(const Options& options, MPI_Comm comm) : options_(options), comm_(comm) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    if (rank_ == 0) std::filesystem::create_directories(options_.folder);
    MPI_Barrier(comm);
  }

  bool run() {
    for (const Fault fault : {Fault::token, Fault::weight, Fault::row}) plant_in("fp32", fault);
    for (const char* recipe : {"delayed", "current", "block", "mxfp8"}) plant_in(recipe, Fault::scale_inv);
    print(fmt::format("{} of {} faults were not found, {} may be\n", missed_, planted_, options_.most_missed));
    return missed_ <= options_.most_missed;
  }

 private:
  void print(const std::string& text) const {
    if (rank_ != 0) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  void plant_in(const std::string& kind, Fault fault) {
    std::int64_t found = 0, done = 0, latest = 0;
    const auto folder = std::filesystem::absolute(options_.folder);
    for (std::int64_t number = 0; done < options_.decks; ++number) {
      Pair pair = draw_pair(options_.seed, number, kSteps, folder, size_);
      if (pair.kind != kind) continue;
      Draw draw(options_.seed, number, 0, name_of(fault));
      deck::Config& c = pair.other;
      Plant plant{fault, draw.between(1, kSteps - kWithin)};
      const std::int64_t first = kind == "fp32" ? 0 : c.fp8.first_layers_bf16;
      const std::int64_t end = c.model.layers - (kind == "fp32" ? 0 : c.fp8.last_layers_bf16);
      plant.layer = draw.between(first, end - 1);
      plant.linear = draw.between(0, 3);
      if (fault == Fault::scale_inv) {
        if (c.fp8.weights != deck::Fp8Weights::fp8) continue;  // none is stored
        c.fsdp.prefetch = 0;                                   // no layer's scales are gathered before they are doubled
      }
      ++done;
      const Outcome right = train_with(pair.one, {}, comm_), wrong = train_with(c, plant, comm_);
      const auto step = first_outside(kind, right, wrong);
      const bool in_time = step && *step >= plant.step && *step < plant.step + kWithin;
      found += in_time ? 1 : 0;
      if (in_time) latest = std::max(latest, *step - plant.step);
      if (!in_time) {
        print(fmt::format("NOT FOUND: deck {} of seed {}, {}: {} in step {}, layer {}, linear {}: {}\n", number,
                          options_.seed, kind, name_of(fault), plant.step, plant.layer, plant.linear,
                          step ? fmt::format("outside in step {}", *step) : share_));
      }
    }
    print(fmt::format("{:<8} {:<20} found {} of {}, the latest after {} steps\n", kind, name_of(fault), found, done,
                      latest));
    planted_ += done;
    missed_ += done - found;
  }

  /// The first step outside of the envelope. Otherwise share_ says how near a difference came.
  std::optional<std::int64_t> first_outside(const std::string& kind, const Outcome& a, const Outcome& b) {
    const auto& bounds = envelope_.roundings.at(kind);
    double most = 0;
    for (std::size_t s = 0; s < a.losses.size(); ++s) {
      const double loss = profile::relative_difference(a.losses[s], b.losses[s]) / bounds.loss.at(s);
      const double norm = profile::relative_difference(a.norms[s], b.norms[s]) / bounds.grad_norm.at(s);
      most = std::max({most, loss, norm});
      if (most > 1) return static_cast<std::int64_t>(s);
    }
    share_ = fmt::format("at most {:.2g} of the bound", most);
    return std::nullopt;
  }

  Options options_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  profile::Envelope envelope_ = profile::shipped_envelope();
  std::string share_;
  std::int64_t planted_ = 0, missed_ = 0;
};

int run(int argc, char** argv, MPI_Comm comm) {
  Options o;
  if (!parse_options(argc, argv,
                     {number("--seed", o.seed), number("--decks", o.decks, 1), number("--missed", o.most_missed, 0),
                      path("--folder", o.folder)})) {
    std::fputs("usage: mpiexec -n 4 envelope.planted [--seed N] [--decks N] [--missed N] [--folder DIR]\n", stderr);
    return 2;
  }
  const tests::Execution execution(0);
  try {
    return Program(o, comm).run() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "envelope.planted: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return 1;
}

}  // namespace
}  // namespace shard8::test

int main(int argc, char** argv) { return shard8::tests::mpi_program(argc, argv, shard8::test::run); }
