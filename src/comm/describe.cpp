// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/describe.hpp"

#include "base/error.hpp"
#include "profile/trace_recorder.hpp"

namespace shard8::comm {

std::uint64_t total_bytes(std::span<const tensor::Tensor> tensors) {
  std::uint64_t bytes = 0;
  for (const tensor::Tensor& t : tensors) bytes += t.bytes();
  return bytes;
}

namespace {

std::uint64_t trace_issue(profile::TraceRecorder& trace, profile::Collective op, const std::string& group,
                          int group_size, std::span<const DTypeBytes> sizes) {
  profile::CallSpan call;
  call.op = op;
  call.group = group;
  call.ranks = group_size;
  for (const auto& [dtype, bytes] : sizes) {
    if (!call.dtype.empty()) call.dtype += '+';
    call.dtype += dtype;
    call.bytes += bytes;
  }
  return trace.issued(call);
}

}  // namespace

std::uint64_t record_issue(const profile::CollectiveLog& log, profile::Collective op, const std::string& group,
                           int group_size, std::span<const DTypeBytes> sizes) {
  if (log.watcher().issued)
    for (const auto& [dtype, bytes] : sizes) log.watcher().issued({op, group, group_size, std::string(dtype), bytes});
  profile::TraceRecorder* const trace = log.trace();
  return trace != nullptr && trace->tracing_calls() ? trace_issue(*trace, op, group, group_size, sizes) : 0;
}

void record_call(profile::CollectiveLog& log, profile::Collective op, const std::string& group, int group_size,
                 std::span<const DTypeBytes> sizes, double total_s, double exposed_s) {
  std::uint64_t all = 0;
  for (const DTypeBytes& size : sizes) all += size.bytes;
  for (const auto& [dtype, bytes] : sizes) {
    const double share = sizes.size() == 1 ? 1 : static_cast<double>(bytes) / static_cast<double>(all);
    log.record({op, group, group_size, std::string(dtype), bytes}, share * total_s, share * exposed_s);
  }
}

void require_data(const tensor::Tensor& t, const Group& group, std::string_view operation) {
  SHARD8_REQUIRE(t.data != nullptr || t.count() == 0, "{} in group '{}': tensor {} of {} has no memory", operation,
                 group.name, to_string(t.shape), name_of(t.dtype));
}

void require_rows(const tensor::Tensor& t, const Group& group, std::string_view operation) {
  SHARD8_REQUIRE(t.rows() % group.size == 0, "{} in group '{}': {} rows of {} do not divide by {} ranks", operation,
                 group.name, t.rows(), to_string(t.shape), group.size);
}

void require_summable(const tensor::Tensor& t, const Group& group, std::string_view operation) {
  SHARD8_REQUIRE(t.dtype == tensor::DType::fp32 || t.dtype == tensor::DType::bf16,
                 "{} in group '{}': tensor {} is {}; only fp32 and bf16 can be summed", operation, group.name,
                 to_string(t.shape), name_of(t.dtype));
}

void require_comparable(const tensor::Tensor& t, const Group& group, std::string_view operation) {
  SHARD8_REQUIRE(t.dtype == tensor::DType::fp32 || t.dtype == tensor::DType::bf16 || t.dtype == tensor::DType::i32,
                 "{} in group '{}': tensor {} is {}; only fp32, bf16 and i32 have a maximum", operation, group.name,
                 to_string(t.shape), name_of(t.dtype));
}

void require_item(const Communicator::ReduceScatterItem& item, const Group& group) {
  SHARD8_REQUIRE(item.out.dtype == item.whole.dtype && item.whole.count() == item.out.count() * group.size,
                 "reduce_scatter in group '{}': {} of {} is not {} times {} of {}", group.name,
                 to_string(item.whole.shape), name_of(item.whole.dtype), group.size, to_string(item.out.shape),
                 name_of(item.out.dtype));
  require_summable(item.whole, group, "reduce_scatter");
  require_data(item.out, group, "reduce_scatter");
  SHARD8_REQUIRE(
      item.addend.empty() || (item.addend.dtype == item.out.dtype && item.addend.count() == item.out.count()),
      "reduce_scatter in group '{}': the addend {} of {} is not as the sum {} of {}", group.name,
      to_string(item.addend.shape), name_of(item.addend.dtype), to_string(item.out.shape), name_of(item.out.dtype));
}

}  // namespace shard8::comm
