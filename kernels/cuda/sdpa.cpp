// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/sdpa.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "kernels/cuda/cudnn_graph.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::kernels::cuda {
namespace {

enum class Direction { forward, backward };
constexpr std::int64_t kElement = 2;  ///< bytes of BF16
constexpr int kTimedEngines = 6;

/// Why this version of cuDNN is not used for the shape; empty if cuDNN is tried.
std::string rule_against(const AttentionShape& s) {
  constexpr std::size_t kOldest = 91002, kOldestForAnyLength = 91600;
  const auto version = cudnnGetVersion();
  if (version < kOldest) return fmt::format("{} is older than 9.10.2", cudnn_version());
  if (version < kOldestForAnyLength && s.seq % 128 != 0) {
    return fmt::format("seq {} is no multiple of 128, which {} needs (9.16 does not)", s.seq, cudnn_version());
  }
  if (s.head_dim % 8 != 0 || s.head_dim > 256) {
    return fmt::format("head_dim {}; it takes multiples of 8 up to 256", s.head_dim);
  }
  if (s.seq < 2) return fmt::format("seq {}; it takes 2 and more", s.seq);
  return {};
}

/// One direction of a shape: a plan that is ready to run, or the reason why there is none.
struct Pass {
  std::optional<Plan> plan;
  SdpaPart part;
  std::string refusal;

  std::size_t bytes(Direction direction) const {
    return plan->workspace_bytes() + (direction == Direction::backward ? SdpaScratch(part).bytes() : 0);
  }
};

/// Offsets, in elements, from the beginning of each tensor to the part `index`.
struct PartOffsets {
  std::int64_t q, k, out, row;

  PartOffsets(const SdpaPart& part, std::int64_t index) {
    const auto& w = part.whole;
    const auto across = w.kv_heads / part.kv_heads;
    const auto token = index / across * part.batch * w.seq, kv = index % across * part.kv_heads;
    const auto head = kv * (w.heads / w.kv_heads);
    q = token * w.qkv_columns() + head * w.head_dim;
    k = token * w.qkv_columns() + (w.heads + kv) * w.head_dim;
    out = (token * w.heads + head) * w.head_dim;
    row = token * w.heads + head * w.seq;
  }
};

void* at(const void* base, std::int64_t elements, std::int64_t size) {
  // Plans take all addresses as void*, also those that they only read.
  return static_cast<std::byte*>(const_cast<void*>(base)) + elements * size;
}

}  // namespace

struct Sdpa::State {
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  std::string broken;  ///< why the library cannot be used; empty if it can
  std::map<std::pair<Direction, AttentionShape>, Pass> passes;

  State() = default;
  ~State() {
    if (handle != nullptr) cudnnDestroy(handle);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Creates the handle at the first call, which loads the library, and sets its stream.
  void use(cudaStream_t wanted) {
    if (!broken.empty() || (handle != nullptr && wanted == stream)) return;
    try {
      if (handle == nullptr) SHARD8_CUDNN_CHECK(cudnnCreate(&handle));
      SHARD8_CUDNN_CHECK(cudnnSetStream(handle, wanted));
      stream = wanted;
    } catch (const base::Error& error) {
      if (handle != nullptr) throw;
      broken = error.what();
    }
  }

  cudnnStatus_t run(Pass& pass, const SdpaForward& x, std::span<std::byte> workspace) const {
    const auto& w = pass.part.whole;
    for (std::int64_t i = 0; i < pass.part.count(); ++i) {
      const PartOffsets from(pass.part, i);
      const Binding bindings[] = {{kQ, at(x.qkv, from.q, kElement)},
                                  {kK, at(x.qkv, from.k, kElement)},
                                  {kV, at(x.qkv, from.k + w.kv_heads * w.head_dim, kElement)},
                                  {kO, at(x.o, from.out, kElement)},
                                  {kLse, x.lse + from.row}};
      const auto status = pass.plan->run(handle, bindings, workspace.data());
      if (status != CUDNN_STATUS_SUCCESS) return status;
    }
    return CUDNN_STATUS_SUCCESS;
  }

  cudnnStatus_t run(Pass& pass, const SdpaBackward& x, std::span<std::byte> workspace) const {
    const auto& w = pass.part.whole;
    const auto values = w.kv_heads * w.head_dim;
    const SdpaScratch scratch(pass.part);
    std::byte* const delta = workspace.data();
    std::byte* const dq_sum = delta + scratch.delta;
    std::byte* const own = dq_sum + scratch.dq_sum;
    for (std::int64_t i = 0; i < pass.part.count(); ++i) {
      const PartOffsets from(pass.part, i);
      const Binding bindings[] = {{kQ, at(x.qkv, from.q, kElement)},
                                  {kK, at(x.qkv, from.k, kElement)},
                                  {kV, at(x.qkv, from.k + values, kElement)},
                                  {kO, at(x.o, from.out, kElement)},
                                  {kDo, at(x.dout, from.out, kElement)},
                                  {kLse, at(x.lse, from.row, sizeof(float))},
                                  {kDq, at(x.dqkv, from.q, kElement)},
                                  {kDk, at(x.dqkv, from.k, kElement)},
                                  {kDv, at(x.dqkv, from.k + values, kElement)},
                                  {kDelta, delta},
                                  {kDqSum, dq_sum}};
      const auto used = std::span(bindings).first(std::size(bindings) - (w.deterministic ? 1 : 0));
      const auto status = pass.plan->run(handle, used, own);
      if (status != CUDNN_STATUS_SUCCESS) return status;
    }
    return CUDNN_STATUS_SUCCESS;
  }

  /// Seconds of one call, the mean of several. The call must have run before.
  template <class Operands>
  double seconds_of(Pass& pass, const Operands& operands, std::span<std::byte> workspace) const {
    constexpr int kRuns = 3;
    using tensor::cuda::Event;
    const Event begin(Event::Times::yes), end(Event::Times::yes);
    begin.record(stream);
    for (int i = 0; i < kRuns; ++i) SHARD8_CUDNN_CHECK(run(pass, operands, workspace));
    end.record(stream);
    end.synchronize();
    return end.seconds_since(begin) / kRuns;
  }

  /// Builds a pass: chooses the largest part, and an engine for it, that fit in the workspace and run. The trial runs
  /// are the call itself, so the results are written. If results must be the same in every run, the first engine that
  /// runs is chosen, which is cuDNN's best guess. Otherwise the fastest of the first few is chosen.
  template <class Operands>
  Pass build(Direction direction, const Operands& operands, const AttentionShape& shape,
             std::span<std::byte> workspace) const {
    Pass pass{{}, {shape, 0, 0}, broken.empty() ? rule_against(shape) : broken};
    if (!pass.refusal.empty()) return pass;
    std::size_t least = 0;
    for (const auto& part : sdpa_parts(shape)) {
      pass.part = part;
      const auto graph = direction == Direction::forward ? sdpa_forward_graph(part) : sdpa_backward_graph(part);
      const auto finished = graph.finish(handle);
      const auto configurations = engine_configurations(finished);
      if (configurations.empty()) pass.refusal = "none of its engines takes the graph";
      const bool timed = !shape.deterministic;
      std::optional<Plan> best;
      double least_seconds = 0;
      bool too_large = false;
      int tried = 0;
      for (const auto& configuration : configurations) {
        if (best && tried == kTimedEngines) break;
        try {
          pass.plan.emplace(handle, configuration, graph.scalars());
        } catch (const base::Error& error) {
          pass.refusal = error.what();
          continue;
        }
        if (const auto needed = pass.bytes(direction); needed > workspace.size()) {
          too_large = true;
          least = least == 0 ? needed : std::min(least, needed);
          continue;
        }
        if (const auto status = run(pass, operands, workspace); status != CUDNN_STATUS_SUCCESS) {
          pass.refusal = cudnn_text(status);
          continue;
        }
        SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream));
        pass.refusal.clear();
        if (!timed) return pass;
        ++tried;
        const double seconds = seconds_of(pass, operands, workspace);
        if (best && seconds >= least_seconds) continue;
        best = std::move(pass.plan);
        least_seconds = seconds;
      }
      pass.plan = std::move(best);
      if (pass.plan) {
        pass.refusal.clear();
        return pass;
      }
      if (!too_large) return pass;
    }
    base::fail(base::ExitCode::failed,
               "attention: {} needs a workspace of {} bytes at least for batch {}, seq {}, {} heads on {} kv heads of "
               "{}, {} are there; use shorter sequences or more tensor ranks",
               cudnn_version(), least, shape.batch, shape.seq, shape.heads, shape.kv_heads, shape.head_dim,
               workspace.size());
  }

  template <class Operands>
  bool call(Direction direction, cudaStream_t on, const Operands& operands, AttentionShape shape,
            std::span<std::byte> workspace) {
    // Forward is deterministic whatever the shape says.
    if (direction == Direction::forward) shape.deterministic = true;
    use(on);
    const auto found = passes.find({direction, shape});
    if (found == passes.end()) {
      auto pass = build(direction, operands, shape, workspace);
      return passes.emplace(std::pair(direction, shape), std::move(pass)).first->second.plan.has_value();
    }
    auto& pass = found->second;
    if (!pass.plan) return false;
    SHARD8_REQUIRE(pass.bytes(direction) <= workspace.size(), "attention: workspace of {} bytes, {} when first called",
                   workspace.size(), pass.bytes(direction));
    SHARD8_CUDNN_CHECK(run(pass, operands, workspace));
    return true;
  }
};

Sdpa::Sdpa() : state_(std::make_unique<State>()) {}
Sdpa::~Sdpa() = default;
Sdpa::Sdpa(Sdpa&&) noexcept = default;
Sdpa& Sdpa::operator=(Sdpa&&) noexcept = default;

bool Sdpa::forward(cudaStream_t stream, const SdpaForward& operands, const AttentionShape& shape,
                   std::span<std::byte> workspace) {
  return state_->call(Direction::forward, stream, operands, shape, workspace);
}

bool Sdpa::backward(cudaStream_t stream, const SdpaBackward& operands, const AttentionShape& shape,
                    std::span<std::byte> workspace) {
  return state_->call(Direction::backward, stream, operands, shape, workspace);
}

std::string Sdpa::note(const AttentionShape& shape) const {
  std::string text;
  for (const auto direction : {Direction::forward, Direction::backward}) {
    auto key = shape;
    if (direction == Direction::forward) key.deterministic = true;
    const auto found = state_->passes.find({direction, key});
    if (found == state_->passes.end()) continue;
    const auto& pass = found->second;
    text += fmt::format("{}{} by ", text.empty() ? "" : ", ", direction == Direction::forward ? "forward" : "backward");
    if (!pass.plan) {
      text += fmt::format("portable kernels ({})", pass.refusal);
    } else {
      text += cudnn_version();
      if (pass.part.count() > 1) text += fmt::format(" in {} parts", pass.part.count());
    }
  }
  return text;
}

}  // namespace shard8::kernels::cuda
