// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/lane.hpp"

#include <utility>

#include "tensor/cuda/device.hpp"

namespace shard8::comm::nccl {

Lane::Lane(std::string_view name, cudaStream_t compute, std::optional<tensor::cuda::Stream> own)
    : own_(std::move(own)), streams_{own_ ? own_->get() : compute, compute}, pool_(streams_), under_way_(name) {}

std::unique_ptr<Lane> Lane::with_own_stream(std::string_view name, cudaStream_t compute) {
  return std::make_unique<Lane>(name, compute, tensor::cuda::Stream(tensor::cuda::Stream::Urgency::high));
}

Call& Lane::next(const std::shared_ptr<const GroupInfo>& group, profile::Collective op, std::string_view label) {
  while (under_way_.count() >= kUnderWay && take_back_oldest()) {
  }
  Call& call = pool_.take();
  call.begin_new(group, op, label);
  return call;
}

void Lane::start(Call& call, peer::CallWords words) {
  call.issued(++started_);
  under_way_.add(call, std::move(words));
  follow_compute();
  call.begin().record(stream());
}

void Lane::follow_compute() {
  if (!streams_.apart()) return;
  ready_.record(streams_.compute);
  ready_.hold(streams_.collectives);
}

DeviceCall* Lane::end(Call& call) {
  call.done().record(stream());
  under_way_.launched(call);
  if (streams_.apart()) return &call;
  call.release();
  return nullptr;
}

/// Takes back the oldest call under way. False when the call cannot be taken back yet, or there is none.
bool Lane::take_back_oldest() {
  Call* const call = under_way_.oldest();
  if (call == nullptr || !call->over()) return false;
  call->report(origin_);
  under_way_.remove_oldest();
  pool_.give_back(*call);
  return true;
}

void Lane::record_calls() {
  while (take_back_oldest()) {
  }
}

void Lane::make_spare_calls() {
  pool_.grow_to(2 * under_way_.most());
  under_way_.grow_to(2 * under_way_.most());
}

void Lane::drain() {
  SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream()));
  if (streams_.apart()) SHARD8_CUDA_CHECK(cudaStreamSynchronize(streams_.compute));  // events there time waits
  record_calls();
}

}  // namespace shard8::comm::nccl
