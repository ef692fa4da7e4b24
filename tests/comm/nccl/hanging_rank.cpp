// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// A job whose last rank leaves the others alone in a collective on the device. Run by hanging_rank.sh as
//   hanging_rank first|later compute|exchange|nccl|push|direct|parts

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "comm/device.hpp"
#include "comm/environment.hpp"
#include "comm/nccl/device.hpp"
#include "tensor/cuda/device.hpp"
#include "tests/comm/nccl/job.hpp"

namespace {

using namespace shard8;

int body(const comm::Environment& environment, bool first, std::string_view how) {
  if (!comm::tests::take_device(environment.world())) return comm::tests::kSkipped;
  const tensor::cuda::Stream compute;
  comm::Communicator world(environment.world(), "world", comm::Waiting::yield, nullptr);
  comm::nccl::Settings settings;
  settings.share_devices = shard8::tests::share_devices();
  settings.gather = how == "compute" || how == "nccl" ? comm::nccl::Gather::nccl : comm::nccl::Gather::push;
  // The last rank, which hangs in the middle of a call if it goes by parts, leaves it to the others to say so.
  const bool last = world.rank() == world.size() - 1;
  const std::chrono::seconds limit(last ? 100 : 3);
  settings.limits = {limit, limit};
  settings.alarm = [&](const std::string& text) { environment.abort(base::ExitCode::failed, text); };
  world.attach(comm::nccl::make_device(world, compute, std::move(settings)), {.compute = true});
  const comm::Communicator shard = world.split(0, world.rank(), "shard", {.gather = true, .reduce = true});
  const auto memory = (how == "exchange" ? world : shard).gather_memory(1 << 20);
  const comm::Communicator& group = how == "compute" || how == "exchange" ? world : shard;
  const tensor::Tensor whole{memory->data(), {1 << 18}, tensor::DType::fp32};
  const std::int64_t rows = whole.rows() / world.size();
  const tensor::Tensor own = whole.slice(world.rank() * rows, rows);
  const auto sums = how == "parts"
                        ? shard.reduce_memory(comm::Communicator::reduce_memory_bytes(own.bytes(), world.size()))
                        : nullptr;
  if (world.rank() == 0)
    for (const std::string& line : world.device()->describe()) std::fprintf(stderr, "%s\n", line.c_str());
  SHARD8_CUDA_CHECK(cudaMemsetAsync(whole.data, 0, whole.bytes(), compute));
  const auto hang = [] { std::this_thread::sleep_for(std::chrono::minutes(2)); };
  const auto exchange = [&](bool hangs) {
    if (how == "parts") {
      comm::ScatterParts parts = group.reduce_scatter_parts({own, whole}, "proj_fprop");
      for (const std::int64_t chunk : {0, 1}) {
        for (int k = 1; k <= group.size(); ++k) parts.give(parts.destination(k), chunk * rows / 2, rows / 2);
        if (hangs) hang();
      }
      parts.finish();
    } else {
      if (hangs) hang();
      if (how == "direct")
        group.all_gather_parts({&whole, 1}, {&own, 1}, "fc1_fprop").finish();
      else
        group.all_gather_in_place({&whole, 1}, {}, "fc1_dgrad").wait();
    }
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(compute));
  };
  if (!first) exchange(false);
  world.barrier();
  exchange(last);
  world.barrier();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  comm::Environment environment(argc, argv, MPI_COMM_WORLD);
  return comm::run_guarded(environment, [&] {
    if (argc != 3)
      base::fail(base::ExitCode::deck, "usage: hanging_rank first|later compute|exchange|nccl|push|direct|parts");
    return body(environment, std::string_view(argv[1]) == "first", argv[2]);
  });
}
