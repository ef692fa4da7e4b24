// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/assembly.hpp"

#include <new>
#include <optional>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/text.hpp"
#include "comm/agree.hpp"
#include "comm/host_waits.hpp"
#include "comm/node.hpp"
#include "deck/device.hpp"
#include "kernels/libraries.hpp"
#include "train/algorithms.hpp"
#include "train/device.hpp"
#include "train/inputs.hpp"
#include "train/plan/plan.hpp"
#include "train/setup.hpp"

namespace shard8::train {

using base::ExitCode;
using tensor::MemoryBytes;
using tensor::MemoryKind;

namespace {

std::byte* data_of(const std::shared_ptr<comm::DeviceMemory>& memory) {
  return memory == nullptr ? nullptr : memory->data();
}

/// Allocates all arenas. Error(environment), with the bytes of all of them, when one cannot be allocated.
tensor::ArenaSet allocate(const MemoryBytes& bytes, const tensor::GivenMemory& given) {
  try {
    return tensor::ArenaSet(bytes, given);
  } catch (const base::Error& e) {
    base::fail(ExitCode::environment,
               "{}; training takes {} bytes ({:.2f} GiB) of this rank in all (see shard8 plan): use more ranks in "
               "mesh.shard or mesh.tensor, a smaller data.micro_batch or model.recompute, or raise the limit on this "
               "process's memory (ulimit -v, the job's --mem)",
               e.what(), tensor::total(bytes), static_cast<double>(tensor::total(bytes)) / base::kGiB);
  }
}

/// comm::agree, where std::bad_alloc becomes an Error(environment) that says what to do.
void agree_alone(const comm::Communicator& group, const std::function<void()>& action) {
  comm::agree(group, [&] {
    try {
      action();
    } catch (const std::bad_alloc&) {
      base::fail(ExitCode::environment,
                 "out of memory while training was set up: use more ranks in mesh.shard or mesh.tensor, or raise the "
                 "limit on this process's memory (ulimit -v, the job's --mem)");
    }
  });
}

}  // namespace

void check_steps(const data::Dataset& dataset, const deck::Config& config) {
  const auto available = dataset.steps_available();
  if (available && *available < config.run.steps)
    base::fail(ExitCode::deck, "run.steps = {}, but {} has only {} steps: lower run.steps", config.run.steps,
               dataset.description(), *available);
}

std::unique_ptr<data::Loader> open_part(const Setup& setup, std::int64_t data_rank, io::IoThread& io, data::Part part,
                                        const std::string& listing) {
  const deck::Config& config = setup.config;
  auto loader = std::make_unique<data::Loader>(setup.data(), config.model.seq, config.model.vocab,
                                               setup.layout.data_ranks, data_rank, io, listing, part);
  if (part == data::Part::training) {
    check_steps(loader->dataset(), config);
    return loader;
  }
  const auto available = loader->dataset().steps_available();
  if (available && *available < config.run.validate_batches)
    base::fail(
        ExitCode::deck,
        "run.validate_batches = {}, but {} have only {} of {} sequences: lower run.validate_batches, or set it to "
        "0 for all",
        config.run.validate_batches, loader->dataset().description(), base::count(*available, "batch", "batches"),
        config.data.batch);
  return loader;
}

Assembly::Assembly(const deck::Config& config, comm::Communicator world, const tensor::Exec& exec, int threads,
                   std::string program)
    : exec_(exec),
      mesh_(comm::make_mesh(std::move(world), config.mesh.extents(), model::Overlap::make(config).groups())),
      setup_(Setup::make(config, mesh_.world.rank(), threads)),
      program_(std::move(program)),
      timer_(make_clock(exec)) {
  if (comm::HostWaits* const waits = mesh_.world.waits()) timer_.set_progress(&waits->progress());
  if (!setup_.dims.overlap.of_experts() || can_push_rows(mesh_)) return;
  can_push_ = false;
  remarks_.push_back(fmt::format("overlap    dispatch and combine are off: {}", kCannotPushRows));
  set_overlap(setup_.config.overlap.methods);
}

void Assembly::open_data() {
  loader_ = open_loader(data::Part::training);
  if (setup_.validates()) validation_ = open_loader(data::Part::validation);
}

/// Rank 0 looks at the files, and tells the other ranks: a folder may have thousands, and a job as many ranks.
std::unique_ptr<data::Loader> Assembly::open_loader(data::Part part) {
  const comm::Communicator& world = mesh_.world;
  std::string listing;
  std::unique_ptr<data::Loader> loader;
  const auto open = [&] { loader = open_part(setup_, setup_.place.rank(base::AxisSet::data), io_, part, listing); };
  comm::agree_on_root(world, 0, [&] {
    open();
    listing = loader->dataset().listing();
  });
  world.broadcast(listing, 0);
  agree_alone(world, [&] {
    if (world.rank() != 0) open();
  });
  return loader;
}

void Assembly::open_weights(const std::function<void(const std::string&)>& say) {
  if (!setup_.config.model.init_file.empty()) initial_weights_ = open_initial_weights(mesh_.world, io_, setup_, say);
}

void Assembly::skip_initial_weights() { initial_weights_.reset(); }

void Assembly::set_overlap(const profile::ExchangeMethods& methods) {
  SHARD8_REQUIRE(state_ == nullptr, "overlap was set after the start");
  const comm::OverlappedGroups overlapped = setup_.dims.overlap.groups();
  const std::int64_t head_tokens = setup_.dims.head_tokens;
  const bool pushes = setup_.dims.experts.pushes;
  deck::Config config = setup_.config;
  config.overlap.methods = methods;
  for (const profile::Exchange exchange : profile::kExpertExchanges)
    if (!can_push_) config.overlap.methods[exchange] = profile::ExchangeMethod::off;
  setup_ = Setup::make(config, mesh_.world.rank(), setup_.threads);
  setup_.dims.head_tokens = head_tokens;
  setup_.dims.experts.pushes = pushes;
  // The groups of a mesh made for overlap have other streams.
  if (setup_.dims.overlap.groups() != overlapped)
    mesh_ = comm::make_mesh(mesh_.world.same(), setup_.mesh, setup_.dims.overlap.groups());
}

void Assembly::set_head_tokens(std::int64_t tokens) {
  SHARD8_REQUIRE(state_ == nullptr && tokens >= 0, "chunks of the head with {} tokens were set {}", tokens,
                 state_ == nullptr ? "before the start" : "after the start");
  setup_.dims.head_tokens = tokens;
}

void Assembly::set_pushes(bool pushes) {
  model::ExpertDims& experts = setup_.dims.experts;
  SHARD8_REQUIRE(state_ == nullptr && experts.on(), "pushes of rows were set {}",
                 state_ == nullptr ? "without experts" : "after the start");
  SHARD8_REQUIRE(!pushes || experts.ranks == 1 || setup_.dims.device,
                 "rows cannot be pushed between {} hosts; allowed is a rank that holds all experts", experts.ranks);
  experts.pushes = pushes;
}

const profile::Conditions& Assembly::find_conditions() {
  if (conditions_.empty()) {
    SHARD8_REQUIRE(state_ == nullptr, "conditions of measurements are asked for after the start");
    conditions_ = conditions_of(mesh_, setup_, program_);
  }
  return conditions_;
}

void Assembly::start(kernels::Tuning tuning, const std::string& saved_algorithms) {
  if (setup_.dims.device && !deck::carried_by_hosts(setup_.config.run)) find_conditions();  // for rehearse()
  take_memory();
  std::optional<comm::HostWaits::Unlimited> reading;
  if (initial_weights_ != nullptr) reading.emplace(mesh_.world.waits());
  agree_alone(mesh_.world, [&] {
    trainer_ = setup_.config.run.skeleton == deck::Skeleton::none
                   ? std::make_unique<Trainer>(exec_, setup_, mesh_, *state_, *loader_, timer_)
                   : std::make_unique<Trainer>(exec_, setup_, mesh_, *state_, waits_.get(), timer_);
    trainer_->push_rows_through(push_memory_.get(), push_exec_ == nullptr ? nullptr : &push_exec_->get());
    reading_weights(ExitCode::deck, [&] { trainer_->initialise(initial_weights_.get()); });
    initial_weights_.reset();
    if (validation_ != nullptr) trainer_->validate_with(*validation_);
  });
  reading.reset();
  trainer_->start();
  if (trainer_->libraries() == nullptr) return;
  rehearse(tuning, saved_algorithms);
  trainer_->start();  // the rehearsal changed scales
}

/// Ranks agree twice: that each device has the memory, before they take any of it together, and once each has taken its
/// own.
void Assembly::take_memory() {
  MemoryBytes bytes = state_bytes(setup_);
  agree_alone(mesh_.world, [&] { check_device_memory(setup_); });
  const comm::Communicator& shard_group = mesh_.group(base::AxisSet::shard);
  const comm::Communicator& tensor_group = mesh_.group(base::AxisSet::tensor);
  gather_memory_ = shard_group.gather_memory(bytes[static_cast<std::size_t>(MemoryKind::gathered)]);
  exchange_memory_ = tensor_group.gather_memory(bytes[static_cast<std::size_t>(MemoryKind::exchanged)]);
  if (setup_.dims.experts.pushes && setup_.mesh.expert > 1) {
    push_memory_ = mesh_.group(base::AxisSet::expert).push_memory(bytes[static_cast<std::size_t>(MemoryKind::pushed)]);
    if (push_memory_ == nullptr) {
      setup_.dims.experts.pushes = false;
      bytes = state_bytes(setup_);
    }
  }
  agree_alone(mesh_.world, [&] {
    if (push_memory_ != nullptr) push_exec_ = std::make_unique<tensor::StreamExec>(push_memory_->stream());
    state_ = make_state(bytes);
    if (!deck::carried_by_hosts(setup_.config.run)) kernels::reserve_blas_memory(setup_.threads);
  });
  reduce_memory_ = shard_group.reduce_memory(reduce_memory_bytes(setup_, state_->units));
  replica_sum_memory_ =
      mesh_.group(base::AxisSet::replicate).all_reduce_memory(all_reduce_memory_bytes(setup_, state_->units));
  const UserBuffers buffers = user_buffers(setup_);
  if (buffers.reduce > 0) tensor_reduce_memory_ = tensor_group.reduce_memory(buffers.reduce);
  if (buffers.gather + buffers.scatter > 0)
    parts_memory_ = tensor_group.parts_memory(buffers.gather, buffers.scatter, &parts_problem_);
  // Other jobs may have taken the memory in between.
  for (const auto& [name, transport] : conditions_)
    if (name == condition::kTransport && transport == comm::kSharedMemory && !parts_problem_.empty())
      remarks_.push_back(
          "overlap    methods were timed in memory that ranks share, which this run then could not have");
}

std::unique_ptr<State> Assembly::make_state(const MemoryBytes& bytes) {
  tensor::GivenMemory given;
  given[MemoryKind::gathered] = data_of(gather_memory_);
  given[MemoryKind::exchanged] = data_of(exchange_memory_);
  given[MemoryKind::pushed] = data_of(push_memory_);
  if (!deck::carried_by_hosts(setup_.config.run)) return std::make_unique<State>(setup_, allocate(bytes, given));
  const MemoryBytes addresses = skeleton_state_bytes(setup_);
  moved_memory_ = MovedMemory(setup_).take(addresses);
  for (std::size_t k = 0; k < moved_memory_.size(); ++k) given[static_cast<MemoryKind>(k)] = moved_memory_[k].data();
  return std::make_unique<State>(setup_, tensor::ArenaSet(addresses, given), 0);
}

/// With an exhaustive search every product is timed, and the file of algorithms is neither read nor written.
void Assembly::rehearse(kernels::Tuning tuning, const std::string& saved_algorithms) {
  AlgorithmsFile file(setup_.config.output.dir, mesh_.world, conditions_);
  const bool keep = tuning != kernels::Tuning::exhaustive;
  if (keep && !file.adopt(*trainer_->libraries(), saved_algorithms)) file.load(*trainer_->libraries());
  for (const std::string& remark : file.remarks()) remarks_.push_back("products   " + remark);
  trainer_->rehearse(tuning);
  if (keep) file.store(*trainer_->libraries());
}

}  // namespace shard8::train
