// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Dispatch and combine of rows of experts through peers' memory, beside copies of as many bytes by copy engines. Checks
// what arrives. Not a test:
//   mpiexec -n 2 build/cuda/tests/comm_push_bench [MiB for each rank]

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <mpi.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "comm/device.hpp"
#include "comm/environment.hpp"
#include "comm/nccl/device.hpp"
#include "kernels/moe.hpp"
#include "tensor/arena.hpp"
#include "tensor/cuda/device.hpp"
#include "tensor/runtime.hpp"
#include "tensor/transfer.hpp"
#include "tests/support/rank_device.hpp"

namespace {

using namespace shard8;
using comm::Communicator;
using tensor::DType;
using tensor::Tensor;
using Ints = std::vector<std::int32_t>;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kPerToken = 8;
constexpr int kFew[] = {1, 2, 4, 8, 16, 32};

/// Each rank sends `bytes` to each rank, in rows of `row_bytes`: every token has 8 experts, and every expert gets as
/// many rows.
class Bench {
 public:
  Bench(const Communicator& world, const tensor::Exec& exec, std::int64_t bytes, std::int64_t row_bytes)
      : world_(world),
        exec_(exec),
        stream_(tensor::cuda::stream_of(exec)),
        ranks_(world.size()),
        experts_(kPerToken * ranks_),
        hidden_(row_bytes / 4),
        pairs_(bytes / row_bytes / kPerToken * kPerToken * ranks_),
        memory_(world.push_memory(static_cast<std::size_t>(2 * pairs_ * row_bytes))) {
    if (memory_ == nullptr)
      base::fail(base::ExitCode::environment, "ranks cannot write to each other's memory: {}",
                 fmt::join(world.device()->describe(), "; "));
    prepare();
  }

  void run() {
    const auto rows = addresses(0), results = addresses(static_cast<std::size_t>(received_.bytes()));
    const double copied = time([&] {
      for (int k = 1; k < ranks_; ++k)
        SHARD8_CUDA_CHECK(cudaMemcpyAsync(rows.of[(world_.rank() + k) % ranks_], returned_.data, bytes_of_rank(),
                                          cudaMemcpyDeviceToDevice, stream_));
    });
    const auto part = [&](int multiprocessors) {
      return kernels::DispatchPart{.experts = kPerToken, .multiprocessors = multiprocessors};
    };
    const auto push = [&](int multiprocessors) {
      return time([&] {
        kernels::moe_push_rows(exec_, rows, {}, dispatch_, part(multiprocessors), tokens_, source_, Tensor{});
      });
    };
    const double pushed = push(0);
    expect_received();
    const double back =
        time([&] { kernels::moe_push_results(exec_, results, {}, dispatch_, part(0), received_, Tensor{}); });
    expect_returned();
    std::vector<double> crowded;
    for (const int multiprocessors : kFew) crowded.push_back(push(multiprocessors));
    expect_received();
    const double meetings = time([] {});
    const double rounds = time([&] { kernels::moe_rounds(exec_, dispatch_); });
    if (world_.rank() != 0) return;
    const auto speed = [&](double s) { return 1e-9 * static_cast<double>(bytes_of_rank()) * (ranks_ - 1) / s; };
    fmt::print(
        "{} KiB a row, {} rows to each of {} ranks: copy engines {:.1f} us {:.1f} GB/s; dispatch {:.1f} us "
        "{:.1f} GB/s ({:.0f} %); combine {:.1f} us {:.1f} GB/s ({:.0f} %); meetings alone {:.1f} us; with "
        "moe_rounds {:.1f} us\n",
        static_cast<double>(hidden_) / 256, pairs_ / ranks_, ranks_, 1e6 * copied, speed(copied), 1e6 * pushed,
        speed(pushed), 100 * copied / pushed, 1e6 * back, speed(back), 100 * copied / back, 1e6 * meetings,
        1e6 * rounds);
    fmt::print("  dispatch on few multiprocessors, GB/s:");
    for (std::size_t i = 0; i < crowded.size(); ++i)
      fmt::print(" {} on {}", static_cast<int>(speed(crowded[i])), kFew[i]);
    fmt::print("\n");
    std::fflush(stdout);
  }

 private:
  Tensor make(const tensor::Shape& shape, DType dtype) { return arena_.allocate(shape, dtype); }
  Tensor ints(const tensor::Shape& shape, const Ints& values) {
    const Tensor t = make(shape, DType::i32);
    tensor::to_device(exec_, t, values.data());
    tensor::finish(exec_);
    return t;
  }
  std::size_t bytes_of_rank() const { return received_.bytes() / static_cast<std::size_t>(ranks_); }
  /// What element 0 and the last one of a token's row are.
  static std::int32_t mark(int rank, std::int64_t token) { return static_cast<std::int32_t>(rank << 24 | token); }

  void prepare() {
    const std::int64_t tokens = pairs_ / kPerToken, of_expert = pairs_ / experts_;
    Ints counts(static_cast<std::size_t>(ranks_ * experts_), static_cast<std::int32_t>(of_expert)), source;
    for (std::int64_t e = 0; e < experts_; ++e) {  // token t has the experts t·8 … t·8 + 7, modulo their number
      for (std::int64_t pair = e; pair < pairs_; pair += experts_) source.push_back(static_cast<std::int32_t>(pair));
    }
    Ints values(static_cast<std::size_t>(tokens * hidden_));
    for (std::int64_t t = 0; t < tokens; ++t)
      values[static_cast<std::size_t>(t * hidden_)] = values[static_cast<std::size_t>((t + 1) * hidden_ - 1)] =
          mark(world_.rank(), t);
    sorted_ = source;
    dispatch_ = {ints({ranks_, experts_}, counts),
                 world_.rank(),
                 pairs_,
                 1,
                 make({1, kPerToken}, DType::i32),
                 make({1, kPerToken}, DType::i32),
                 make({1}, DType::i32),
                 make({kernels::moe_dispatch_table_count(ranks_, experts_, 1)}, DType::i32)};
    source_ = ints({pairs_}, source);
    tokens_ = ints({tokens, hidden_}, values);
    received_ = {memory_->data(), {pairs_, hidden_}, DType::i32};
    returned_ = {memory_->data() + received_.bytes(), {pairs_, hidden_}, DType::i32};
    kernels::moe_rounds(exec_, dispatch_);
  }
  kernels::RankAddresses addresses(std::size_t offset) const {
    kernels::RankAddresses all;
    for (int r = 0; r < ranks_; ++r) all.of[r] = memory_->of(r) + offset;
    return all;
  }

  /// Seconds of a push, the slowest rank's mean.
  template <class Write>
  double time(const Write& write) {
    constexpr int kWarmUp = 3, kRepetitions = 30;
    double s = 0;
    for (const int repetitions : {kWarmUp, kRepetitions}) {
      tensor::finish(exec_);
      world_.barrier();
      const auto begin = Clock::now();
      for (int i = 0; i < repetitions; ++i) world_.push(*memory_, {}, "experts", write).wait();
      tensor::finish(exec_);
      s = std::chrono::duration<double>(Clock::now() - begin).count() / repetitions;
    }
    double slowest[] = {s};
    world_.all_reduce(slowest, Communicator::Reduce::max);
    return slowest[0];
  }

  void expect(const char* what, const Tensor& rows, const Ints& marks) {
    const auto got = tensor::to_host<std::int32_t>(exec_, rows);
    for (std::int64_t row = 0; row < pairs_; ++row) {
      const std::int32_t want = marks[static_cast<std::size_t>(row)];
      const std::int32_t first = got[static_cast<std::size_t>(row * hidden_)];
      const std::int32_t last = got[static_cast<std::size_t>((row + 1) * hidden_ - 1)];
      if (first != want || last != want)
        base::fail(base::ExitCode::failed, "rank {}: {} row {} is {:x} … {:x}, not {:x}", world_.rank(), what, row,
                   first, last, want);
    }
  }
  void expect_received() {
    Ints marks;
    for (std::int64_t e = world_.rank() * kPerToken; e < (world_.rank() + 1) * kPerToken; ++e) {
      for (int from = 0; from < ranks_; ++from)
        for (std::int64_t pair = e; pair < pairs_; pair += experts_) marks.push_back(mark(from, pair / kPerToken));
    }
    expect("dispatched", received_, marks);
  }
  void expect_returned() {
    Ints marks;
    for (const std::int32_t pair : sorted_) marks.push_back(mark(world_.rank(), pair / kPerToken));
    expect("returned", returned_, marks);
  }

  const Communicator& world_;
  const tensor::Exec& exec_;
  cudaStream_t stream_;
  int ranks_;
  std::int64_t experts_, hidden_, pairs_;
  std::shared_ptr<comm::PushMemory> memory_;
  tensor::Arena arena_{"bench", tensor::MemoryKind::buffers,
                       static_cast<std::size_t>(pairs_ / kPerToken * hidden_ + pairs_) * 4 + (1u << 20)};
  Ints sorted_;
  kernels::MoeDispatch dispatch_;
  Tensor tokens_, source_, received_, returned_;
};

std::int64_t bytes_asked(int argc, char** argv) {
  std::int64_t mib = 64;
  if (argc > 1) {
    const std::string_view text = argv[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mib);
    if (error != std::errc() || end != text.data() + text.size() || mib < 1 || mib > 1024)
      base::fail(base::ExitCode::deck, "MiB for each rank '{}' is not a number from 1 to 1024", text);
  }
  return mib << 20;
}

}  // namespace

int main(int argc, char** argv) {
  const comm::Environment environment(argc, argv, MPI_COMM_WORLD);
  return comm::run_guarded(environment, [&] {
    const std::int64_t bytes = bytes_asked(argc, argv);
    const auto device = shard8::tests::rank_device(environment.world());
    if (!device) return shard8::tests::kSkipped;
    const tensor::Runtime runtime({.device = *device});
    Communicator world(environment.world(), "world", comm::Waiting::spin, nullptr);
    comm::nccl::Settings settings;
    settings.share_devices = shard8::tests::share_devices();
    settings.alarm = [&](const std::string& text) { environment.abort(base::ExitCode::failed, text); };
    world.attach(comm::nccl::make_device(world, tensor::cuda::stream_of(runtime.exec()), std::move(settings)),
                 {.compute = true});
    for (const std::int64_t row_bytes : {1024, 2048, 4096, 8192}) Bench(world, runtime.exec(), bytes, row_bytes).run();
    return 0;
  });
}
