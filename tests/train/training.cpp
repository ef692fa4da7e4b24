// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/train/training.hpp"

#include <cmath>
#include <map>

#include "model/initialise.hpp"

namespace shard8::test {

Training::Training(const deck::Config& config, MPI_Comm comm)
    : mesh_(comm::make_mesh(comm::Communicator(comm, "world", comm::Waiting::yield, &log_),
                            train::mesh_shape(config.mesh))),
      setup_(train::Setup::make(config, mesh_.place, exec_.concurrency())),
      loader_(setup_.data(), config.model.seq, config.model.vocab, mesh_.shape.data_ranks(), mesh_.data_rank(), io_),
      trainer_(std::make_unique<train::Trainer>(exec_, setup_, mesh_, loader_, timer_)) {
  std::unique_ptr<io::TensorFile> file;
  if (!config.model.init_file.empty()) file = io::open_tensor_file(io_, config.model.init_file);
  trainer_->initialise(file.get());
}

std::vector<train::StepResult> Training::run(std::int64_t first, std::int64_t steps) {
  std::vector<train::StepResult> results;
  for (std::int64_t s = first; s < first + steps; ++s) results.push_back(trainer_->step(s));
  return results;
}

std::vector<Difference> compare(Training& training, What what, const io::TensorFile& file, MPI_Comm comm,
                                const Skip& skip) {
  std::map<std::string, std::array<double, 2>> sums;
  const auto& buffers = training.trainer().state().units;
  const int rank = training.mesh().place.shard;
  for (std::size_t u = 0; u < training.setup().units.size(); ++u) {
    const auto& unit = training.setup().units[u];
    for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
      const auto& layout = buffers.layout(static_cast<int>(u), static_cast<int>(p));
      const auto& shards =
          what == What::master ? buffers.master(static_cast<int>(u)) : buffers.gradient(static_cast<int>(u));
      for (const auto& whole : unit.parameters[p].boxes) {
        auto& sum = sums[whole.name];
        const auto box = model::clip(whole, layout.first_row(rank), layout.owned_rows(rank));
        if (box.rows == 0) continue;
        std::vector<float> reference(static_cast<std::size_t>(box.rows * box.cols));
        if (box.stored_transposed)
          file.read_box(box.name, {box.col, box.cols, box.row, box.rows}, reference.data(), box.rows);
        else
          file.read_box(box.name, {box.row, box.rows, box.col, box.cols}, reference.data(), box.cols);
        const float* ours = shards[p].slice(box.local_row, box.rows).as<float>();
        for (std::int64_t r = 0; r < box.rows; ++r) {
          if (skip && skip(box.name, box.row + r)) continue;
          for (std::int64_t c = 0; c < box.cols; ++c) {
            const double a = ours[r * box.cols + c];
            const double b =
                reference[static_cast<std::size_t>(box.stored_transposed ? c * box.rows + r : r * box.cols + c)];
            sum[0] += (a - b) * (a - b);
            sum[1] += b * b;
          }
        }
      }
    }
  }
  // Vocabulary ranks that own no row know no name: bring everybody to one list.
  std::vector<Difference> differences;
  for (const auto& name : file.names()) {
    std::array<double, 2> sum = sums.contains(name) ? sums[name] : std::array<double, 2>{};
    MPI_Allreduce(MPI_IN_PLACE, sum.data(), 2, MPI_DOUBLE, MPI_SUM, comm);
    differences.push_back({name, std::sqrt(sum[0]), std::sqrt(sum[1])});
  }
  return differences;
}

}  // namespace shard8::test
