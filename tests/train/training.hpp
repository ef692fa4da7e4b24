// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "deck/config.hpp"
#include "deck/load.hpp"
#include "io/tensor_file.hpp"
#include "tests/support/execution.hpp"
#include "train/assembly.hpp"

namespace shard8::test {

/// From where on the program does something in another way. Tests set small numbers, so that small decks get there.
struct Thresholds {
  comm::Limits messages{};
  std::int64_t head_tokens = 0;  ///< train::Assembly::set_head_tokens
  int threads = 0;               ///< of kernels, not of the BLAS; 0: those of tests::exec(). Devices have none
  std::optional<bool> pushes;    ///< train::Assembly::set_pushes; without it, as in the program
};

/// A training on a communicator, put together by train::Assembly as in the program. It computes on the device or host
/// that the test's main function took. A skeleton of the communication waits for nothing.
class Training {
 public:
  Training(const deck::Config& config, MPI_Comm comm, const Thresholds& thresholds = {});

  /// Trains `steps` steps from number `first` on.
  std::vector<train::StepResult> run(std::int64_t first, std::int64_t steps);

  train::Assembly& assembly() { return assembly_; }
  const tensor::Exec& exec() const { return assembly_.exec(); }
  const comm::Mesh& mesh() const { return assembly_.mesh(); }
  const train::Setup& setup() const { return assembly_.setup(); }
  train::Trainer& trainer() { return assembly_.trainer(); }
  profile::CollectiveLog& log() { return log_; }
  profile::StepTimer& timer() { return assembly_.timer(); }
  io::IoThread& io() { return assembly_.io(); }

 private:
  profile::CollectiveLog log_;
  std::shared_ptr<const tensor::Exec> exec_;  ///< null: tests::exec()
  train::Assembly assembly_;
};

/// A persistent tensor and its mesh-independent hash.
struct Hashed {
  std::string label;
  std::uint64_t hash = 0;
  bool operator==(const Hashed&) const = default;
};
void PrintTo(const Hashed& h, std::ostream* out);

/// The hashes of all persistent tensors, each over the whole tensor. Collective over the mesh.
std::vector<Hashed> hashes_of(Training& training);

/// The differences between a Hugging Face tensor, put together from the shards of all ranks, and the expected one.
struct Difference {
  std::string name;
  double error_norm = 0, reference_norm = 0;
  double relative() const { return error_norm / reference_norm; }
};

enum class What { master, gradient };

/// Whether a row (of `out`) of the Hugging Face tensor of this name is left out of the comparison.
using Skip = std::function<bool(const std::string& name, std::int64_t row)>;

/// Compares every tensor with that of the same name in `file`, on all replicas. Collective over `comm`.
std::vector<Difference> compare(Training& training, What what, const io::TensorFile& file, MPI_Comm comm,
                                const Skip& skip = {});

/// The results of a training, to be compared bit for bit.
struct Curve {
  std::vector<double> losses, norms;
  std::vector<float> weights;  ///< this rank's fp32 master shards at the end; empty with master bf16_remainder
};

/// Trains all steps of the deck on all ranks.
Curve train_curve(const deck::Config& config);

void expect_same(const Curve& got, const Curve& want);

/// Expects that the training's log has exactly the collectives of the plan, in each of the steps that it counted.
void expect_planned_traffic(Training& training, std::uint64_t steps);
/// Expects that the arenas have the planned sizes, byte for byte, and that the communicators hold at most what is
/// planned. Without clipping tensor rank 0, for which the plan is made, takes the most: the others add up fewer
/// squares.
void expect_planned_memory(Training& training);

/// Runs the deck's steps from the first to the last, records what they do (products, attention, kernels by their Kokkos
/// labels, collectives, and on hosts the waits for collectives), and compares this with train::record_step, in
/// order. Kernels are compared by name and phase; several launches of a kernel in a row count as one. Afterwards the
/// training's log has the collectives of all steps but the first.
void expect_listed_operations(Training& training);

/// Copies the state of a training to another one on the same mesh, in memory, when `step` steps have been trained. The
/// decks may differ in keys that change no dtype. If the keys of the group fp8 differ, weights in FP8 and all scales
/// are those of a start. It is what a restart does, without checkpoints.
void hand_over(Training& from, Training& to, std::int64_t step);

}  // namespace shard8::test
