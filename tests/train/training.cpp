// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/train/training.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "model/parameters.hpp"
#include "tensor/transfer.hpp"
#include "tests/support/compare.hpp"
#include "train/plan/plan.hpp"
#include "train/state.hpp"
#include "train/stopping.hpp"

#if defined(SHARD8_CUDA)
#include <cstdio>
#include <cstdlib>

#include "comm/nccl/device.hpp"
#include "tensor/cuda/device.hpp"
#include "tests/support/rank_device.hpp"
#endif

namespace shard8::test {
namespace {

#if defined(SHARD8_CUDA)

/// A folder of this process for the algorithms of matrix products, so that equal trainings take equal algorithms.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("shard8_training_" + std::to_string(getpid()))) {}
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

deck::Config prepared(deck::Config config) {
  static const Folder folder;
  config.output.dir = folder.path();
  return config;
}

void attach(comm::Communicator& world) {
  comm::nccl::Settings settings;
  settings.share_devices = shard8::tests::share_devices();
  settings.limits = {std::chrono::seconds(60), std::chrono::seconds(60)};
  settings.alarm = [](const std::string& text) {
    std::fprintf(stderr, "%s\n", text.c_str());
    std::_Exit(5);
  };
  world.attach(comm::nccl::make_device(world, tensor::cuda::stream_of(tests::exec()), settings), {.compute = true});
}

#else

const deck::Config& prepared(const deck::Config& config) { return config; }
void attach(comm::Communicator&) {}

#endif

comm::Communicator make_world(MPI_Comm comm, profile::CollectiveLog& log, const comm::Limits& limits) {
  comm::Communicator world(comm, "world", comm::Waiting::yield, &log, nullptr, limits);
  attach(world);
  return world;
}

/// Of a skeleton for which no time passes.
struct NoWaits final : operation::Waits {
  void wait(const tensor::Exec&, const operation::Place&, const operation::Product&) override {}
  void wait(const tensor::Exec&, const operation::Place&, const operation::Attention&) override {}
  void wait(const tensor::Exec&, const operation::Place&, const operation::Kernel&) override {}
};

std::string text(const train::Traffic& traffic, std::uint64_t times) {
  std::string lines;
  for (const auto& [key, calls] : traffic)
    lines += fmt::format("{} in {} of {}: {} bytes of {}, {} calls\n", profile::name_of(key.op), key.group,
                         key.group_size, key.bytes, key.dtype, calls * times);
  return lines;
}

}  // namespace

Training::Training(const deck::Config& config, MPI_Comm comm, const Thresholds& thresholds)
    : exec_(thresholds.threads > 0 ? tests::exec_of_threads(thresholds.threads) : nullptr),
      assembly_(prepared(config), make_world(comm, log_, thresholds.messages), exec_ ? *exec_ : tests::exec(),
                exec_ ? thresholds.threads : tests::threads()) {
  assembly_.set_head_tokens(thresholds.head_tokens);
  if (thresholds.pushes) assembly_.set_pushes(*thresholds.pushes);
  const auto skeleton = config.run.skeleton;
  if (skeleton == deck::Skeleton::none) assembly_.open_files();
  if (skeleton == deck::Skeleton::communication) assembly_.set_waits(std::make_unique<NoWaits>());
  assembly_.start();
  tensor::finish(exec());
  mesh().world.record_device_calls();
  log_.clear();  // the collectives of start-up
}

std::vector<train::StepResult> Training::run(std::int64_t first, std::int64_t steps) {
  std::vector<train::StepResult> results;
  train::LoopHooks hooks;
  hooks.after = [&](const train::StepResult& result) { results.push_back(result); };
  train::train(trainer(), {.first = first, .end = first + steps}, hooks);
  mesh().world.record_device_calls();
  return results;
}

std::vector<Difference> compare(Training& training, What what, const io::TensorFile& file, MPI_Comm comm,
                                const Skip& skip) {
  std::map<std::string, std::array<double, 2>> sums;
  const auto& buffers = training.trainer().state().units;
  for (std::size_t u = 0; u < training.setup().units.size(); ++u) {
    const auto& unit = training.setup().units[u];
    for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
      const fsdp::WeightForms& weight = buffers.weights(static_cast<int>(u))[p];
      const tensor::Tensor& shard = what == What::master ? weight.master : weight.gradient;
      for (const auto& source : unit.parameters[p].sources) {
        auto& sum = sums[source.name];
        const auto part = model::shard_part(source, weight.first_row(), weight.owned_rows());
        if (part.rows == 0) continue;
        const io::Box& box = part.stored.box;
        std::vector<float> reference(static_cast<std::size_t>(box.count()));
        file.read_box(source.name, box, reference.data(), box.cols);
        const auto ours = tensor::to_host<float>(training.exec(), shard.slice(part.row, part.rows));
        for (std::int64_t r = 0; r < box.rows; ++r) {
          for (std::int64_t c = 0; c < box.cols; ++c) {
            const std::int64_t out = source.stored_transposed ? box.col0 + c : box.row0 + r;
            if (skip && skip(source.name, out)) continue;
            const double a = ours[static_cast<std::size_t>(part.stored.at(box.row0 + r, box.col0 + c))];
            const double b = reference[static_cast<std::size_t>(r * box.cols + c)];
            sum[0] += (a - b) * (a - b);
            sum[1] += b * b;
          }
        }
      }
    }
  }
  std::vector<Difference> differences;
  for (const auto& name : file.names()) {
    auto& sum = sums.at(name);
    MPI_Allreduce(MPI_IN_PLACE, sum.data(), 2, MPI_DOUBLE, MPI_SUM, comm);
    differences.push_back({name, std::sqrt(sum[0]), std::sqrt(sum[1])});
  }
  return differences;
}

void PrintTo(const Hashed& h, std::ostream* out) { *out << h.label << ": " << h.hash; }

std::vector<Hashed> hashes_of(Training& training) {
  std::vector<Hashed> hashes;
  std::vector<std::uint64_t> sums;
  for (const auto& t : train::state_tensors(training.setup(), training.trainer().state())) {
    hashes.push_back({t.label(), 0});
    sums.push_back(t.counts(training.mesh().place) ? hash_parts(training.exec(), t) : 0);
  }
  training.mesh().world.all_reduce(sums, comm::Communicator::Reduce::sum);
  for (std::size_t i = 0; i < sums.size(); ++i) hashes[i].hash = sums[i];
  return hashes;
}

Curve train_curve(const deck::Config& config) {
  Training training(config, MPI_COMM_WORLD);
  Curve curve;
  for (const auto& r : training.run(0, config.run.steps)) {
    curve.losses.push_back(r.loss);
    curve.norms.push_back(r.gradient_norm);
  }
  const auto& units = training.trainer().state().units;
  for (int u = 0; u < static_cast<int>(units.units().size()) && !units.options().master_remainder; ++u)
    for (const auto& weight : units.weights(u)) {
      const auto elements = tensor::to_host<float>(training.exec(), weight.master);
      curve.weights.insert(curve.weights.end(), elements.begin(), elements.end());
    }
  return curve;
}

void expect_same(const Curve& got, const Curve& want) {
  EXPECT_TRUE(tests::same_bits(got.losses, want.losses)) << "loss by step";
  EXPECT_TRUE(tests::same_bits(got.norms, want.norms)) << "gradient norm by step";
  EXPECT_TRUE(tests::same_bits(got.weights, want.weights)) << "weights at the end";
}

void expect_planned_traffic(Training& training, std::uint64_t steps) {
  train::Traffic counted;
  for (const auto& [key, stats] : training.log().entries()) counted[key] = stats.calls;
  const auto planned = train::traffic(training.setup());
  EXPECT_EQ(text(counted, 1), text(planned, steps));
  EXPECT_EQ(counted.empty(), training.mesh().world.size() == 1);
  EXPECT_EQ(text(train::make_plan(training.setup().config, 1).traffic, 1), text(planned, 1));
}

void expect_planned_memory(Training& training) {
  const auto plan = train::make_plan(training.setup().config, training.setup().threads);
  const auto& bytes = training.trainer().state().arenas.bytes();
  EXPECT_EQ(train::state_bytes(training.setup()), bytes);
  if (training.setup().config.optimizer.clip > 0 || training.setup().place.first(base::AxisSet::tensor))
    EXPECT_EQ(bytes, plan.memory);
  else
    for (std::size_t kind = 0; kind < bytes.size(); ++kind) EXPECT_LE(bytes[kind], plan.memory[kind]);
  if (tensor::kDevice) return;  // on a device groups hold no memory of their own for sums
  const auto& mesh = training.mesh();
  std::size_t held = mesh.world.scratch_bytes();
  for (const auto& [axes, group] : mesh.groups) held += group.scratch_bytes();
  EXPECT_LE(held, plan.reduction_buffers);
  // The plan is larger only because it rounds each tensor up.
  EXPECT_GE(static_cast<double>(held), 0.97 * static_cast<double>(plan.reduction_buffers));
}

void hand_over(Training& from, Training& to, std::int64_t step) {
  const deck::Fp8Config &before = from.setup().config.fp8, &now = to.setup().config.fp8;
  const bool starts_fp8 = now.on() && before.margin != now.margin;
  const auto sources = train::state_tensors(from.setup(), from.trainer().state());
  const auto targets = train::state_tensors(to.setup(), to.trainer().state());
  SHARD8_REQUIRE(sources.size() == targets.size(), "the trainings keep {} and {} tensors", sources.size(),
                 targets.size());
  for (std::size_t t = 0; t < targets.size(); ++t) {
    if (starts_fp8 && targets[t].content >= checkpoint::Content::fp8_rowwise) continue;
    for (std::size_t p = 0; p < targets[t].parts.size(); ++p) {
      const tensor::Tensor &source = sources[t].parts[p].local, &target = targets[t].parts[p].local;
      SHARD8_REQUIRE(source.bytes() == target.bytes() && source.dtype == target.dtype, "{} has another layout",
                     targets[t].label());
      const auto bytes = tensor::to_host<std::byte>(from.exec(), source);
      tensor::to_device(to.exec(), target, bytes.data());
    }
  }
  if (starts_fp8) to.trainer().start();
  to.assembly().begin_at(step, step * to.setup().config.data.batch);
}

}  // namespace shard8::test
