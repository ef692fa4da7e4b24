// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/device.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "app/process.hpp"
#include "base/arithmetic.hpp"
#include "base/text.hpp"
#include "comm/agree.hpp"
#include "deck/choices.hpp"
#include "deck/device.hpp"

#if defined(SHARD8_CUDA)
#include "comm/nccl/device.hpp"
#include "tensor/cuda/device.hpp"
#endif

namespace shard8::app {

void require_build(const deck::MeshConfig& mesh) {
  const auto refuse = [](std::string_view key, std::string_view value, std::string_view otherwise) {
    base::fail(
        base::ExitCode::environment,
        "{} = {}, but this program was built for {}: leave {} out, or use a build {} (the backends of the Kokkos "
        "library decide which a build is; `shard8 info` shows it)",
        key, value, tensor::kDevice ? "CUDA devices" : "hosts", key, otherwise);
  };
  const auto other = tensor::kDevice ? deck::Device::host : deck::Device::cuda;
  const auto moves = tensor::kDevice ? deck::Backend::mpi : deck::Backend::nccl;
  const std::string_view build = tensor::kDevice ? "for hosts" : "for CUDA devices";
  if (mesh.device == other) refuse("mesh.device", deck::to_string(mesh.device), build);
  if (mesh.backend == moves) refuse("mesh.backend", deck::to_string(mesh.backend), build);
}

void require_runnable(const deck::Config& config) {
  if (!deck::carried_by_hosts(config.run)) require_build(config.mesh);
}

void require_planned(const deck::Config& config) {
  if (!only_plans(config.mesh)) require_build(config.mesh);
}

bool only_plans(const deck::MeshConfig& mesh) { return !tensor::kDevice && mesh.device == deck::Device::cuda; }

void require_devices(std::string_view what) {
  if (!tensor::kDevice)
    base::fail(
        base::ExitCode::environment,
        "{} times what devices do, and this program was built for hosts: build with a Kokkos for CUDA (preset cuda); "
        "scripts/bench has benchmarks of hosts",
        what);
}

std::string describe_backends() {
  return tensor::kDevice ? "communication nccl, started over mpi; devices cuda" : "communication mpi; devices host";
}

#if defined(SHARD8_CUDA)

int choose_device(const comm::Communicator& world, const deck::Config& config, const comm::Node& node) {
  const deck::MeshConfig& mesh = config.mesh;
  int device = 0;
  tensor::cuda::separate_streams();
  comm::agree(world, [&] {
    require_runnable(config);
    const int devices = tensor::cuda::device_count();
    if (devices == 0)
      base::fail(
          base::ExitCode::environment,
          "{} has no CUDA device that this process sees: check the driver with nvidia-smi, CUDA_VISIBLE_DEVICES, "
          "and what the job asked for (--gpus-per-node)",
          node.host);
    // A launcher may let each rank see one device, its own.
    if (devices > 1 && node.ranks > devices && !mesh.share_devices)
      base::fail(
          base::ExitCode::environment,
          "{} ranks on {}, which has {} devices, one for each rank: start fewer ranks a node, change the mesh, or "
          "set mesh.share_devices to true to try a mesh",
          node.ranks, node.host, devices);
    device = node.rank % devices;
  });
  return device;
}

void attach_device(comm::Communicator& world, const tensor::Exec& exec, const comm::Environment& environment,
                   const comm::HangLimits& limits, bool share_devices) {
  comm::nccl::Settings settings;
  settings.limits = limits;
  settings.share_devices = share_devices;
  settings.alarm = [&environment](const std::string& what) { environment.abort(base::ExitCode::failed, what); };
  // The groups world and model exchange small tensors only: scales, amaxes, sums of squares.
  world.attach(comm::nccl::make_device(world, tensor::cuda::stream_of(exec), settings), {.compute = true});
}

std::vector<std::string> describe_devices() {
  const int devices = tensor::cuda::device_count();
  std::vector<std::string> lines{
      fmt::format("{}, {}", tensor::cuda::version_text(), base::count(devices, "device", "devices"))};
  for (int d = 0; d < devices; ++d) {
    const auto device = tensor::cuda::describe_device(d);
    lines.push_back(fmt::format("{}: {}, {:.1f} GiB, compute capability {}.{}, {} multiprocessors", d, device.name,
                                static_cast<double>(device.memory) / base::kGiB, device.compute_capability / 10,
                                device.compute_capability % 10, device.multiprocessors));
  }
  return lines;
}

std::optional<profile::DeviceNames> device_names() {
  const auto device = tensor::cuda::describe_device(tensor::cuda::current_device());
  return profile::DeviceNames{.uuid = device.uuid, .pci = device.pci};
}

std::uint64_t memory_taken() { return tensor::cuda::total_memory() - tensor::cuda::free_memory(); }
std::uint64_t memory_peak() { return memory_taken(); }

#else

int choose_device(const comm::Communicator& world, const deck::Config& config, const comm::Node&) {
  comm::agree(world, [&] { require_runnable(config); });
  return 0;
}

void attach_device(comm::Communicator&, const tensor::Exec&, const comm::Environment&, const comm::HangLimits&, bool) {}
std::vector<std::string> describe_devices() { return {"host"}; }

std::optional<profile::DeviceNames> device_names() {
  const char* const uuid = std::getenv("SHARD8_NVML_DEVICE");
  if (uuid == nullptr || *uuid == '\0') return std::nullopt;
  return profile::DeviceNames{.uuid = uuid};
}

std::uint64_t memory_taken() { return process_memory().resident; }
std::uint64_t memory_peak() { return process_memory().peak; }

#endif

}  // namespace shard8::app
