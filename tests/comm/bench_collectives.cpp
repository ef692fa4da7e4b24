// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Microseconds per collective with either way of waiting. Not a test:
//   mpiexec -n 4 build/cpu/tests/comm_bench [REPETITIONS]

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/environment.hpp"
#include "comm/node.hpp"

namespace {

using namespace shard8;
using comm::Communicator;
using tensor::DType;

// A unit's tensors: whole bytes of each.
constexpr std::array<std::int64_t, 9> kSmall = {256, 256, 16384, 16384, 32768, 32768, 32768, 256, 4096};
constexpr std::array<std::int64_t, 9> kLarge = {256, 256, 262144, 524288, 1048576, 1048576, 1048576, 1024, 65536};

void time(const Communicator& group, int repetitions, const char* what, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> us;
  call();
  for (int i = 0; i < repetitions; ++i) {
    const auto begin = Clock::now();
    call();
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::sort(us.begin(), us.end());
  double mean = 0;
  for (const double x : us) mean += x / static_cast<double>(us.size());
  if (group.rank() == 0) {
    fmt::print("{:<6} {:<40} median {:>9.1f} us  mean {:>9.1f} us\n", name_of(group.waiting()), what, us[us.size() / 2],
               mean);
    std::fflush(stdout);
  }
}

void units(const Communicator& group, int repetitions, const char* size, const std::array<std::int64_t, 9>& bytes) {
  std::vector<std::vector<float>> memory;
  std::vector<tensor::Tensor> whole;
  std::vector<Communicator::ReduceScatterItem> items;
  for (const std::int64_t b : bytes) {
    const std::int64_t rows = b / 4 / group.size();
    auto& m = memory.emplace_back(static_cast<std::size_t>(rows * group.size()), 1.0f);
    whole.push_back({reinterpret_cast<std::byte*>(m.data()), {rows * group.size()}, DType::fp32});
    items.push_back({whole.back().slice(group.rank() * rows, rows), whole.back()});
  }
  time(group, repetitions, fmt::format("all_gather of a {} unit", size).c_str(),
       [&] { group.all_gather_in_place(whole).wait(); });
  time(group, repetitions, fmt::format("reduce_scatter of a {} unit", size).c_str(),
       [&] { group.reduce_scatter(items).wait(); });
  time(group, repetitions, fmt::format("all_reduce of a {} unit", size).c_str(),
       [&] { group.all_reduce(whole, Communicator::Reduce::sum).wait(); });
}

int body(const comm::Environment& environment, int repetitions) {
  const comm::Node node = comm::survey_node(environment.world());
  if (environment.rank() == 0) {
    fmt::print("{} ranks, {} on this node with {} cores, {} repetitions\n", environment.size(), node.ranks, node.cores,
               repetitions);
  }
  for (const comm::Waiting waiting : {comm::Waiting::spin, comm::Waiting::yield}) {
    const Communicator group(environment.world(), "world", waiting, nullptr);
    float one = 1;
    const std::vector value{tensor::Tensor{reinterpret_cast<std::byte*>(&one), {1}, DType::fp32}};
    time(group, repetitions, "all_reduce of one float",
         [&] { group.all_reduce(value, Communicator::Reduce::max).wait(); });
    std::array<double, 1> number{1};
    time(group, repetitions, "all_reduce of one control value",
         [&] { group.all_reduce(number, Communicator::Reduce::max); });
    time(group, repetitions, "barrier", [&] { group.barrier(); });
    units(group, repetitions, "136 kB", kSmall);
    units(group, repetitions, "4 MB", kLarge);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const comm::Environment environment(argc, argv, MPI_COMM_WORLD);
  return comm::run_guarded(environment, [&] {
    int repetitions = 50;
    if (argc > 1) {
      const std::string_view text = argv[1];
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), repetitions);
      if (error != std::errc() || end != text.data() + text.size() || repetitions < 1) {
        base::fail(base::ExitCode::deck, "repetitions '{}' is not a number from 1", text);
      }
    }
    return body(environment, repetitions);
  });
}
