// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "deck/config.hpp"
#include "model/parameters.hpp"
#include "profile/compare/comparison.hpp"
#include "tests/envelope/measured.hpp"
#include "tests/random/trial.hpp"
#include "tests/support/execution.hpp"
#include "tests/support/long_run.hpp"
#include "tests/support/mpi_program.hpp"
#include "tests/train/training.hpp"
#include "train/state.hpp"
#include "train/stopping.hpp"

namespace shard8::test {

/// A fault that happens once in a training.
enum class Fault : std::uint8_t {
  none,
  token,      ///< the last token of a data rank's first micro-batch has weight 0 in the loss of the step
  weight,     ///< before the step one rank's part of a layer's fc1 weight is multiplied by 1 + 2^-8
  row,        ///< the step does not update the row of the table of its first token: master and moments stay
  scale_inv,  ///< in the step the inverse scales of a layer's weight in FP8 are doubled, on all ranks
};
std::string_view name_of(Fault fault);

struct Plant {
  Fault fault = Fault::none;
  std::int64_t step = 0;    ///< from 1 on for `weight` and `scale_inv`
  std::int64_t layer = 0;   ///< of `weight` and `scale_inv`
  std::int64_t linear = 0;  ///< of `scale_inv`: fp8::Linear
};

/// Trains all steps of a deck, in FP32 for `token`, `weight` and `row`, with the fault, on the first ranks of `comm`.
/// On hosts. Collective over `comm`; every rank gets losses and norms. Error(failed) if there is nothing to plant the
/// fault in: no such weight is stored in FP8.
Outcome train_with(const deck::Config& config, const Plant& plant, MPI_Comm comm);

}  // namespace shard8::test

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
    const std::vector<double> units = unit_norm_differences(a, b), weights = weight_norm_differences(a, b);
    for (std::size_t s = 0; s < a.losses.size(); ++s) {
      const double loss = profile::relative_difference(a.losses[s], b.losses[s]) / bounds.loss.at(s);
      const double norm = profile::relative_difference(a.norms[s], b.norms[s]) / bounds.grad_norm.at(s);
      const double unit = bounds.unit_norm.empty() ? 0 : units[s] / bounds.unit_norm.at(s);
      const double weight = bounds.weight_norm.empty() || weights.empty() ? 0 : weights[s] / bounds.weight_norm.at(s);
      most = std::max({most, loss, norm, unit, weight});
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

namespace shard8::test {
namespace {

using checkpoint::Content;
using checkpoint::StateTensor;

/// Plants a fault in a training on hosts, where memory of the execution space is memory of the host.
class Planter {
 public:
  Planter(const Plant& plant, Training& training, MPI_Comm comm) : plant_(plant), training_(training), comm_(comm) {
    observer_.product = [this](const operation::Product&) { at_product(); };
    training.trainer().observe(&observer_);
  }
  ~Planter() { training_.trainer().observe(nullptr); }
  Planter(const Planter&) = delete;
  Planter& operator=(const Planter&) = delete;

  void before(std::int64_t step) {
    if (step != plant_.step || plant_.fault == Fault::none) return;
    training_.trainer().settle();
    armed_ = true;
    if (plant_.fault == Fault::row) keep_table();
    if (plant_.fault == Fault::weight) change_weight();
    if (plant_.fault == Fault::scale_inv) double_scales();
  }

  /// After `done` steps.
  void between(std::int64_t done) {
    if (done != plant_.step + 1 || plant_.fault != Fault::row) return;
    training_.trainer().settle();
    restore_row();
  }

 private:
  /// The first product of a step follows the load of its first micro-batch.
  void at_product() {
    if (!std::exchange(armed_, false)) return;
    const auto& a = training_.trainer().state().activations;
    std::memcpy(&token_, a.tokens.data, sizeof(token_));
    const base::Place& place = training_.setup().place;
    if (plant_.fault != Fault::token || !place.first(base::AxisSet::data)) return;
    auto* const weights = reinterpret_cast<float*>(a.token_weights.data);
    std::int64_t last = a.token_weights.count() - 1;
    while (last >= 0 && weights[last] == 0) --last;
    SHARD8_REQUIRE(last >= 0, "the first micro-batch of the first data rank is all padding");
    weights[last] = 0;
  }

  void change_weight() {
    if (training_.mesh().world.rank() != 0) return;
    const tensor::Tensor& master = weight("fc1.weight").master;
    auto* const values = reinterpret_cast<float*>(master.data);
    for (std::int64_t i = 0; i < master.count(); ++i) values[i] *= 1 + 0x1p-8F;
  }

  /// A weight of the layer, or of the layer's experts.
  const fsdp::WeightForms& weight(std::string_view name) {
    const auto& units = training_.trainer().state().units;
    const deck::ModelConfig& model = training_.setup().config.model;
    std::vector<int> candidates = {model::layer_unit(plant_.layer)};
    if (model.moe.experts > 0 && plant_.layer >= model.moe.dense_layers)
      candidates.push_back(model::experts_unit(model, plant_.layer));
    for (const int unit : candidates) {
      const auto& parameters = units.units().at(static_cast<std::size_t>(unit)).parameters;
      for (std::size_t p = 0; p < parameters.size(); ++p)
        if (parameters[p].name.ends_with(name)) return units.weights(unit)[p];
    }
    base::fail(base::ExitCode::failed, "layer {} has no {}", plant_.layer, name);
  }

  void double_scales() {
    constexpr std::array<std::string_view, 4> kLinears = {"qkv.weight", "proj.weight", "fc1.weight", "fc2.weight"};
    const std::string_view name = kLinears.at(static_cast<std::size_t>(plant_.linear));
    const fsdp::Copies& stored = weight(name).stored;
    SHARD8_REQUIRE(!stored.empty(), "no {} of layer {} is stored in FP8", name, plant_.layer);
    double_all(stored.forward.scale_inv);
    if (stored.two() || stored.forward.empty()) double_all(stored.backward.scale_inv);
  }

  static void double_all(const tensor::Tensor& scales) {
    for (std::int64_t i = 0; i < scales.count(); ++i) {
      if (scales.dtype == tensor::DType::e8m0)  // a power of two
        reinterpret_cast<std::uint8_t*>(scales.data)[i] += 1;
      else
        reinterpret_cast<float*>(scales.data)[i] *= 2;
    }
  }

  /// Master and moments of the table of tokens.
  std::vector<StateTensor> table() {
    std::vector<StateTensor> found;
    for (StateTensor& t : train::state_tensors(training_.setup(), training_.trainer().state()))
      if ((t.name.find("embed_tokens") != std::string::npos || t.name.ends_with("wte.weight")) &&
          t.content <= Content::exp_avg_sq)
        found.push_back(std::move(t));
    SHARD8_REQUIRE(found.size() >= 3, "master and moments of the table were not found among {} tensors", found.size());
    return found;
  }

  void keep_table() {
    kept_.clear();
    for (const StateTensor& t : table())
      for (const auto& part : t.parts) kept_.emplace_back(part.local.data, part.local.data + part.local.bytes());
  }

  void restore_row() {
    MPI_Bcast(&token_, 1, MPI_INT32_T, 0, comm_);
    std::size_t number = 0;
    for (const StateTensor& t : table())
      for (const auto& part : t.parts) {
        const std::vector<std::byte>& kept = kept_.at(number++);
        const std::int64_t row = token_ - part.box.row0;
        if (row < 0 || row >= part.box.rows) continue;
        SHARD8_REQUIRE(!part.transposed, "{} is stored transposed", t.name);
        const std::size_t bytes = part.local.bytes() / static_cast<std::size_t>(part.box.rows);
        const std::size_t at = bytes * static_cast<std::size_t>(row);
        std::memcpy(part.local.data + at, kept.data() + at, bytes);
      }
  }

  const Plant plant_;
  Training& training_;
  MPI_Comm comm_;
  operation::Observer observer_;
  bool armed_ = false;
  std::int32_t token_ = 0;
  std::vector<std::vector<std::byte>> kept_;
};

Outcome train_here(const deck::Config& config, const Plant& plant, MPI_Comm comm) {
  Outcome outcome;
  Training training(config, comm);
  Planter planter(plant, training, comm);
  std::vector<train::StepResult> results;
  train::LoopHooks hooks;
  hooks.before = [&](std::int64_t step) { planter.before(step); };
  hooks.after = [&](const train::StepResult& result) {
    results.push_back(result);
    const auto norms = training.trainer().unit_norms();
    outcome.unit_norms.insert(outcome.unit_norms.end(), norms.begin(), norms.end());
    const auto of_weights = training.trainer().weight_norms();
    outcome.weight_norms.insert(outcome.weight_norms.end(), of_weights.begin(), of_weights.end());
  };
  hooks.between = [&](std::int64_t done) { planter.between(done); };
  train::train(training.trainer(), {.first = 0, .end = config.run.steps}, hooks);
  outcome.add(results);
  return outcome;
}

}  // namespace

std::string_view name_of(Fault fault) {
  constexpr std::array<std::string_view, 5> kNames = {"none", "a token dropped", "fc1 times 1 + 2^-8",
                                                      "a row not updated", "scale_inv doubled"};
  return kNames[static_cast<std::size_t>(fault)];
}

Outcome train_with(const deck::Config& config, const Plant& plant, MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm members = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank < config.mesh.ranks() ? 0 : MPI_UNDEFINED, 0, &members);
  Outcome outcome;
  if (members != MPI_COMM_NULL) {
    outcome = train_here(config, plant, members);
    MPI_Comm_free(&members);
  }
  for (std::vector<double>* values : {&outcome.losses, &outcome.norms, &outcome.unit_norms, &outcome.weight_norms}) {
    auto count = static_cast<int>(values->size());
    MPI_Bcast(&count, 1, MPI_INT, 0, comm);
    values->resize(static_cast<std::size_t>(count));
    MPI_Bcast(values->data(), count, MPI_DOUBLE, 0, comm);
  }
  return outcome;
}

}  // namespace shard8::test
