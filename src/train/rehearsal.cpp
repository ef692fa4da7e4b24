// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "deck/config.hpp"
#include "io/durable_file.hpp"
#include "tensor/transfer.hpp"
#include "train/trainer.hpp"

namespace shard8::train {

namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

/// Forward and backward, of what there is in the memory of activations.
void Trainer::rehearse_step(float scale) {
  timer_.begin_step();
  // The second micro-batch adds to gradients where the first one overwrites them.
  const std::int64_t micro_batches = std::min<std::int64_t>(setup_.layout.micro_batches, 2);
  weights_.begin_step(model::visits(setup_.config.model, setup_.weights.recipe, micro_batches));
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    model::Transformer::MicroBatch batch;
    batch.first = m == 0;
    batch.last = m + 1 == micro_batches;
    batch.scale = scale;
    model_.forward_backward(context_, {weights_, fp8_weights_}, gradients_, batch);
  }
  gradients_.finish();
  timer_.drop_step();
}

/// Runs forward and backward of made-up tokens on the run's own memory, before there is anything in it
/// to lose: every matrix product finds its algorithm by timing those that it is offered, once, what
/// cannot be computed here fails here, and libraries set themselves up. The choices are rank 0's, so
/// that equal products are summed in the same order everywhere, and are kept in a file beside the
/// metrics, from which the next run of this deck takes them.
void Trainer::rehearse(kernels::Tuning tuning) {
  const std::filesystem::path folder = setup_.config.output.dir;
  const auto plan_file = folder / deck::OutputConfig::kAlgorithms;
  const bool search = tuning == kernels::Tuning::exhaustive;  // every product anew, and nothing is kept
  std::string kept;
  if (!search) comm::agree_on_root(mesh_.world, 0, [&] { kept = read_file(plan_file); });
  mesh_.world.broadcast(kept, 0);
  const bool known = !kept.empty() && libraries_->adopt(kept);
  libraries_->set_tuning(tuning);

  const auto& a = state_.activations;
  const auto count = static_cast<std::size_t>(a.tokens.count());
  std::vector<std::int32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i)  // any tokens, all over the vocabulary
    tokens[i] = static_cast<std::int32_t>(i * 2654435761u % static_cast<std::uint64_t>(setup_.config.model.vocab));
  const std::vector<float> weights(count, 1.0f);
  tensor::to_device(exec_, a.tokens, tokens.data());
  tensor::to_device(exec_, a.targets, tokens.data());
  tensor::to_device(exec_, a.token_weights, weights.data());

  rehearse_step(1.0f / static_cast<float>(count));
  if (setup_.weights.recipe.delayed()) {  // from the second step on it casts in the kernels that make a matrix
    state_.scaling.reduce(mesh_.world);
    state_.scaling.update(exec_);
    rehearse_step(1.0f / static_cast<float>(count));
  }

  libraries_->set_tuning(kernels::Tuning::off);
  if (search) return;
  std::string chosen = libraries_->algorithms();
  mesh_.world.broadcast(chosen, 0);
  SHARD8_REQUIRE(libraries_->adopt(chosen), "rank 0's algorithms are of another kind of device or library");
  if (known && chosen == kept) return;
  comm::agree_on_root(mesh_.world, 0, [&] {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
      base::fail(base::ExitCode::environment,
                 "cannot make folder '{}': {}; set output.dir to a folder that can be made", folder.string(),
                 error.message());
    io::write_durably(plan_file.string(), chosen);
  });
}

}  // namespace shard8::train
