// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/device.hpp"

#include <optional>
#include <utility>
#include <vector>

#if defined(SHARD8_CUDA)
#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "kernels/libraries.hpp"
#include "tensor/cuda/device.hpp"
#include "train/plan/plan.hpp"
#endif

namespace shard8::train {

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
  const std::size_t bytes = make_plan(setup.config, setup.threads).needed_bytes();
  const std::size_t free = tensor::cuda::free_memory(), total = tensor::cuda::total_memory();
  if (bytes <= free) return;
  base::fail(
      base::ExitCode::environment,
      "a rank needs {:.2f} GiB of its device (see shard8 plan), of whose {:.2f} GiB {:.2f} GiB are free: use more "
      "ranks in mesh.shard or mesh.tensor, a smaller data.micro_batch, or model.recompute",
      static_cast<double>(bytes) / base::kGiB, static_cast<double>(total) / base::kGiB,
      static_cast<double>(free) / base::kGiB);
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
