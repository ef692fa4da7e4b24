// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// A job in which one rank ends in the way that the first argument says while the others wait for it
// in a collective. Run by dying_rank.sh.

#include <mpi.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "comm/communicator.hpp"
#include "comm/environment.hpp"

namespace {

using namespace shard8;

struct ThrowsAtItsEnd {
  ~ThrowsAtItsEnd() { base::fail(base::ExitCode::environment, "the device is lost"); }
};

void die(const std::string& way) {
  if (way == "destructor") {
    const ThrowsAtItsEnd inside;
    base::fail(base::ExitCode::checkpoint, "cannot read block 7");
  }
  if (way == "thread") std::thread([] { base::fail(base::ExitCode::environment, "the disk is lost"); }).join();

  if (way == "error" || way == "abort_hangs") base::fail(base::ExitCode::checkpoint, "cannot read block 7");
  if (way == "ok_error") base::fail(base::ExitCode::ok, "an error that calls itself ok");
  if (way == "exception") throw std::runtime_error("a plain exception");
  if (way == "unknown") throw 7;
  if (way.starts_with("kill")) ::kill(::getpid(), SIGKILL);
  if (way == "abort") std::abort();
  if (way == "exit0") std::exit(0);
  if (way == "exit9") std::exit(9);
  if (way.starts_with("stop_")) ::kill(::getpid(), SIGSTOP);
}

/// Exchanges by parts, round a ring if `way` says so. In the second of a kind the last rank dies: before it begins one
/// ("before"), or between its begin and its end ("in").
int exchange_parts(const comm::Communicator& group, const std::string& way) {
  std::vector<float> own(1000, 1), whole(1000 * static_cast<std::size_t>(group.size()));
  const auto tensor_of = [](std::vector<float>& v) {
    return tensor::Tensor{
        reinterpret_cast<std::byte*>(v.data()), {static_cast<std::int64_t>(v.size())}, tensor::DType::fp32};
  };
  const auto memory = group.parts_memory(own.size() * sizeof(float), whole.size() * sizeof(float));
  const bool last = group.rank() == group.size() - 1, gather = way.find("gather") != std::string::npos;
  const comm::Route route = way.find("ring") != std::string::npos ? comm::Route::ring : comm::Route::direct;
  for (int i = 0; i < 2; ++i) {
    const bool dies = last && i == 1;
    if (dies && way.find("before") != std::string::npos) die(way);
    if (gather) {
      comm::GatherParts parts =
          group.all_gather_parts(std::vector{tensor_of(whole)}, std::vector{tensor_of(own)}, "fc1_fprop", route);
      if (dies) die(way);
      for (int k = 0; k < group.size(); ++k) parts.await(parts.arrival(k));
      parts.finish();
    } else {
      comm::ScatterParts parts = group.reduce_scatter_parts({tensor_of(own), tensor_of(whole)}, "fc2_fprop", route);
      static_cast<void>(parts.whole());
      if (dies) die(way);
      for (int k = 1; k <= group.size(); ++k) parts.give(parts.destination(k));
      parts.finish();
    }
  }
  group.barrier();
  return base::to_int(base::ExitCode::ok);
}

int body(comm::Environment& environment, const std::string& way, comm::Waiting waiting) {
  if (way.starts_with("stop_")) environment.set_hang_limits({std::chrono::seconds(2), std::chrono::seconds(2)});
  const comm::Communicator world(environment.world(), "world", waiting, nullptr, &environment.waits());
  std::vector<float> data(100000, 1);
  const std::vector tensors{tensor::Tensor{reinterpret_cast<std::byte*>(data.data()), {100000}, tensor::DType::fp32}};
  world.all_reduce(tensors, comm::Communicator::Reduce::sum).wait();

  const int last = world.size() - 1;
  if (way.find("_parts") != std::string::npos) return exchange_parts(world, way);
  if (way == "well") return base::to_int(base::ExitCode::ok);
  if (way == "stopped") return base::to_int(base::ExitCode::stopped);
  if (way == "agreed") {
    comm::agree(world, [&] {
      if (world.rank() == last) base::fail(base::ExitCode::environment, "no device");
    });
  }
  if (way == "agreed_in_part") {
    const comm::Communicator part = world.split(world.rank() % 2, world.rank(), "part");
    if (world.rank() % 2 == 1) comm::agree(part, [] { base::fail(base::ExitCode::environment, "no odd device"); });
  }
  if (way.starts_with("stop_in_") && way != "stop_in_all_reduce") {
    if (world.rank() == last) die(way);
    if (way == "stop_in_barrier") world.barrier();
    if (way == "stop_in_split") static_cast<void>(world.split(0, 0, "part"));
    return 0;  // stop_in_finalize
  }
  // While this one is under way.
  comm::Request request = world.all_reduce(tensors, comm::Communicator::Reduce::sum);
  if (world.rank() == last) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    die(way);
  }
  request.wait();
  world.barrier();
  if (world.rank() != last) world.barrier();  // the others wait for ever
  std::this_thread::sleep_for(std::chrono::minutes(1));
  return 0;
}

}  // namespace

// In place of the library's: for one way it hangs, as it may for a thread that the library does not know.
int MPI_Abort(MPI_Comm comm, int code) {
  const char* const way = std::getenv("DYING_RANK_WAY");
  if (way != nullptr && std::string(way) == "abort_hangs") std::this_thread::sleep_for(std::chrono::minutes(1));
  return PMPI_Abort(comm, code);
}

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "well";
  ::setenv("DYING_RANK_WAY", way.c_str(), 1);
  // The last rank leaves before it initialises MPI, as if its loader had found no library.
  const bool no_start = way == "no_start";
  if (no_start && std::string(std::getenv("PMI_RANK")) == "3") return 3;
  const comm::HangLimits short_limits{std::chrono::seconds(2), std::chrono::seconds(2)};
  comm::Environment environment(argc, argv, MPI_COMM_WORLD, no_start ? short_limits : comm::HangLimits{});
  const auto waiting = argc > 2 && std::string(argv[2]) == "spin" ? comm::Waiting::spin : comm::Waiting::yield;
  if (way == "unguarded") {
    try {
      const comm::Environment* inside = &environment;
      if (inside->rank() == inside->size() - 1) environment.abort(base::ExitCode::ok, "said by hand");
      std::this_thread::sleep_for(std::chrono::minutes(1));
    } catch (...) {
    }
  }
  return comm::run_guarded(environment, [&] { return body(environment, way, waiting); });
}
