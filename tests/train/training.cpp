// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/train/training.hpp"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "model/parameters.hpp"
#include "tensor/transfer.hpp"
#include "train/loop.hpp"
#include "train/state_tensors.hpp"

#if defined(SHARD8_CUDA)
#include <cstdio>
#include <cstdlib>

#include "comm/nccl/device.hpp"
#include "tensor/cuda/stream.hpp"
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

}  // namespace

Training::Training(const deck::Config& config, MPI_Comm comm, const Thresholds& thresholds)
    : exec_(thresholds.threads > 0 ? tests::exec_of_threads(thresholds.threads) : nullptr),
      assembly_(prepared(config), make_world(comm, log_, thresholds.messages), exec_ ? *exec_ : tests::exec(),
                exec_ ? thresholds.threads : tests::threads()) {
  assembly_.set_head_tokens(thresholds.head_tokens);
  assembly_.open_files();
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

}  // namespace shard8::test
