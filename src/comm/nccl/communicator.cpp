// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/communicator.hpp"

#include <cstring>

#include "base/error.hpp"
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

}  // namespace shard8::comm::nccl
