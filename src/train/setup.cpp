// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/setup.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "deck/choices.hpp"
#include "train/trainer.hpp"

#if defined(SHARD8_CUDA)
#include "base/error.hpp"
#include "kernels/libraries.hpp"
#include "tensor/cuda/device.hpp"
#include "train/plan/plan.hpp"
#endif

namespace shard8::train {
namespace {

/// The dtype in which parameters that are not in FP8 are gathered. deck::load has replaced `auto`; Error(failed) if
/// not.
tensor::DType gather_dtype(const deck::Config& config) {
  SHARD8_REQUIRE(config.fsdp.gather != deck::Gather::automatic, "fsdp.gather was not resolved");
  if (config.fsdp.gather == deck::Gather::fp8) return model::dtype_of(config.precision.compute);
  return config.fsdp.gather == deck::Gather::bf16 ? tensor::DType::bf16 : tensor::DType::fp32;
}

}  // namespace

Setup Setup::make(const deck::Config& config, int rank, int threads) {
  Setup s;
  s.config = config;
  s.layout = deck::lay_out(config);
  s.mesh = config.mesh.extents();
  s.place = base::Place(s.mesh, rank);
  s.threads = threads;
  const tensor::DType compute = model::dtype_of(config.precision.compute);
  s.dims = model::Dims::make(config.model, s.layout.micro_batch, s.mesh[base::Axis::tensor], compute);
  s.dims.experts.ranks = s.mesh.expert;
  s.dims.device = deck::on_device(config.mesh);
  s.dims.experts.pushes = s.dims.device && s.dims.experts.on() && config.run.skeleton == deck::Skeleton::none;
  s.dims.deterministic = config.precision.deterministic;
  s.dims.overlap = model::Overlap::make(config);
  s.fsdp.place = s.place;
  s.fsdp.prefetch = static_cast<int>(config.fsdp.prefetch);
  s.fsdp.reshard_after_forward = config.fsdp.reshard_after_forward;
  s.fsdp.accumulate = s.layout.micro_batches > 1;
  s.fsdp.sharded_sums = config.fsdp.accumulate == deck::Accumulate::sharded;
  s.fsdp.compute = compute;
  s.fsdp.gather = gather_dtype(config);
  s.fsdp.reduce = model::dtype_of(config.precision.reduce);
  s.fsdp.master_remainder = config.optimizer.master == deck::Master::bf16_remainder;
  s.weights = model::WeightFormat::make(config);
  s.dims.experts.rows_multiple = s.weights.recipe.multiple();
  s.dims.experts.sends_fp8 = config.sends_rows_in_fp8();
  s.units = model::make_units(config.model, s.place);
  const bool recomputes =
      config.model.recompute == deck::Recompute::full || s.dims.experts.most_rounds(s.dims.tokens_local()) > 1;
  for (model::UnitSpec& unit : s.units)
    unit.backward_reads_both = recomputes && !unit.parameters.empty() && unit.parameters.front().of_experts;
  return s;
}

deck::DataConfig Setup::data() const {
  deck::DataConfig data = config.data;
  data.micro_batch = layout.micro_batch;
  return data;
}

using operation::Operation;

std::vector<int> record_step(const Setup& setup, const StepOfRun& step, const operation::Recorder::Sink& sink,
                             const operation::Recorder::Calls& calls) {
  Setup run = setup;
  const std::int64_t number = step.first ? 0 : 1;
  run.config.run.steps = number + (step.last ? 1 : 2);
  State state(run, tensor::ArenaSet::measure(), 0);
  const comm::Mesh mesh = comm::mesh_on_paper(run.place);
  profile::StepTimer phases(nullptr);
  std::int64_t now = 0;
  operation::Recorder recorder(
      [&](const Operation& operation) {
        if (now == number) sink(operation);
      },
      calls);
  Trainer trainer(recorder, run, mesh, state, phases);
  for (; now <= number; ++now) {  // what the step before begins and knows is part of the step
    recorder.begin_step();
    trainer.step(now);
  }
  return recorder.ahead();
}

operation::Operations record_step(const Setup& setup, const StepOfRun& step) {
  operation::Operations all;
  all.ahead = record_step(setup, step, [&](const Operation& operation) { all.list.push_back(operation); });
  return all;
}

bool can_push_rows(const comm::Mesh& mesh) {
  std::vector<double> cannot{mesh.group(base::AxisSet::expert).can_push() ? 0.0 : 1.0};
  mesh.world.all_reduce(cannot, comm::Communicator::Reduce::max);
  return cannot.front() == 0;
}

#if defined(SHARD8_CUDA)

namespace {

using tensor::cuda::Event;

class DeviceClock final : public profile::StepClock {
 public:
  explicit DeviceClock(cudaStream_t stream) : stream_(stream) {}

  void begin() override {
    std::swap(now_, before_);
    now_.used = 0;
    open_ = true;
    mark();
  }
  void mark() override {
    if (now_.used == now_.events.size()) now_.events.emplace_back(Event::Times::yes);
    now_.events[now_.used++].record(stream_);
  }
  double finish() override {
    open_ = false;
    now_.last().synchronize();
    const Event& first = now_.events.front();
    gap_ = follows_ ? first.seconds_since(before_.last()) : 0;
    follows_ = true;
    const double total = gap_ + now_.last().seconds_since(first);
    if (origin_) started_ = origin_ns_ + static_cast<std::int64_t>((first.seconds_since(*origin_) - gap_) * 1e9);
    if (before_.events.size() < now_.events.size()) make_room();
    return total;
  }
  /// The length of each interval is the difference of two events, for which CUDA is called. Call it while the device
  /// works, not at a step's end.
  std::span<const double> intervals() override {
    const Marks& step = open_ ? before_ : now_;
    seconds_.assign(1, gap_);
    for (std::size_t i = 1; i < step.used; ++i) seconds_.push_back(step.events[i].seconds_since(step.events[i - 1]));
    return seconds_;
  }
  std::int64_t started() const override { return started_; }
  void set_origin() override {
    origin_.emplace(Event::Times::yes);
    origin_->record(stream_);
    origin_->synchronize();
    origin_ns_ = profile::trace_now();
  }
  void reset() override { follows_ = false; }
  bool marks_are_costly() const override { return true; }

 private:
  /// Takes memory for steps with up to twice as many marks as this one.
  void make_room() {
    for (Marks* marks : {&before_, &now_}) marks->events.reserve(2 * now_.used);
    seconds_.reserve(2 * now_.used);
    while (before_.events.size() < now_.events.size()) before_.events.emplace_back(Event::Times::yes);
  }
  /// The events of a step. The first steps create them; later steps record the same events.
  struct Marks {
    std::vector<Event> events;
    std::size_t used = 0;
    const Event& last() const { return events[used - 1]; }
  };
  cudaStream_t stream_;
  Marks now_, before_;
  bool open_ = false;  ///< a step has begun since one was finished
  bool follows_ = false;
  double gap_ = 0;
  std::vector<double> seconds_;
  std::optional<Event> origin_;  ///< of traces
  std::int64_t origin_ns_ = 0, started_ = 0;
};

/// The version that follows `name` in a text, up to a blank, a comma or a bracket; empty if there is none.
std::string word_after(const std::string& text, std::string_view name) {
  const auto at = text.find(name);
  if (at == std::string::npos) return {};
  const auto begin = at + name.size();
  return text.substr(begin, text.find_first_of(" ,)", begin) - begin);
}

}  // namespace

std::unique_ptr<profile::StepClock> make_clock(const tensor::Exec& exec) {
  return std::make_unique<DeviceClock>(tensor::cuda::stream_of(exec));
}

void check_device_memory(const Setup& setup) {
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  const std::size_t bytes = make_plan(setup.config, setup.threads).needed_bytes();
  const std::size_t free = tensor::cuda::free_memory(), total = tensor::cuda::total_memory();
  if (bytes <= free) return;
  base::fail(
      base::ExitCode::environment,
      "a rank needs {:.2f} GiB of its device (see shard8 plan), of whose {:.2f} GiB {:.2f} GiB are free: use more "
      "ranks in mesh.shard or mesh.tensor, a smaller data.micro_batch, or model.recompute",
      static_cast<double>(bytes) / kGiB, static_cast<double>(total) / kGiB, static_cast<double>(free) / kGiB);
}

std::string device_name() { return tensor::cuda::describe_device(tensor::cuda::current_device()).name; }

std::vector<std::pair<std::string, std::string>> gpu_versions(const comm::Device* device) {
  const std::vector<std::string> lines = device == nullptr ? std::vector<std::string>() : device->describe();
  // "CUDA 13.0 (driver 13.0)", "cuBLASLt 13.1.0, cuDNN 9.19.0", "NCCL 2.28.9"
  const std::string cuda = tensor::cuda::version_text(), libraries = kernels::blas_description();
  return {{"name", device_name()},
          {"driver", word_after(cuda, "driver ")},
          {"cuda", word_after(cuda, "CUDA ")},
          {"cublaslt", word_after(libraries, "cuBLASLt ")},
          {"cudnn", word_after(libraries, "cuDNN ")},
          {"nccl", lines.empty() ? "" : word_after(lines.front(), "NCCL ")}};
}

#else

std::unique_ptr<profile::StepClock> make_clock(const tensor::Exec&) { return std::make_unique<profile::HostClock>(); }
void check_device_memory(const Setup&) {}
std::string device_name() { return {}; }
std::vector<std::pair<std::string, std::string>> gpu_versions(const comm::Device*) {
  return {{"name", ""}, {"driver", ""}, {"cuda", ""}, {"cublaslt", ""}, {"cudnn", ""}, {"nccl", ""}};
}

#endif

}  // namespace shard8::train
