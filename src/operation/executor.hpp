// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "comm/parts.hpp"
#include "deck/device.hpp"
#include "operation/operation.hpp"
#include "profile/step_timer.hpp"
#include "tensor/runtime.hpp"
#include "tensor/transfer.hpp"

namespace shard8::operation {

/// Where an operation is issued.
struct Place {
  Location location;
  profile::Phase phase = profile::Phase::other;
  bool recomputed = false;
};

/// The call of a collective, with the tensors that it moves: the whole of a gather or reduce-scatter, what an
/// all-reduce sums. `own` are this rank's other tensors in the call: what it gives to a gather, what it gets from a
/// reduce-scatter, and the addend. See Collective for the other members.
struct Call {
  profile::Collective op = profile::Collective::all_gather;
  Group group = Group::tensor;
  int ranks = 1;
  Stream stream = Stream::compute;
  std::span<const tensor::Tensor> tensors{};
  std::span<const tensor::Tensor> own{};
  bool by_parts = false, ring = false, host_values = false;
};

/// Passes the operations of steps to a function, one by one in their order, so that a step of many micro-batches takes
/// no memory.
class Recorder {
 public:
  using Sink = std::function<void(const Operation& operation)>;
  /// A function that is called with the tensors of each collective of several ranks.
  using Calls = std::function<void(const Call& call)>;
  explicit Recorder(Sink sink, Calls calls = {}) : sink_(std::move(sink)), calls_(std::move(calls)) {}

  /// A step begins. Operations are counted from here.
  void begin_step();
  /// Bytes of a product and of attention follow from their shapes. A kernel on a matrix without elements is left out.
  void add(const Place& place, const Product& product);
  void add(const Place& place, const Attention& attention);
  void add(const Place& place, const Kernel& kernel);
  /// Returns a number for wait(), unless the collective runs on the compute stream, where all that follows is after it.
  /// A collective in a group of one rank is left out and has no number. Tensors of the same dtype are one part.
  std::optional<int> add(const Place& place, const Call& call);
  /// Adds the collective to the `waits` of the next operation.
  void wait(int collective);

  /// From now on until the next step, collectives on the stream gather bring weights for the next step.
  void gathers_are_ahead() { ahead_now_ = true; }
  /// The indices of these collectives in the step's list.
  const std::vector<int>& ahead() const { return ahead_; }

 private:
  void write(const Place& place, Operation operation);

  Sink sink_;
  Calls calls_;
  int count_ = 0;  ///< operations of all steps
  int begin_ = 0;  ///< count_ at the begin of the step
  std::vector<int> waits_;
  std::vector<int> ahead_, ahead_before_;  ///< indices in this step's list, and numbers of the step before
  bool ahead_now_ = false;
};

/// Functions that are called with matrix products and attention just before they are computed.
struct Observer {
  std::function<void(const Product& product)> product;
  std::function<void(const Attention& attention)> attention;
};

/// A collective that was issued: what its call returned, which is empty if the executor only records, and its number in
/// the record.
template <class UnderWay>
struct Issued {
  UnderWay under_way;
  std::optional<int> number{};
};

/// Waits in place of computations. Each call returns, or on a device ends in the order of the execution space, when the
/// time has passed that the operation would take.
class Waits {
 public:
  virtual ~Waits() = default;
  virtual void wait(const tensor::Exec& exec, const Place& place, const Product& product) = 0;
  virtual void wait(const tensor::Exec& exec, const Place& place, const Attention& attention) = 0;
  virtual void wait(const tensor::Exec& exec, const Place& place, const Kernel& kernel) = 0;
  /// Called at the begin of a step.
  virtual void begin_step() {}
  /// Called after each collective on the compute stream, where the ranks of a group wait for each other.
  virtual void met() {}
  /// Called with the host's seconds in which collectives were advanced after a product or attention. In a training they
  /// are part of the time of the operation.
  virtual void advanced(double /*seconds*/) {}
};

/// Decides what happens to the operations of a step. The step is written once: each operation is issued by one call of
/// issue(), with its description and with a function that does the work.
/// - An executor that *runs* calls the function and times it.
/// - One that *records* passes the description to a Recorder and calls nothing, so that tensors need no memory and
///   groups no ranks.
/// - A *skeleton* of the communication calls the functions of collectives, and waits in place of computations: memory
///   that no collective moves is neither read nor written. A skeleton of the computation calls all other functions, and
///   leaves the collectives out.
class Executor {
 public:
  /// Runs on `exec`. `timer` times parts of forward and backward. `progress` advances collectives under way; it is
  /// called after each product and attention. What is passed by reference must outlive the executor.
  Executor(
      const tensor::Exec& exec, profile::StepTimer& timer, std::function<void()> progress = [] {})
      : exec_(&exec), timer_(timer), progress_(std::move(progress)) {}
  /// An executor that records operations and runs none. `timer`, which must have no clock, knows the phase. `device`:
  /// whether the recorded step runs on a device.
  Executor(Recorder& recorder, profile::StepTimer& timer, bool device)
      : timer_(timer), computes_(false), communicates_(false), recorder_(&recorder), device_(device) {}
  /// A skeleton of the communication, of a step that runs on a device or, if not `device`, on hosts.
  Executor(const tensor::Exec& exec, profile::StepTimer& timer, std::function<void()> progress, Waits& waits,
           bool device)
      : exec_(&exec),
        timer_(timer),
        progress_(std::move(progress)),
        computes_(false),
        waits_(&waits),
        device_(device) {}
  struct WithoutCollectives {};
  /// A skeleton of the computation.
  Executor(const tensor::Exec& exec, profile::StepTimer& timer, WithoutCollectives)
      : exec_(&exec), timer_(timer), progress_([] {}), communicates_(false) {}
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  bool runs() const { return recorder_ == nullptr; }
  /// Whether products, attention and kernels do their work, and whether collectives do theirs: both in a training.
  bool computes() const { return computes_; }
  bool communicates() const { return communicates_; }
  /// Whether the step runs on a device, or is recorded as one that does.
  bool device() const { return device_; }
  profile::StepTimer& timer() const { return timer_; }
  /// The execution space of an executor that runs, for work that is no operation of a step, such as copies of tokens
  /// and of the loss.
  const tensor::Exec& exec() const {
    SHARD8_REQUIRE(exec_ != nullptr, "an executor that records has no execution space");
    return *exec_;
  }

  /// To be called at the begin of a step that runs.
  void begin_step() {
    if (waits_ != nullptr) waits_->begin_step();
  }
  /// The T in `memory`, its bytes as u8, once the execution space has done all work given to it. T() in a skeleton,
  /// where the value means nothing. To be called only if the executor runs.
  template <class T>
  T value(const tensor::Tensor& memory) const {
    T one{};
    read(std::span(&one, 1), memory);
    return one;
  }
  /// As value(), for the elements `to` of `memory`, which has their bytes. In a skeleton they become T().
  template <class T>
  void read(std::span<T> to, const tensor::Tensor& memory) const {
    SHARD8_REQUIRE(memory.bytes() == to.size_bytes(), "{} bytes are read as {}", memory.bytes(), to.size_bytes());
    if (computes_ && communicates_) return tensor::to_host(exec(), to.data(), memory);
    tensor::finish(exec());
    std::ranges::fill(to, T());
  }

  /// `work` is called with the execution space.
  template <class Work>
  void issue(const Product& product, const Work& work) {
    if (!computes_) return leave_out(product);
    auto part = timer_.part(profile::Part::gemm, name_of(product.kind));
    tell(product);
    work(*exec_);
    progress_();
  }
  template <class Work>
  void issue(const Attention& attention, const Work& work) {
    if (!computes_) return leave_out(attention);
    auto part = timer_.part(profile::Part::attention, attention.backward ? "attention_backward" : "attention_forward");
    if (observer_ != nullptr && observer_->attention) observer_->attention(attention);
    work(*exec_);
    progress_();
  }
  /// A kernel on a matrix without elements is not issued.
  template <class Work>
  void issue(const Kernel& kernel, const Work& work) {
    if (kernel.rows * kernel.cols == 0) return;
    if (!computes_) return leave_out(kernel);
    auto part = timer_.part(profile::Part::elementwise, kernel.name);
    work(*exec_);
  }
  /// `start` makes the call and returns what is under way. The caller times it.
  template <class Start>
  auto issue(const Call& call, const Start& start) -> Issued<decltype(start())> {
    if (recorder_ != nullptr) return {{}, recorder_->add(place(), call)};
    if (leaves_out(call)) return {};
    Issued<decltype(start())> issued{start()};
    met(call);
    return issued;
  }

  /// What is issued from now on runs after the collective. A collective on the compute stream needs no wait.
  void wait(Issued<comm::Request>& collective) {
    waited(collective.number);
    collective.under_way.wait();
  }
  /// As wait(), for a collective that is under way in another form, for which the caller waits.
  void waited(std::optional<int>& number) {
    if (const auto n = std::exchange(number, {})) recorder_->wait(*n);
  }
  /// Starts a collective on the compute stream and waits for it.
  template <class Start>
  void run(const Call& call, const Start& start) {
    if (recorder_ != nullptr) {
      recorder_->add(place(), call);
    } else if (!leaves_out(call)) {
      start().wait();
      met(call);
    }
  }
  /// A sum of a few numbers of the hosts, which `reduce` makes by MPI, also in a skeleton: ranks agree by such sums.
  template <class Reduce>
  void run_on_hosts(Group group, int ranks, std::size_t bytes, const Reduce& reduce) {
    const tensor::Tensor values{nullptr, {static_cast<std::int64_t>(bytes)}, tensor::DType::u8};
    if (recorder_ == nullptr) return reduce();
    // nvcc's front end does not see by the names alone that this is a Call.
    recorder_->add(place(), Call{.op = profile::Collective::all_reduce,
                                 .group = group,
                                 .ranks = ranks,
                                 .tensors = {&values, 1},
                                 .host_values = true});
  }

  /// Gathers that are issued from now on until the end of the step bring weights for the next step.
  void gathers_are_ahead() {
    if (recorder_ != nullptr) recorder_->gathers_are_ahead();
  }

  /// From now on `observer` is told; null: nobody. `observer` must outlive the executor or be replaced before its end.
  void observe(const Observer* observer) { observer_ = observer; }

 private:
  friend class At;
  friend class Recomputing;
  Place place() const { return {location_, timer_.current_phase(), recomputed_}; }
  /// Records the operation, or waits in its place.
  void leave_out(const Product& product);
  void leave_out(const Attention& attention);
  void leave_out(const Kernel& kernel);
  /// A collective of one rank is a copy.
  bool leaves_out(const Call& call) const { return !communicates_ || (!computes_ && call.ranks == 1); }
  /// Advances collectives in a skeleton.
  void progress_while_waiting() const;
  void met(const Call& call) const {
    if (waits_ != nullptr && call.stream == Stream::compute) waits_->met();
  }
  void tell(const Product& product) const;
  void set(const Location& location);

  const tensor::Exec* exec_ = nullptr;  ///< null: records
  profile::StepTimer& timer_;
  std::function<void()> progress_;
  bool computes_ = true, communicates_ = true;
  Recorder* recorder_ = nullptr;
  Waits* waits_ = nullptr;
  bool device_ = deck::on_device({});  ///< a run is where this program was built for
  const Observer* observer_ = nullptr;
  Location location_;
  bool recomputed_ = false;
};

/// Operations that are issued while the object lives belong to this location.
class At {
 public:
  At(Executor& executor, int unit) : At(executor, Location{unit, {}}) {}
  At(Executor& executor, Linear linear) : At(executor, Location{executor.location_.unit, linear}) {}
  At(Executor& executor, const Location& location) : executor_(executor), outer_(executor.location_) {
    executor.set(location);
  }
  At(const At&) = delete;
  At& operator=(const At&) = delete;
  ~At() { executor_.set(outer_); }

 private:
  Executor& executor_;
  Location outer_;
};

/// Operations that are issued while the object lives repeat those of forward (deck key model.recompute).
class Recomputing {
 public:
  explicit Recomputing(Executor& executor) : executor_(executor), outer_(std::exchange(executor.recomputed_, true)) {}
  Recomputing(const Recomputing&) = delete;
  Recomputing& operator=(const Recomputing&) = delete;
  ~Recomputing() { executor_.recomputed_ = outer_; }

 private:
  Executor& executor_;
  bool outer_;
};

}  // namespace shard8::operation
