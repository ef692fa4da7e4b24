// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// A job whose last rank leaves the others alone in a collective on the device. Run by hanging_rank.sh as
//   hanging_rank first|later compute|exchange|nccl|push

#include <mpi.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "comm/environment.hpp"
#include "comm/nccl/device.hpp"
#include "tensor/cuda/stream.hpp"
#include "tests/comm/nccl/rank_device.hpp"

namespace {

using namespace shard8;

int body(const comm::Environment& environment, bool first, std::string_view how) {
  if (!comm::tests::take_device(environment.world())) return comm::tests::kSkipped;
  const tensor::cuda::Stream compute;
  comm::Communicator world(environment.world(), "world", comm::Waiting::yield, nullptr);
  comm::nccl::Settings settings;
  settings.share_devices = shard8::tests::share_devices();
  settings.gather = how == "push" || how == "exchange" ? comm::nccl::Gather::push : comm::nccl::Gather::nccl;
  settings.limits = {std::chrono::seconds(3), std::chrono::seconds(3)};
  settings.alarm = [&](const std::string& text) { environment.abort(base::ExitCode::failed, text); };
  world.attach(comm::nccl::make_device(world, compute, std::move(settings)), {.compute = true});
  const comm::Communicator shard = world.split(0, world.rank(), "shard", {.gather = true, .reduce = true});
  const auto memory = (how == "exchange" ? world : shard).gather_memory(1 << 20);
  const comm::Communicator& group = how == "compute" || how == "exchange" ? world : shard;
  const tensor::Tensor whole{memory->data(), {1 << 18}, tensor::DType::fp32};
  SHARD8_CUDA_CHECK(cudaMemsetAsync(whole.data, 0, whole.bytes(), compute));
  const auto gather = [&] {
    group.all_gather_in_place({&whole, 1}).wait();
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(compute));
  };
  if (!first) gather();
  world.barrier();
  if (world.rank() == world.size() - 1) std::this_thread::sleep_for(std::chrono::minutes(2));
  gather();
  world.barrier();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  comm::Environment environment(argc, argv, MPI_COMM_WORLD);
  return comm::run_guarded(environment, [&] {
    if (argc != 3) base::fail(base::ExitCode::deck, "usage: hanging_rank first|later compute|exchange|nccl|push");
    return body(environment, std::string_view(argv[1]) == "first", argv[2]);
  });
}
