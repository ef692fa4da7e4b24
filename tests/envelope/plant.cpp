// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/envelope/plant.hpp"

#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "tests/train/training.hpp"
#include "train/loop.hpp"
#include "train/state_tensors.hpp"

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
    const auto& units = training_.trainer().state().units;
    const auto unit = static_cast<std::size_t>(1 + plant_.layer);
    const auto& parameters = units.units().at(unit).parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (!parameters[p].name.ends_with("fc1.weight")) continue;
      const tensor::Tensor& master = units.weights(static_cast<int>(unit))[p].master;
      auto* const values = reinterpret_cast<float*>(master.data);
      for (std::int64_t i = 0; i < master.count(); ++i) values[i] *= 1 + 0x1p-8F;
      return;
    }
    base::fail(base::ExitCode::failed, "layer {} has no fc1.weight", plant_.layer);
  }

  void double_scales() {
    const auto& units = training_.trainer().state().units;
    const auto unit = static_cast<std::size_t>(1 + plant_.layer);
    constexpr std::array<std::string_view, 4> kLinears = {"qkv.weight", "proj.weight", "fc1.weight", "fc2.weight"};
    const auto& parameters = units.units().at(unit).parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (!parameters[p].name.ends_with(kLinears.at(static_cast<std::size_t>(plant_.linear)))) continue;
      const fsdp::WeightForms& weight = units.weights(static_cast<int>(unit))[p];
      const fsdp::Copies& stored = weight.stored;
      SHARD8_REQUIRE(!stored.empty(), "no {} is stored in FP8", parameters[p].name);
      double_all(stored.forward.scale_inv);
      if (stored.two() || stored.forward.empty()) double_all(stored.backward.scale_inv);
      return;
    }
    base::fail(base::ExitCode::failed, "layer {} has no linear {}", plant_.layer, plant_.linear);
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
  hooks.after = [&](const train::StepResult& result) { results.push_back(result); };
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
  const auto steps = static_cast<std::size_t>(config.run.steps);
  for (std::vector<double>* values : {&outcome.losses, &outcome.norms}) {
    values->resize(steps);
    MPI_Bcast(values->data(), static_cast<int>(steps), MPI_DOUBLE, 0, comm);
  }
  return outcome;
}

}  // namespace shard8::test
