// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "operation/executor.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.hpp"
#include "tensor/transfer.hpp"

namespace shard8::operation {

using tensor::DType;

void Recorder::begin_step() {
  ahead_before_.clear();
  for (const int index : std::exchange(ahead_, {})) ahead_before_.push_back(begin_ + index);
  begin_ = count_;
  ahead_now_ = false;
}

void Recorder::write(const Place& place, Operation operation) {
  operation.location = place.location;
  operation.phase = place.phase;
  operation.recomputed = place.recomputed;
  operation.waits = std::exchange(waits_, {});
  sink_(operation);
  ++count_;
}

void Recorder::add(const Place& place, const Product& p) {
  Operation o;
  o.read = bytes_read(p);
  o.written = bytes_written(p);
  o.what = p;
  write(place, std::move(o));
}

void Recorder::add(const Place& place, const Attention& a) {
  Operation o;
  const std::uint64_t qkv = bytes_of({a.dtype}, a.shape.tokens() * a.shape.qkv_columns());
  const std::uint64_t heads = bytes_of({a.dtype}, a.shape.tokens() * a.shape.heads * a.shape.head_dim);
  const std::uint64_t lse = bytes_of({DType::fp32}, a.shape.tokens() * a.shape.heads);
  o.read = a.backward ? qkv + 2 * heads + lse : qkv;
  o.written = a.backward ? qkv : heads + lse;
  o.what = a;
  write(place, std::move(o));
}

void Recorder::add(const Place& place, const Kernel& k) {
  if (k.rows * k.cols == 0) return;
  Operation o;
  o.read = k.read;
  o.written = k.written;
  o.what = k;
  write(place, std::move(o));
}

std::optional<int> Recorder::add(const Place& place, const Call& call) {
  if (call.ranks == 1) return {};
  if (calls_) calls_(call);
  Operation o;
  o.stream = call.stream;
  Collective c{call.op, call.group, call.ranks};
  for (const tensor::Tensor& t : call.tensors) {
    const auto same =
        std::find_if(c.payloads.begin(), c.payloads.end(), [&](const auto& p) { return p.dtype == t.dtype; });
    if (same == c.payloads.end())
      c.payloads.push_back({t.dtype, t.bytes()});
    else
      same->bytes += t.bytes();
  }
  c.items = static_cast<int>(call.tensors.size());
  c.by_parts = call.by_parts;
  c.ring = call.ring;
  c.host_values = call.host_values;
  o.what = std::move(c);
  if (ahead_now_ && call.stream == Stream::gather) ahead_.push_back(count_ - begin_);
  write(place, std::move(o));
  return call.stream == Stream::compute ? std::nullopt : std::optional(count_ - 1);
}

void Recorder::wait(int collective) {
  if (collective >= begin_) return waits_.push_back(collective - begin_);
  const auto ahead = std::find(ahead_before_.begin(), ahead_before_.end(), collective);
  SHARD8_REQUIRE(ahead != ahead_before_.end(), "operation {} of an earlier step is waited for, and brings no weights",
                 collective);
  waits_.push_back(-1 - static_cast<int>(ahead - ahead_before_.begin()));
}

void Executor::leave_out(const Product& product) {
  if (recorder_ != nullptr) return recorder_->add(place(), product);
  auto part = timer_.part(profile::Part::gemm, name_of(product.kind));
  tell(product);
  waits_->wait(*exec_, place(), product);
  progress_while_waiting();
}

void Executor::leave_out(const Attention& attention) {
  if (recorder_ != nullptr) return recorder_->add(place(), attention);
  auto part = timer_.part(profile::Part::attention, attention.backward ? "attention_backward" : "attention_forward");
  waits_->wait(*exec_, place(), attention);
  progress_while_waiting();
}

void Executor::leave_out(const Kernel& kernel) {
  if (recorder_ != nullptr) return recorder_->add(place(), kernel);
  auto part = timer_.part(profile::Part::elementwise, kernel.name);
  waits_->wait(*exec_, place(), kernel);
}

void Executor::progress_while_waiting() const {
  const auto begin = std::chrono::steady_clock::now();
  progress_();
  waits_->advanced(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

/// Tells the trace and the observer.
void Executor::tell(const Product& product) const {
  if (profile::TraceNote* const note = timer_.note()) {
    note->m = product.rows;
    note->n = product.cols;
    note->k = product.inner;
    note->groups = product.groups > 1 ? product.groups : 0;
    note->left = tensor::name_of(product.left.dtype);
    note->right = tensor::name_of(product.right.dtype);
    note->out = tensor::name_of(product.out);
    note->flops = product.flops();
  }
  if (observer_ != nullptr && observer_->product) observer_->product(product);
}

void Executor::set(const Location& location) {
  location_ = location;
  if (profile::TraceRecorder* const trace = timer_.trace())
    trace->location = {location.unit, location.linear ? name_of(*location.linear) : std::string_view()};
}

}  // namespace shard8::operation
