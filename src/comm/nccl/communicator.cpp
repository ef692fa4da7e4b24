// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/communicator.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "comm/nccl/nccl_group.hpp"
#include "comm/node.hpp"
#include "profile/trace_recorder.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::comm::nccl {
namespace {

// Made by the first rank, carried to the others by MPI.
ncclUniqueId agree_on_id(const Communicator& group, const GroupInfo& info) {
  ncclUniqueId id{};
  std::string bytes(sizeof id, '\0');
  if (group.rank() == 0) {
    SHARD8_NCCL_CHECK(ncclGetUniqueId(&id), "a new communicator", info, nullptr);
    std::memcpy(bytes.data(), &id, sizeof id);
  }
  group.broadcast(bytes, 0);
  std::memcpy(&id, bytes.data(), sizeof id);
  return id;
}

}  // namespace

std::string where(const GroupInfo& group) {
  return fmt::format("in group '{}' on its rank {} of {}", group.name, group.rank, group.size);
}

void check(ncclResult_t status, const char* expression, std::string_view purpose, const GroupInfo& group,
           ncclComm_t communicator, const char* file, int line) {
  if (status == ncclSuccess) return;
  const char* const last = ncclGetLastError(communicator);
  base::fail(base::ExitCode::failed, "{} {}: nccl: {} gave {} ({}) at {}:{}: {}; NCCL_DEBUG=WARN says more", purpose,
             where(group), expression, static_cast<int>(status), ncclGetErrorString(status), base::short_path(file),
             line, last == nullptr || *last == '\0' ? "it says no more" : last);
}

ncclUniqueId Identities::take(const Communicator& group, const GroupInfo& info, const Ranks& ranks) {
  std::vector<ncclUniqueId>& kept = kept_[ranks];
  if (kept.empty()) return agree_on_id(group, info);
  const ncclUniqueId id = kept.back();
  kept.pop_back();
  return id;
}

NcclCommunicator::NcclCommunicator(const Communicator& group, const GroupInfo& info, const Identities::Ranks& ranks,
                                   const char* purpose, const Options& options, Health& health, Identities& identities)
    : info_(info),
      purpose_(purpose),
      health_(health),
      waits_(group.waits()),
      options_(options),
      identities_(identities),
      ranks_(ranks),
      id_(identities.take(group, info, ranks)) {}

ncclComm_t NcclCommunicator::get() {
  if (communicator_ != nullptr) return communicator_;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.commName = info_.name.c_str();
  if (options_.most_ctas > 0) config.maxCTAs = options_.most_ctas;
  if (options_.zero_cta) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  const HostWaits::Wait wait(waits_, subject_of("ncclCommInitRankConfig", info_));
  const ncclResult_t made = ncclCommInitRankConfig(&communicator_, info_.size, id_, info_.rank, &config);
  constexpr std::size_t kLeastFree = std::size_t{256}
                                     << 20;  // chosen: with more than that free, something else is wrong
  if (made == ncclUnhandledCudaError && tensor::cuda::free_memory() < kLeastFree)
    base::fail(base::ExitCode::environment,
               "NCCL has no memory on the device for a communicator of group '{}' for {}: {} MiB are free. Use more "
               "ranks in mesh.shard or mesh.tensor, a smaller data.micro_batch, or model.recompute",
               info_.name, purpose_, tensor::cuda::free_memory() >> 20);
  SHARD8_NCCL_CHECK(made, fmt::format("a communicator for {}", purpose_), info_, nullptr);
  health_.add(*this);
  return communicator_;
}

NcclCommunicator::~NcclCommunicator() {
  if (communicator_ == nullptr) {
    identities_.keep(ranks_, id_);
    return;
  }
  health_.remove(*this);
  const HostWaits::Wait wait(waits_, subject_of("ncclCommDestroy", info_));
  static_cast<void>(ncclCommDestroy(communicator_));  // nothing of it is used any more
}

std::optional<std::string> NcclCommunicator::failure() const {
  ncclResult_t error = ncclSuccess;
  const ncclResult_t status = ncclCommGetAsyncError(communicator_, &error);
  if (status != ncclSuccess) error = status;
  if (error == ncclSuccess || error == ncclInProgress) return std::nullopt;
  const char* const last = ncclGetLastError(communicator_);
  return fmt::format("nccl failed in {} {}: {} ({}): {}", purpose_, where(info_), ncclGetErrorString(error),
                     static_cast<int>(error), last == nullptr ? "" : last);
}

void Health::add(const NcclCommunicator& communicator) {
  const std::lock_guard lock(mutex_);
  communicators_.push_back(&communicator);
}

void Health::remove(const NcclCommunicator& communicator) {
  const std::lock_guard lock(mutex_);
  std::erase(communicators_, &communicator);
}

std::optional<std::string> Health::problem() {
  const std::lock_guard lock(mutex_);
  for (const NcclCommunicator* communicator : communicators_) {
    if (auto failure = communicator->failure()) return failure;
  }
  return std::nullopt;
}

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "NCCL of unknown version";
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

namespace {

// The identity of a device in the machine, not in the process: each process may see another selection of the devices.
std::string identity_of(int index) {
  std::array<char, 32> bus{};
  SHARD8_CUDA_CHECK(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), index));
  return bus.data();
}

// NCCL refuses two ranks of a node that have the same device. NCCL reads a node's identity from this variable, once.
void appear_as_own_node(const Communicator& world) {
  agree(world, [&] {
    const std::string name = fmt::format("{}-rank{}", device_node_identity(), world.rank());
    if (setenv("NCCL_HOSTID", name.c_str(), 1) != 0)
      base::fail(base::ExitCode::environment,
                 "cannot set NCCL_HOSTID in the environment, which mesh.share_devices needs");
  });
}

void require_own_devices(const Communicator& world, int index) {
  std::string mine;
  agree(world, [&] { mine = device_node_identity() + ' ' + identity_of(index); });
  const auto all = world.all_gather(mine);
  std::map<std::string, int> owner;
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto [other, own] = owner.emplace(all[static_cast<std::size_t>(rank)], rank);
    if (own) continue;
    throw AgreedError(base::ExitCode::environment,
                      fmt::format("ranks {} and {} have the same device ({}): start one rank a device, use fewer ranks "
                                  "a node, or set mesh.share_devices to true to try a mesh",
                                  other->second, rank, other->first.substr(other->first.rfind(' ') + 1)),
                      world.size());
  }
}

}  // namespace

std::string_view name_of(Gather gather) {
  constexpr std::string_view names[] = {"auto", "nccl", "zero_cta", "push"};
  return names[static_cast<int>(gather)];
}

std::shared_ptr<Device> make_device(const Communicator& world, cudaStream_t compute, Settings settings) {
  if (settings.share_devices)
    appear_as_own_node(world);
  else
    require_own_devices(world, tensor::cuda::current_device());
  return std::make_shared<NcclDevice>(world, compute, std::move(settings));
}

NcclDevice::NcclDevice(const Communicator& world, cudaStream_t compute, Settings settings)
    : settings_(std::move(settings)),
      index_(tensor::cuda::current_device()),
      world_rank_(world.rank()),
      stream_(compute),
      compute_("compute", compute),
      gather_(Lane::with_own_stream("gather", compute)),
      reduce_(Lane::with_own_stream("reduce", compute)),
      gather_apart_(Lane::with_own_stream("tensor gather", compute)),
      reduce_apart_(Lane::with_own_stream("tensor reduce", compute)),
      statements_{nccl_version()},
      watchdog_(
          settings_.limits.interval(), [this] { return problem(); }, settings_.alarm) {
  SHARD8_REQUIRE(settings_.alarm != nullptr && settings_.limits.step.count() > 0,
                 "collectives on a device need an alarm and a time limit; the limit is {} ms",
                 settings_.limits.step.count());
}

std::unique_ptr<DeviceGroup> NcclDevice::make_group(const Communicator& group, DeviceLanes lanes,
                                                    profile::CollectiveLog* log) {
  // A group of this name may have been made before, for exchanges on other streams.
  std::erase_if(statements_, [prefix = fmt::format("group '{}':", group.name())](const std::string& line) {
    return line.starts_with(prefix);
  });
  return std::make_unique<NcclGroup>(*this, group, lanes, log);
}

std::string NcclDevice::identity() const { return device_node_identity() + ' ' + identity_of(index_); }

void NcclDevice::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  SHARD8_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
}

void NcclDevice::record_calls() {
  for (Lane* lane : lanes()) lane->record_calls();
}

void NcclDevice::set_trace_origin() {
  trace_origin_.record(stream_);
  trace_origin_.synchronize();
  const std::int64_t now = profile::trace_now();
  for (Lane* lane : lanes()) lane->set_trace_origin({&trace_origin_, now});
}

void NcclDevice::first_step_over() {
  for (Lane* lane : lanes()) lane->make_spare_calls();
  first_step_over_ = true;
}

Identities::Ranks NcclDevice::ranks_of(const Communicator& group) const {
  const std::array<double, 1> mine{static_cast<double>(world_rank_)};
  return group.all_gather(mine);
}

std::shared_ptr<NcclCommunicator> NcclDevice::on_compute_lane(const Communicator& group, const GroupInfo& info,
                                                              const Identities::Ranks& ranks, int most_ctas) {
  auto& known = on_compute_lane_[ranks];
  if (auto communicator = known.lock()) return communicator;
  const auto communicator = std::make_shared<NcclCommunicator>(
      group, info, ranks, "collectives", NcclCommunicator::Options{most_ctas}, health_, identities_);
  known = communicator;
  return communicator;
}

std::optional<std::string> NcclDevice::problem() {
  const cudaError_t status = cudaSetDevice(index_);             // of this thread
  if (status == cudaErrorCudartUnloading) return std::nullopt;  // the process is about to end
  SHARD8_CUDA_CHECK(status);
  const auto now = std::chrono::steady_clock::now();
  const auto limit = first_step_over_ ? settings_.limits.step : settings_.limits.start;
  for (Lane* lane : lanes()) {
    if (auto overdue = lane->overdue(now, limit, reader_)) return overdue;
  }
  return health_.problem();
}

}  // namespace shard8::comm::nccl
