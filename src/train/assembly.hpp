// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/device.hpp"
#include "profile/measurement.hpp"
#include "tensor/runtime.hpp"
#include "train/skeleton_memory.hpp"
#include "train/trainer.hpp"

namespace shard8::train {

/// Error(deck) if the data has fewer steps than the run. A stream never ends; slabs do.
void check_steps(const data::Dataset& dataset, const deck::Config& config);

/// Opens one part of the deck's data for data rank `data_rank`. `listing` as for data::open_dataset(). Errors are those
/// of data::Loader, and Error(deck) if the data have fewer steps than the run, or for validation fewer batches than
/// run.validate_batches.
std::unique_ptr<data::Loader> open_part(const Setup& setup, std::int64_t data_rank, io::IoThread& io, data::Part part,
                                        const std::string& listing = {});

/// All that one rank trains with: mesh, data, memory and trainer. Runs, benchmarks and tests set them up here, in one
/// order.
///
/// Ranks agree on the result of what each does alone at start-up (opening files, taking memory, reading weights): a
/// failure on any rank is an AgreedError on all of them, with that rank's message (comm::agree). Nothing that
/// communicates runs inside an agreement. A rank that fails while ranks communicate throws an Error of its own, which
/// ends the job (comm::run_guarded).
class Assembly {
 public:
  /// Splits `world` into the groups of the deck's mesh. `config` must come from deck::load. `exec` must outlive the
  /// assembly. Kernels use `threads` threads. `program` is what measurements record of the program and its build.
  /// Collective. Error(environment) if `world` has another number of ranks than the mesh.
  Assembly(const deck::Config& config, comm::Communicator world, const tensor::Exec& exec, int threads,
           std::string program = "not recorded");

  /// Opens the data and model.init_file. Collective. AgreedError(deck) when a file is missing or does not fit the deck,
  /// or the data has fewer than run.steps steps; AgreedError(checkpoint) when a checkpoint of initial weights cannot be
  /// used; AgreedError(failed) when a file cannot be read. `say` gets warnings, on rank 0.
  void open_files(const std::function<void(const std::string&)>& say = [](const std::string&) {}) {
    open_data();
    open_weights(say);
  }
  /// The two parts of open_files().
  void open_data();
  void open_weights(const std::function<void(const std::string&)>& say);
  /// The weights will come from a checkpoint: start() fills them at random and reads nothing of model.init_file.
  void skip_initial_weights();
  /// What a skeleton of the communication waits with. To be called before start(); open_files() is not called for a
  /// skeleton.
  void set_waits(std::unique_ptr<operation::Waits> waits) { waits_ = std::move(waits); }
  /// The exchanges of the tensor group have these methods in place of the deck's. To be called before start().
  /// Collective.
  void set_overlap(const profile::ExchangeMethods& methods);
  /// Limits the chunks in which the head is computed to `tokens` tokens each. Without this call a chunk has as many
  /// tokens as fit the caches (model::Dims::head_tokens). To be called before start(), with the same number on every
  /// rank.
  void set_head_tokens(std::int64_t tokens);
  /// Whether rows come to experts by pushes (model::ExpertExchange). Without this call rows are pushed on devices
  /// alone. To be called before start(), with the same value on every rank. Error(failed) for pushes between hosts.
  void set_pushes(bool pushes);
  /// Takes all memory, fills the weights and, on a device, rehearses (Trainer::rehearse). `tuning` says how a product
  /// without an algorithm gets one. Algorithms are those of `saved_algorithms`, from a checkpoint, where the libraries
  /// take them, else of AlgorithmsFile, which keeps them; Tuning::exhaustive uses neither and times every product.
  /// remarks() then says why algorithms that were kept are not used.
  /// To be called after open_files(). Collective. AgreedError(environment) when a rank has not enough memory,
  /// AgreedError(deck) when model.init_file does not fit the model.
  void start(kernels::Tuning tuning = kernels::Tuning::candidates, const std::string& saved_algorithms = {});

  /// conditions_of() this job, with the setup of the first call. To be called before start(). Collective.
  const profile::Conditions& find_conditions();

  /// From now on the learning rate decays over so many steps in place of optimizer.decay_steps.
  void set_decay_steps(std::int64_t steps) { setup_.config.optimizer.decay_steps = steps; }

  /// The next step is `step`, and the training has had so many sequences before (data::Loader::begin_at).
  void begin_at(std::int64_t step, std::int64_t sequences) { loader_->begin_at(step, sequences); }

  const tensor::Exec& exec() const { return exec_; }
  const comm::Mesh& mesh() const { return mesh_; }
  const Setup& setup() const { return setup_; }
  profile::StepTimer& timer() { return timer_; }
  io::IoThread& io() { return io_; }
  /// Why exchanges of the tensor group that go by parts are messages, after start(); empty if they are not.
  const std::string& parts_problem() const { return parts_problem_; }
  /// Lines for the header, after start().
  const std::vector<std::string>& remarks() const { return remarks_; }
  /// The data of the training; to be called after open_files().
  const data::Loader& loader() const { return *loader_; }
  /// The data of validations; null if the setup does not validate. To be called after open_files().
  const data::Loader* validation() const { return validation_.get(); }
  /// The weights of model.init_file; null before open_files(), after start(), and if there is no such file.
  const io::TensorFile* initial_weights() const { return initial_weights_.get(); }
  /// The trainer; to be called after start().
  Trainer& trainer() { return *trainer_; }
  const Trainer& trainer() const { return *trainer_; }

 private:
  std::unique_ptr<data::Loader> open_loader(data::Part part);
  void take_memory();
  std::unique_ptr<State> make_state(const tensor::MemoryBytes& bytes);
  void rehearse(kernels::Tuning tuning, const std::string& saved_algorithms);

  const tensor::Exec& exec_;
  comm::Mesh mesh_;
  Setup setup_;
  const std::string program_;
  profile::Conditions conditions_;  ///< on which kept measurements depend; empty until they are found
  profile::StepTimer timer_;
  io::IoThread io_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<data::Loader> validation_;         ///< null: the setup does not validate
  std::unique_ptr<io::TensorFile> initial_weights_;  ///< open until they are read; null: random weights
  // On a device State's arenas of the kinds gathered, exchanged and pushed lie in these.
  std::shared_ptr<comm::DeviceMemory> gather_memory_, exchange_memory_;
  std::shared_ptr<comm::PushMemory> push_memory_;
  std::unique_ptr<tensor::StreamExec> push_exec_;  ///< on its stream
  std::vector<ReservedMemory> moved_memory_;       ///< of a skeleton on hosts, by MemoryKind
  std::unique_ptr<State> state_;
  std::shared_ptr<comm::DeviceMemory> reduce_memory_, replica_sum_memory_, tensor_reduce_memory_;
  std::shared_ptr<comm::PartsMemory> parts_memory_;
  std::string parts_problem_;
  std::vector<std::string> remarks_;
  bool can_push_ = true;  ///< false: dispatch and combine stay off
  std::unique_ptr<operation::Waits> waits_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace shard8::train
