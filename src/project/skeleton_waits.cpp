// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "project/skeleton_waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/plain_file.hpp"
#include "deck/load.hpp"
#include "machine/machine.hpp"
#include "machine/times.hpp"
#include "project/projection.hpp"
#include "tensor/dtype.hpp"
#include "train/setup.hpp"

namespace shard8::project {
namespace {

using operation::Attention;
using operation::Kernel;
using operation::Operation;
using operation::Place;
using operation::Product;

using Key = std::tuple<profile::Phase, std::string_view, std::int64_t, std::int64_t, std::int64_t, std::uint64_t,
                       std::uint64_t>;

std::uint64_t bits(const operation::Format& f) {
  return static_cast<std::uint64_t>(f.dtype) << 16 | static_cast<std::uint64_t>(f.scaling) << 8 |
         static_cast<std::uint64_t>(f.transposed);
}

Key key_of(profile::Phase phase, const Product& p) {
  const std::uint64_t how = static_cast<std::uint64_t>(p.groups) << 16 | static_cast<std::uint64_t>(p.out) << 3 |
                            static_cast<std::uint64_t>(p.accumulate) << 2 | static_cast<std::uint64_t>(p.bias) << 1 |
                            static_cast<std::uint64_t>(p.residual);
  return {phase, name_of(p.kind), p.rows, p.cols, p.inner, bits(p.left) << 32 | bits(p.right), how};
}

Key key_of(profile::Phase phase, const Attention& a) {
  const auto of = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  return {phase,
          a.backward ? "attention backward" : "attention",
          a.shape.batch,
          a.shape.seq,
          a.shape.head_dim,
          of(a.shape.heads) << 32 | of(a.shape.kv_heads),
          static_cast<std::uint64_t>(a.dtype)};
}

Key key_of(profile::Phase phase, const Kernel& k) { return {phase, k.name, k.rows, k.cols, 0, k.read, k.written}; }

template <class What>
Operation operation_of(const Place& place, const What& what) {
  Operation o;
  o.location = place.location;
  o.phase = place.phase;
  o.recomputed = place.recomputed;
  o.what = what;
  if constexpr (std::is_same_v<What, Kernel>) {
    o.read = what.read;
    o.written = what.written;
  }
  return o;
}

}  // namespace

UnevenWaits::UnevenWaits(const ComputingTimes::Spread& spread, int rank, int ranks)
    : random_(static_cast<std::uint64_t>(rank)), spread_(spread) {
  if (ranks < 2) return;
  // The ranks in the order of the fractions of multiples of the golden ratio, in which neighbours are far apart, at the
  // quantiles of a normal distribution: Φ⁻¹((place + 1/2) / ranks), less their mean, by their standard deviation.
  const auto fraction = [](int r) { return std::fmod(r * std::numbers::phi, 1.0); };
  double squares = 0;
  int place = 0;
  for (int r = 0; r < ranks; ++r) {
    const double z = normal_quantile((r + 0.5) / ranks);
    squares += z * z;
    place += fraction(r) < fraction(rank) ? 1 : 0;
  }
  of_rank_ = factor_ = 1 + spread.ranks * normal_quantile((place + 0.5) / ranks) / std::sqrt(squares / (ranks - 1));
}

SkeletonWaits::SkeletonWaits(const tensor::Exec& exec, const train::Setup& setup, std::unique_ptr<ComputingTimes> times)
    : times_(std::move(times)),
      waiter_(exec, 1e9 * setup.config.run.skeleton_load),
      uneven_(times_ == nullptr ? ComputingTimes::Spread{} : times_->spread(), setup.place.rank(),
              static_cast<int>(setup.mesh.ranks())) {
  if (times_ == nullptr) return;
  for (const train::StepOfRun& kind : train::kStepsOfRun) {
    step_s_ = 0;  // of the last kind
    train::record_step(setup, kind, [&](const Operation& o) {
      if (const auto* p = o.product()) step_s_ += look_up(key_of(o.phase, *p), o);
      if (const auto* a = o.attention()) step_s_ += look_up(key_of(o.phase, *a), o);
      if (const auto* k = o.kernel()) step_s_ += look_up(key_of(o.phase, *k), o);
    });
  }
}

double SkeletonWaits::look_up(const Key& key, const Operation& operation) {
  const auto [at, is_new] = seconds_.try_emplace(key, 0);
  if (is_new) at->second = times_->seconds(operation);
  return at->second;
}

template <class What>
void SkeletonWaits::wait_for(const tensor::Exec& exec, const Place& place, const What& what) {
  if (times_ == nullptr) return;
  const Key key = key_of(place.phase, what);
  const auto found = seconds_.find(key);
  // Every operation of a step was recorded. One of a kind of step that was not is looked up now.
  const double seconds = found != seconds_.end() ? found->second : look_up(key, operation_of(place, what));
  waiter_.wait(exec, uneven_.next(seconds));
}

void SkeletonWaits::begin_step() { uneven_.begin_step(); }
void SkeletonWaits::met() { uneven_.met(); }
/// On a device the host advances collectives while kernels wait.
void SkeletonWaits::advanced(double seconds) {
  if (times_ != nullptr && !tensor::kDevice) uneven_.passed(seconds);
}

void SkeletonWaits::wait(const tensor::Exec& exec, const Place& place, const Product& product) {
  wait_for(exec, place, product);
}
void SkeletonWaits::wait(const tensor::Exec& exec, const Place& place, const Attention& attention) {
  wait_for(exec, place, attention);
}
void SkeletonWaits::wait(const tensor::Exec& exec, const Place& place, const Kernel& kernel) {
  wait_for(exec, place, kernel);
}

// What run.skeleton_times names.

namespace {

namespace fs = std::filesystem;
using PlainJson = nlohmann::json;
using base::json_member;

class MachineTimes final : public ComputingTimes {
 public:
  explicit MachineTimes(machine::Machine machine)
      : machine_(std::move(machine)), times_(machine_, {}, machine::Times::kMostFactor, "") {}
  double seconds(const Operation& o) const override {
    try {
      return seconds_of(o);
    } catch (const base::Error& error) {
      base::fail(error.code(), "run.skeleton_times: {}", error.what());
    }
  }
  Spread spread() const override {
    return {times_.value_of(machine_.spread_calls, 0), times_.value_of(machine_.spread_ranks, 0),
            times_.value_of(machine_.spread_steps, 0)};
  }
  std::string said() const {
    std::string text = fmt::format("waits as on {} ({})", machine_.name, machine_.path);
    spread();
    for (const machine::NotGiven& entry : times_.not_given())
      text += fmt::format("{} {}", &entry == times_.not_given().data() ? "; not given:" : ",", to_text(entry));
    return text;
  }

 private:
  double seconds_of(const Operation& o) const {
    if (const auto* p = o.product()) return times_.product(*p).seconds;
    if (const auto* a = o.attention()) return times_.attention(*a).seconds;
    return times_.kernel(o.kernel()->name, o.read + o.written).seconds;
  }

  machine::Machine machine_;
  machine::Times times_;
};

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  base::fail(base::ExitCode::deck, "run.skeleton_times: {}: {}", path.string(), why);
}

/// The groups of operations whose seconds a summary knows.
enum class Rate : std::uint8_t {
  forward_gemm,
  forward_attention,
  forward_elementwise,
  backward_gemm,
  backward_attention,
  backward_elementwise,
  optimizer,
  quantize
};
constexpr std::size_t kRates = 8;
struct Row {
  std::string_view phase, part;
};
constexpr std::array<Row, kRates> kRows{{{"forward", "gemm"},
                                         {"forward", "attention"},
                                         {"forward", "elementwise"},
                                         {"backward", "gemm"},
                                         {"backward", "attention"},
                                         {"backward", "elementwise"},
                                         {"optimizer", ""},
                                         {"quantize", ""}}};

class RunTimes final : public ComputingTimes {
 public:
  RunTimes(const fs::path& path, const PlainJson& summary) {
    read_seconds(path, summary);
    const deck::Config config = config_of(path, summary);
    device_ = json_member(json_member(summary, "run"), "backend") == "nccl";
    std::array<double, kRates> work{};
    train::record_step(train::Setup::make(config, 0, 1), {}, [&](const Operation& o) {
      if (const auto rate = rate_of(o)) work[static_cast<std::size_t>(*rate)] += work_of(o);
    });
    double kernels_s = 0, kernels = 0;
    for (std::size_t r = 0; r < kRates; ++r) {
      if (kRows[r].part == "elementwise") {
        kernels_s += seconds_[r];
        kernels += work[r];
      }
      seconds_[r] = work[r] > 0 ? seconds_[r] / work[r] : 0;
    }
    other_ = kernels > 0 ? kernels_s / kernels : 0;
  }

  double seconds(const Operation& o) const override {
    const auto rate = rate_of(o);
    return work_of(o) * (rate ? seconds_[static_cast<std::size_t>(*rate)] : other_);
  }

 private:
  void read_seconds(const fs::path& path, const PlainJson& summary) {
    std::size_t found = 0;
    for (const PlainJson& row : base::json_list(json_member(summary, "phases")))
      for (std::size_t r = 0; r < kRates; ++r) {
        if (json_member(row, "phase") != kRows[r].phase || json_member(row, "part") != kRows[r].part) continue;
        seconds_[r] = base::json_value<double>(row, "mean_s");
        ++found;
      }
    if (found < kRates) refuse(path, "the run has no measured steps: give it more than run.timing_skip of them");
  }

  static deck::Config config_of(const fs::path& path, const PlainJson& summary) {
    // No other file of that deck is looked for.
    const std::array<std::string, 3> overrides{
        "run.skeleton=communication", "run.skeleton_times=",
        std::string("mesh.device=") +
            (json_member(json_member(summary, "run"), "backend") == "nccl" ? "cuda" : "host")};
    base::json_object(json_member(json_member(summary, "deck"), "mesh"));
    PlainJson text = json_member(summary, "deck");
    text["mesh"].erase("backend");
    try {
      return deck::load_text(text.dump(), "deck.yaml", overrides).config;
    } catch (const base::Error& e) {
      refuse(path, fmt::format("its deck is not one of this program: {}", e.what()));
    }
  }

  static std::optional<Rate> rate_of(const Operation& o) {
    using profile::Phase;
    if (o.phase == Phase::optimizer) return Rate::optimizer;
    if (o.phase == Phase::quantize) return Rate::quantize;
    if (o.phase != Phase::forward && o.phase != Phase::backward) return std::nullopt;
    const auto first = static_cast<std::size_t>(o.phase == Phase::forward ? Rate::forward_gemm : Rate::backward_gemm);
    const std::size_t part = o.product() != nullptr ? 0 : o.attention() != nullptr ? 1 : 2;
    return static_cast<Rate>(first + part);
  }

  double work_of(const Operation& o) const {
    if (const auto* p = o.product()) {
      const bool eight = tensor::bytes_of(p->left.dtype, 1) == 1 && tensor::bytes_of(p->right.dtype, 1) == 1;
      return p->flops() * (device_ && eight ? 0.5 : 1);
    }
    if (const auto* a = o.attention()) {
      const auto& s = a->shape;
      const double square = static_cast<double>(s.batch * s.heads * s.head_dim) * static_cast<double>(s.seq * s.seq);
      return (a->backward ? 5 : 2) * square;
    }
    if (o.kernel() == nullptr) return 0;
    // Chosen: the start of a kernel takes a device as long as 8 MB take it.
    return static_cast<double>(o.read + o.written) + (device_ ? 8e6 : 0);
  }

  bool device_ = false;
  std::array<double, kRates> seconds_{};  ///< of a step, then of a unit of work
  double other_ = 0;
};

}  // namespace

std::unique_ptr<ComputingTimes> read_skeleton_times(const train::Setup& setup, std::string& said) {
  const std::string& name = setup.config.run.skeleton_times;
  if (name.empty()) {
    said = "all waits are zero: run.skeleton_times is not set";
    return nullptr;
  }
  fs::path path = name;
  const bool folder = base::kind_of_file(path).is_folder();
  if (folder) path /= "summary.json";
  if (folder && !base::kind_of_file(path).is_there())
    refuse(path, "it is not there: give the run's summary file itself if output.summary renames it");
  if (!folder && path.extension() != ".json") {
    auto times = std::make_unique<MachineTimes>(machine::read(path.string()));
    said = times->said();
    return times;
  }
  PlainJson summary;
  try {
    summary = base::parse_json<PlainJson>(deck::read_text_file(path.string(), "summary"));
  } catch (const base::JsonProblem& e) {
    refuse(path, fmt::format("it is no summary of a run: {}", e.what()));
  }
  if (summary.is_object() && summary.contains("meshes"))
    refuse(path, "it is a sweep of many meshes, which was projected: give its machine file");
  if (!summary.is_object() || !summary.contains("phases") || !summary.contains("deck"))
    refuse(path, "it is no summary of a run");
  if (summary.contains("skeleton")) refuse(path, "it is of a skeleton run, which computes nothing");
  if (summary.contains("projected")) refuse(path, "it is a projection: give its machine file");
  try {
    auto times = base::in_json(summary, [&] { return std::make_unique<RunTimes>(path, summary); });
    said = fmt::format("waits as measured in {}", path.string());
    return times;
  } catch (const base::JsonProblem& e) {
    refuse(path, fmt::format("it is no summary of a run: {}", e.what()));
  }
}

std::unique_ptr<ComputingTimes> require_skeleton_times(const train::Setup& setup, std::string& said) {
  auto times = read_skeleton_times(setup, said);
  if (times == nullptr) return times;
  for (const train::StepOfRun& kind : train::kStepsOfRun)
    train::record_step(setup, kind, [&](const Operation& o) {
      if (o.collective() == nullptr) times->seconds(o);
    });
  return times;
}

}  // namespace shard8::project
