// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "comm/device.hpp"
#include "train/trainer.hpp"

namespace shard8::train {

/// All that one rank trains with: mesh, data, memory and trainer, put together in one order for runs, benchmarks and
/// tests.
///
/// What a rank does alone at start-up (opening files, taking memory, reading weights) is agreed on: a failure on any
/// rank is an AgreedError on all of them, with that rank's message. Nothing that communicates runs inside an agreement.
/// A rank that fails while ranks communicate throws an Error of its own, which ends the job (comm::run_guarded).
class Assembly {
 public:
  /// Splits `world`, whose ranks must be those of the deck's mesh. `exec` must outlive the assembly. Kernels use
  /// `threads` threads. Collective.
  Assembly(const deck::Config& config, comm::Communicator world, const tensor::Exec& exec, int threads);

  /// Opens the data and model.init_file. Collective. AgreedError(deck) when a file is missing, or the data does not
  /// last for run.steps.
  void open_files();
  /// Takes all memory, fills the weights and, on a device, rehearses (see Trainer::rehearse) with the given search for
  /// products that have no algorithm yet. After open_files(). Collective. AgreedError(environment) when a rank's memory
  /// cannot be had, AgreedError(deck) when model.init_file does not fit the model.
  void start(kernels::Tuning tuning = kernels::Tuning::candidates);

  const tensor::Exec& exec() const { return exec_; }
  const comm::Mesh& mesh() const { return mesh_; }
  const Setup& setup() const { return setup_; }
  profile::StepTimer& timer() { return timer_; }
  io::IoThread& io() { return io_; }
  /// After open_files().
  const data::Loader& loader() const { return *loader_; }
  /// After start().
  Trainer& trainer() { return *trainer_; }
  const Trainer& trainer() const { return *trainer_; }

 private:
  void take_memory();
  void rehearse(kernels::Tuning tuning);

  const tensor::Exec& exec_;
  comm::Mesh mesh_;
  Setup setup_;
  profile::StepTimer timer_;
  io::IoThread io_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<io::TensorFile> initial_weights_;  ///< until they are read; none: random weights
  // The arenas of State lie over the first two on a device.
  std::shared_ptr<comm::DeviceMemory> gather_memory_, exchange_memory_;
  std::unique_ptr<State> state_;
  std::shared_ptr<comm::DeviceMemory> reduce_memory_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace shard8::train
