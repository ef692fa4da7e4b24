// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/comm/nccl/job.hpp"

namespace shard8::comm::tests {
namespace {

using std::chrono::milliseconds;

void CUDART_CB sleep_on_stream(void*) { std::this_thread::sleep_for(milliseconds(400)); }

/// Collectives on the compute stream, or on lanes of their own, each behind 400 ms of other work, issued at once by a
/// host that is 4 s ahead, with a limit of 2 s.
void run_far_ahead(bool timed, DeviceLanes lanes) {
  const tensor::cuda::Stream compute;
  profile::CollectiveLog log;
  Communicator world(MPI_COMM_WORLD, "world", Waiting::yield, timed ? &log : nullptr);
  std::atomic<int> alarms = 0;
  nccl::Settings settings;
  settings.share_devices = shard8::tests::share_devices();
  settings.gather = nccl::Gather::nccl;
  settings.limits = {milliseconds(2000), milliseconds(2000)};
  settings.alarm = [&](const std::string& text) {
    ++alarms;
    std::fprintf(stderr, "%s\n", text.c_str());
  };
  world.attach(nccl::make_device(world, compute, std::move(settings)), lanes);
  const Block block(std::size_t{4096} * static_cast<std::size_t>(world.size()));
  const tensor::Tensor whole = block.tensor({1024 * world.size()}, tensor::DType::fp32);
  SHARD8_CUDA_CHECK(cudaMemsetAsync(whole.data, 0, whole.bytes(), compute));
  world.all_gather_in_place({&whole, 1}).wait();  // connections are made here
  SHARD8_CUDA_CHECK(cudaStreamSynchronize(compute));
  world.barrier();

  const auto begin = std::chrono::steady_clock::now();
  std::vector<Request> requests;
  for (int i = 0; i < 10; ++i) {
    SHARD8_CUDA_CHECK(cudaLaunchHostFunc(compute, sleep_on_stream, nullptr));
    requests.push_back(world.all_gather_in_place({&whole, 1}));
  }
  const auto issued = std::chrono::steady_clock::now();
  for (Request& request : requests) request.wait();
  SHARD8_CUDA_CHECK(cudaStreamSynchronize(compute));
  EXPECT_LT(issued - begin, milliseconds(1500)) << "the host was not ahead of the stream";
  EXPECT_GT(std::chrono::steady_clock::now() - begin, milliseconds(3900));
  EXPECT_EQ(alarms, 0);
  world.barrier();
}

TEST(Watch, a_host_far_ahead_of_the_compute_stream_is_no_hang) {
  if (Communicator(MPI_COMM_WORLD, "world", Waiting::yield, nullptr).size() == 1) GTEST_SKIP() << "one rank";
  run_far_ahead(true, {.compute = true});
  run_far_ahead(false, {.compute = true});
}

TEST(Watch, a_host_far_ahead_of_a_lane_is_no_hang) {
  if (Communicator(MPI_COMM_WORLD, "world", Waiting::yield, nullptr).size() == 1) GTEST_SKIP() << "one rank";
  run_far_ahead(true, {.gather = true, .reduce = true});
  run_far_ahead(false, {.gather = true, .reduce = true});
}

}  // namespace
}  // namespace shard8::comm::tests
