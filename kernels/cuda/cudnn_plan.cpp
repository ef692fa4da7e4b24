// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn_plan.hpp"

#include <array>

#include "base/error.hpp"

namespace shard8::kernels::cuda {
namespace {

constexpr std::size_t kMaxOperands = 24;

std::vector<Descriptor> offered(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (heuristics.try_finalize() != CUDNN_STATUS_SUCCESS) return {};  // the heuristics do not know such graphs
  const auto results = [&](std::int64_t room, cudnnBackendDescriptor_t* into) {
    std::int64_t count = 0;
    SHARD8_CUDNN_CHECK(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, room, &count, into));
    return static_cast<std::size_t>(count);
  };
  std::vector<Descriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::size_t n = results(0, nullptr); n > 0; --n) {
    raw.push_back(configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  // cuDNN fills in only the configurations that support the graph, at the front.
  const auto filled = raw.empty() ? 0 : results(std::ssize(raw), raw.data());
  while (configurations.size() > filled) configurations.pop_back();
  return configurations;
}

}  // namespace

std::vector<Descriptor> engine_configurations(const Descriptor& graph) {
  auto all = offered(graph, CUDNN_HEUR_MODE_A);
  for (auto& configuration : offered(graph, CUDNN_HEUR_MODE_FALLBACK)) all.push_back(std::move(configuration));
  return all;
}

Plan::Plan(cudnnHandle_t handle, const Descriptor& configuration, std::span<const GraphScalar> scalars)
    : scalars_(scalars.begin(), scalars.end()) {
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle)
      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)
      .finalize();
  workspace_bytes_ = static_cast<std::size_t>(plan_.get_int(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
}

cudnnStatus_t Plan::run(cudnnHandle_t handle, std::span<const Binding> bindings, void* workspace) {
  const auto count = bindings.size() + scalars_.size();
  SHARD8_REQUIRE(count <= kMaxOperands, "cudnn: {} operands in a plan, {} allowed", count, kMaxOperands);
  std::array<std::int64_t, kMaxOperands> ids;
  std::array<void*, kMaxOperands> addresses;
  std::size_t n = 0;
  for (const auto& [id, address] : bindings) {
    ids[n] = id;
    addresses[n++] = address;
  }
  for (auto& scalar : scalars_) {
    ids[n] = scalar.id;
    addresses[n++] = &scalar.value;
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const std::int64_t>(ids).first(count))
      .set_pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span<void* const>(addresses).first(count))
      .set_pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::span<void* const>(&workspace, 1))
      .finalize();
  return cudnnBackendExecute(handle, plan_.get(), pack.get());
}

}  // namespace shard8::kernels::cuda
