// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "comm/agree.hpp"
#include "io/file.hpp"
#include "kernels/libraries.hpp"
#include "tensor/runtime.hpp"
#include "tensor/transfer.hpp"
#include "train/algorithms.hpp"
#include "train/device.hpp"
#include "train/overlap/choice.hpp"
#include "train/plan/plan.hpp"
#include "train/setup.hpp"
#include "train/state.hpp"

namespace shard8::train {

using tensor::MemoryKind;

/// Memory of one rank, taken as Assembly takes it.
struct OverlapTiming::Memory {
  std::shared_ptr<comm::DeviceMemory> exchanged;
  std::unique_ptr<OverlapMemory> layer;
  std::shared_ptr<comm::DeviceMemory> reduce;
  std::shared_ptr<comm::PartsMemory> parts;
  std::shared_ptr<comm::PushMemory> pushed;
  std::unique_ptr<tensor::StreamExec> push_exec;
  std::string parts_problem, push_problem;

  Memory(const Setup& setup, const comm::Mesh& mesh) {
    const tensor::MemoryBytes bytes = OverlapMemory::bytes(setup);
    const comm::Communicator& group = mesh.group(base::AxisSet::tensor);
    exchanged = group.gather_memory(bytes[static_cast<std::size_t>(MemoryKind::exchanged)]);
    tensor::GivenMemory given;
    if (exchanged != nullptr) given[MemoryKind::exchanged] = exchanged->data();
    if (setup.dims.overlap.of_experts()) {
      if (can_push_rows(mesh))
        pushed = mesh.group(base::AxisSet::expert).push_memory(bytes[static_cast<std::size_t>(MemoryKind::pushed)]);
      else
        push_problem = kCannotPushRows;
      if (pushed != nullptr) given[MemoryKind::pushed] = pushed->data();
    }
    comm::agree(mesh.world, [&] {
      if (pushed != nullptr) push_exec = std::make_unique<tensor::StreamExec>(pushed->stream());
      layer = std::make_unique<OverlapMemory>(setup, tensor::ArenaSet(bytes, given));
      kernels::reserve_blas_memory(setup.threads);
    });
    const UserBuffers buffers = user_buffers(setup);
    if (buffers.reduce > 0) reduce = group.reduce_memory(buffers.reduce);
    if (buffers.gather + buffers.scatter > 0)
      parts = group.parts_memory(buffers.gather, buffers.scatter, &parts_problem);
  }
};

OverlapTiming::OverlapTiming(const Setup& setup, const comm::Mesh& mesh, const tensor::Exec& exec,
                             const std::function<void(kernels::Libraries&)>& adopt)
    : exec_(exec),
      world_(mesh.world),
      aligned_group_(
          mesh.group(setup.dims.overlap.of_experts() ? base::AxisSet::model : base::AxisSet(base::Axis::tensor))),
      clock_(make_clock(exec)),
      executor_(exec, timer_, [this] { world_.progress(); }) {
  const model::Overlap& overlap = setup.dims.overlap;
  SHARD8_REQUIRE(overlap.any(), "no exchange of {} tensor ranks and {} expert ranks can overlap", setup.dims.tensor,
                 setup.dims.experts.ranks);
  memory_ = std::make_unique<Memory>(setup, mesh);
  if (executor_.device()) libraries_ = std::make_unique<kernels::Libraries>();
  const kernels::Workspace workspace{memory_->layer->workspace, libraries_.get()};
  context_.reset(new model::Context{executor_, mesh.group(base::AxisSet::tensor), workspace});
  if (memory_->pushed != nullptr) {
    context_->expert_group = &mesh.group(base::AxisSet::expert);
    context_->push_memory = memory_->pushed.get();
    context_->push_exec = &memory_->push_exec->get();
  }
  timer_.begin_step();
  memory_->layer->fill(exec);
  if (overlap.of_tensor_group()) cases_ = overlap_cases(*context_, overlap, *memory_->layer, wgrads_add(setup));
  if (memory_->pushed != nullptr)
    std::ranges::move(expert_cases(*context_, setup, *memory_->layer), std::back_inserter(cases_));
  align();  // the first all-reduce may make a communicator, which takes long
  tensor::finish(exec);
  timer_.discard_step();
  if (libraries_ == nullptr) return;
  if (adopt) adopt(*libraries_);
  choose_algorithms();
}

OverlapTiming::~OverlapTiming() = default;

std::size_t OverlapTiming::bytes(const Setup& setup) {
  return tensor::total(OverlapMemory::bytes(setup)) + user_buffers(setup).bytes();
}

const std::string& OverlapTiming::parts_problem() const { return memory_->parts_problem; }
const std::string& OverlapTiming::push_problem() const { return memory_->push_problem; }

void OverlapTiming::once(const std::function<void()>& call) {
  timer_.begin_step();
  world_.barrier();
  call();
  tensor::finish(exec_);
  end_calls();
}

std::vector<double> OverlapTiming::in_turns(std::span<const std::function<void()>* const> variants, int repetitions,
                                            bool warm_up) {
  SHARD8_REQUIRE(!variants.empty() && repetitions > 0, "{} variants are timed {} times", variants.size(), repetitions);
  const int untimed = warm_up ? 1 : 0;
  timer_.begin_step();
  world_.barrier();
  clock_->begin();
  for (int round = 0; round < untimed + repetitions; ++round) {
    for (const std::function<void()>* variant : variants) {
      align();
      clock_->mark();
      (*variant)();
      if (!executor_.device()) tensor::finish(exec_);
      clock_->mark();
    }
  }
  tensor::finish(exec_);
  clock_->finish();
  // Two intervals come before the first call, and one, of aligning ranks, between two calls.
  const std::span<const double> seconds = clock_->intervals();
  std::vector<double> milliseconds(variants.size());
  for (std::size_t i = static_cast<std::size_t>(untimed) * variants.size(); 2 + 2 * i < seconds.size(); ++i)
    milliseconds[i % variants.size()] += 1e3 * seconds[2 + 2 * i] / repetitions;
  end_calls();
  return milliseconds;
}

std::vector<double> OverlapTiming::largest(std::vector<double> values) const {
  world_.all_reduce(values, comm::Communicator::Reduce::max);
  return values;
}

/// What this rank does next begins when all ranks are here: on hosts all of the mesh; on a device those of the groups
/// that exchange, by a small all-reduce on the compute stream, for which the host does not wait.
void OverlapTiming::align() const {
  if (!executor_.device()) return world_.barrier();
  const std::array<tensor::Tensor, 1> zero{memory_->layer->zero};
  aligned_group_.all_reduce(zero, comm::Communicator::Reduce::sum).wait();
}

/// Forgets what modules have noted of their times.
void OverlapTiming::end_calls() {
  timer_.discard_step();
  world_.record_device_calls();
}

/// Times the algorithms that each product of the cases could use, and has all ranks use those that were the fastest on
/// rank 0.
void OverlapTiming::choose_algorithms() {
  libraries_->set_tuning(kernels::Tuning::candidates);
  for (const OverlapCase& c : cases_) {
    once(c.prepare);
    once(c.product);
    once(c.overlapped);
  }
  libraries_->set_tuning(kernels::Tuning::off);
  std::string algorithms = libraries_->algorithms();
  world_.broadcast(algorithms, 0);
  comm::agree(world_, [&] {
    if (!libraries_->adopt(algorithms))
      base::fail(
          base::ExitCode::environment,
          "this rank has another kind of device, or version of cuBLASLt or CUTLASS, than rank 0: start all ranks "
          "on the same kind of node");
  });
}

using profile::OverlapChoice;

namespace {

/// How long exchanges are timed, in seconds. Chosen: the start of a run of a small deck takes about as long.
constexpr double kSeconds = 1;

/// A choice that an earlier run has kept.
struct Kept {
  std::string name, text;
  /// Conditions that need not be the same. A run that goes on from a checkpoint with a rebuilt program keeps the
  /// checkpoint's choice: on devices another choice may change the bits of the training.
  std::vector<std::string_view> ignored;
};

/// The name of the first choice that fits, and the choice; both empty if none does. The remarks say why the choices
/// before it do not fit.
std::pair<std::string, std::string> first_that_fits(const std::vector<Kept>& choices,
                                                    const profile::Conditions& conditions,
                                                    const std::vector<OverlapChoice::Row>& rows,
                                                    std::vector<std::string>& remarks) {
  for (const Kept& kept : choices) {
    std::string reason;
    const auto measurement = profile::measurement_of_text(kept.text, kOverlapKind, reason);
    if (measurement && rows_that_fit(*measurement, conditions, rows, reason, kept.ignored))
      return {kept.name, to_text(*measurement, kOverlapKind)};
    remarks.push_back(fmt::format("the choice in {} does not fit: {}", kept.name, reason));
  }
  return {};
}

/// What the checkpoint and the file of the output folder keep, in the order in which they are tried.
std::vector<Kept> kept_choices(const std::string& checkpoint, const SavedChoices& saved,
                               const std::filesystem::path& folder) {
  std::vector<Kept> kept;
  if (!saved.overlap.empty()) kept.push_back({checkpoint, saved.overlap, {condition::kProgram}});
  const std::filesystem::path file = folder / deck::OutputConfig::kOverlap;
  std::error_code error;
  if (std::filesystem::exists(file, error)) kept.push_back({file.string(), io::text_of(file.string()), {}});
  return kept;
}

/// Empty if timing takes no more memory than the run. Rank 0 decides for all.
std::string why_not_timed(const Assembly& assembly) {
  const Setup& setup = assembly.setup();
  const comm::Communicator& world = assembly.mesh().world;
  std::string why;
  comm::agree_on_root(world, 0, [&] {
    const std::size_t needed =
        OverlapTiming::bytes(Setup::make(auto_only(setup.config), setup.place.rank(), setup.threads));
    const std::size_t planned = make_plan(setup.config, setup.threads).total_bytes();
    if (needed > planned)
      why = fmt::format("every auto is off: timing would take {} bytes, more than the {} of the run (shard8 plan)",
                        needed, planned);
  });
  world.broadcast(why, 0);
  return why;
}

OverlapChoice measure(const Assembly& assembly, const profile::Conditions& job, const SavedChoices& saved) {
  const Setup& setup = assembly.setup();
  const comm::Communicator& world = assembly.mesh().world;
  comm::agree(world, [&] { check_device_memory(setup); });
  const auto adopt = [&](kernels::Libraries& libraries) {
    AlgorithmsFile file(setup.config.output.dir, world, job);
    if (!file.adopt(libraries, saved.algorithms)) file.load(libraries);
  };
  return choose_overlap(world,
                        time_auto(setup.config, assembly.mesh(), assembly.exec(), setup.threads, kSeconds, adopt));
}

}  // namespace

OverlapDecision decide_overlap(Assembly& assembly, const std::string& checkpoint, const SavedChoices& saved) {
  const Setup& setup = assembly.setup();
  const deck::Config& config = setup.config;
  const comm::Communicator& world = assembly.mesh().world;
  OverlapDecision decision;
  const auto rows = auto_rows(config);
  if (rows.empty()) return decision;
  const profile::Conditions& job = assembly.find_conditions();
  const profile::Conditions conditions = overlap_conditions(config, job);
  std::string from;
  comm::agree_on_root(world, 0, [&] {
    std::tie(from, decision.plan) =
        first_that_fits(kept_choices(checkpoint, saved, config.output.dir), conditions, rows, decision.remarks);
  });
  world.broadcast(from, 0);
  world.broadcast(decision.plan, 0);
  if (!decision.plan.empty()) {
    std::string reason;
    const auto kept = profile::measurement_of_text(decision.plan, kOverlapKind, reason);
    decision.choice = {.from = "as kept in " + from,
                       .rows = rows_that_fit(kept.value(), kept->conditions, rows, reason).value()};
    return decision;
  }
  if (const std::string why = why_not_timed(assembly); !why.empty()) {
    decision.remarks.push_back(why);
    return decision;
  }
  if (!decision.remarks.empty()) decision.remarks.back() += "; measured anew";
  decision.choice = measure(assembly, job, saved);
  decision.plan = to_text(overlap_measurement(conditions, decision.choice.rows), kOverlapKind);
  world.broadcast(decision.plan, 0);
  return decision;
}

}  // namespace shard8::train
