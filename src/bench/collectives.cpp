// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "comm/device.hpp"
#include "tensor/cuda/device.hpp"
#include "tensor/dtype.hpp"

namespace shard8::bench {
namespace {

using comm::Communicator;
using comm::DeviceMemory;
using comm::Request;
using profile::Collective;
using tensor::Tensor;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kRow = 16;  // elements that rows are a multiple of

std::uint64_t rounded_up(std::uint64_t x, std::uint64_t step) { return (x + step - 1) / step * step; }

// Memory of the device for one case after the other.
class Memory {
 public:
  Memory(const Communicator& group, std::size_t bytes)
      : gather_(group.gather_memory(bytes)),
        reduce_(group.reduce_memory(bytes + kSlack)),
        all_to_all_(group.all_to_all_memory(bytes + kSlack)) {
    if (gather_ == nullptr) SHARD8_CUDA_CHECK(cudaMalloc(&plain_, bytes));
  }
  ~Memory() { cudaFree(plain_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return gather_ == nullptr ? static_cast<std::byte*>(plain_) : gather_->data(); }

 private:
  static constexpr std::size_t kSlack = 1 << 20;  ///< for shards that are rounded up
  std::shared_ptr<DeviceMemory> gather_, reduce_, all_to_all_;
  void* plain_ = nullptr;
};

/// AgreedError(environment) where the device of a rank has less free memory than the tensors of the largest case take.
void require_device_memory(const Communicator& group, std::size_t bytes) {
  comm::agree(group, [&] {
    std::size_t available = 0, all = 0;
    SHARD8_CUDA_CHECK(cudaMemGetInfo(&available, &all));
    if (bytes > available)
      base::fail(base::ExitCode::environment,
                 "the largest collective takes at least {} bytes of the device's memory, but {} of its {} bytes are "
                 "free: give a smaller --max",
                 bytes, available, all);
  });
}

std::vector<Tensor> lay_out(const BenchCase& one, int ranks, std::byte* memory) {
  std::vector<Tensor> tensors;
  for (const std::uint64_t bytes : one.bytes) {
    const std::uint64_t step = static_cast<std::uint64_t>(ranks) * kRow;
    const std::uint64_t count = rounded_up(std::max<std::uint64_t>(bytes / size_of(one.dtype), 1), step);
    tensors.push_back({memory, {static_cast<std::int64_t>(count)}, one.dtype});
    memory += tensor::aligned(tensors.back().bytes());
  }
  return tensors;
}

std::size_t bytes_of(std::span<const Tensor> tensors) {
  std::size_t bytes = 0;
  for (const Tensor& t : tensors) bytes += tensor::aligned(t.bytes());
  return bytes;
}

bool in_place(Collective op) { return op != Collective::all_to_all && op != Collective::send_receive; }

/// Bytes of all tensors of a case.
std::size_t bytes_of(const BenchCase& one, int ranks) {
  return bytes_of(lay_out(one, ranks, nullptr)) * (in_place(one.op) ? 1 : 2);
}

/// The tensors of a call, and what they are in the calls that take more than wholes.
struct Arguments {
  std::vector<Tensor> tensors;
  std::vector<std::vector<std::int64_t>> counts;  ///< of each tensor: rows for each rank
  std::vector<Communicator::ReduceScatterItem> reduced;
  std::vector<Communicator::AllToAllItem> exchanged;
  std::vector<Communicator::SendReceiveItem> passed;
};

Request start(const Communicator& group, Collective op, const Arguments& with) {
  switch (op) {
    case Collective::all_gather:
      return group.all_gather_in_place(with.tensors);
    case Collective::reduce_scatter:
      return group.reduce_scatter(with.reduced);
    case Collective::all_reduce:
      return group.all_reduce(with.tensors, Communicator::Reduce::sum);
    case Collective::all_to_all:
      return group.all_to_all(with.exchanged);
    case Collective::send_receive:
      return group.send_receive(with.passed, 1);
  }
  base::fail(base::ExitCode::failed, "there is no benchmark of {}", name_of(op));
}

BenchRow time_one(const Communicator& group, cudaStream_t compute, const BenchCase& one, std::byte* memory,
                  const BenchSettings& settings) {
  const int n = group.size();
  Arguments with;
  with.tensors = lay_out(one, n, memory);
  const std::vector<Tensor> given = in_place(one.op) ? with.tensors : lay_out(one, n, memory + bytes_of(with.tensors));
  BenchRow row{.op = one.op, .dtype = std::string(name_of(one.dtype)), .tensors = static_cast<int>(given.size())};
  const bool all = one.op == Collective::all_reduce || one.op == Collective::send_receive;
  with.counts.reserve(given.size());  // items refer to them
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Tensor& t = with.tensors[i];
    const auto& counts = with.counts.emplace_back(static_cast<std::size_t>(n), t.rows() / n);
    with.reduced.push_back({t.slice(t.rows() / n * group.rank(), t.rows() / n), t});
    with.exchanged.push_back({t, given[i], counts, counts});
    with.passed.push_back({t, given[i]});
    row.bytes += t.bytes();
    row.count += static_cast<std::uint64_t>(all ? t.count() : t.count() / n);
    SHARD8_CUDA_CHECK(cudaMemsetAsync(t.data, 0, t.bytes(), compute));
    SHARD8_CUDA_CHECK(cudaMemsetAsync(given[i].data, 0, t.bytes(), compute));
  }
  std::vector<Request> requests(static_cast<std::size_t>(std::max(settings.warmup, settings.repetitions)));
  double host_s = 0, all_s = 0;
  for (const int repetitions : {settings.warmup, settings.repetitions}) {
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(compute));
    group.barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < repetitions; ++i) requests[static_cast<std::size_t>(i)] = start(group, one.op, with);
    const auto started = Clock::now();
    for (Request& request : requests) request.wait();
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(compute));
    host_s = std::chrono::duration<double>(started - begin).count() / repetitions;
    all_s = std::chrono::duration<double>(Clock::now() - begin).count() / repetitions;
  }
  std::array<double, 1> sum{all_s}, slowest{host_s};
  group.all_reduce(sum, Communicator::Reduce::sum);
  group.all_reduce(slowest, Communicator::Reduce::max);
  const double mean_s = sum[0] / n;
  const profile::CollectiveKey key{one.op, group.name(), n, row.dtype, row.bytes};
  row.us = mean_s * 1e6;
  row.host_us = slowest[0] * 1e6;
  row.algbw = profile::algbw(key, mean_s);
  row.busbw = profile::busbw(key, mean_s);
  return row;
}

}  // namespace

std::vector<BenchCase> bench_sizes(Collective op, tensor::DType dtype, std::uint64_t least, std::uint64_t most,
                                   int factor) {
  std::vector<BenchCase> cases;
  for (const std::uint64_t bytes : sizes_between(least, most, factor)) cases.push_back({op, dtype, {bytes}});
  return cases;
}

std::vector<BenchRow> bench_collectives(const Communicator& group, cudaStream_t compute,
                                        std::span<const BenchCase> cases, const BenchSettings& settings) {
  SHARD8_REQUIRE(settings.warmup > 0 && settings.repetitions > 0, "a benchmark of {} + {} repetitions", settings.warmup,
                 settings.repetitions);
  std::size_t most = tensor::kAlignment;
  for (const BenchCase& one : cases) most = std::max(most, bytes_of(one, group.size()));
  require_device_memory(group, most);
  const Memory memory(group, most);
  std::vector<BenchRow> rows;
  for (const BenchCase& one : cases) rows.push_back(time_one(group, compute, one, memory.data(), settings));
  return rows;
}

std::string to_text(std::span<const BenchRow> rows) {
  std::string text = fmt::format(
      "# {:<14} {:>12} {:>12} {:>5} {:>7} {:>10} {:>8} {:>8} {:>8}\n# {:<14} {:>12} {:>12} "
      "{:>5} {:>7} {:>10} {:>8} {:>8} {:>8}\n",
      "operation", "size", "count", "type", "tensors", "time", "algbw", "busbw", "host", "", "(B)", "(elements)", "",
      "", "(us)", "(GB/s)", "(GB/s)", "(us)");
  for (const BenchRow& row : rows)
    text += fmt::format("  {:<14} {:>12} {:>12} {:>5} {:>7} {:>10.2f} {:>8.2f} {:>8.2f} {:>8.2f}\n", name_of(row.op),
                        row.bytes, row.count, row.dtype, row.tensors, row.us, row.algbw * 1e-9, row.busbw * 1e-9,
                        row.host_us);
  return text;
}

}  // namespace shard8::bench
