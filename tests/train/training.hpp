// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "deck/load.hpp"
#include "io/tensor_file.hpp"
#include "tests/support/execution.hpp"
#include "train/trainer.hpp"

namespace shard8::test {

/// A mesh, data and trainer on a communicator, as the program puts them together; on a device with the
/// device that the program's main function took.
class Training {
 public:
  Training(const deck::Config& config, MPI_Comm comm);

  /// Runs the deck's steps from `first`.
  std::vector<train::StepResult> run(std::int64_t first, std::int64_t steps);

  const tensor::Exec& exec() const { return tests::exec(); }
  const comm::Mesh& mesh() const { return mesh_; }
  const train::Setup& setup() const { return setup_; }
  train::Trainer& trainer() { return *trainer_; }
  profile::CollectiveLog& log() { return log_; }
  profile::StepTimer& timer() { return timer_; }
  io::IoThread& io() { return io_; }

 private:
  profile::CollectiveLog log_;
  profile::StepTimer timer_;
  io::IoThread io_;
  comm::Mesh mesh_;
  train::Setup setup_;
  data::Loader loader_;
  std::unique_ptr<train::Trainer> trainer_;
};

/// Differences of a Hugging Face tensor, put together from the shards of all ranks.
struct Difference {
  std::string name;
  double error_norm = 0, reference_norm = 0;
  double relative() const { return error_norm / reference_norm; }
};

enum class What { master, gradient };

/// Rows (out) of a Hugging Face tensor that are not compared.
using Skip = std::function<bool(const std::string& name, std::int64_t row)>;

/// Compares every tensor with the one in `file`; collective over `comm`. Replicas are all compared.
std::vector<Difference> compare(Training& training, What what, const io::TensorFile& file, MPI_Comm comm,
                                const Skip& skip = {});

}  // namespace shard8::test
