// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Collectives on devices, in the columns of nccl-tests. Not a test:
//   mpiexec -n 4 build/PRESET/tests/comm_nccl_bench [most MiB]

#include <fmt/format.h>
#include <mpi.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "bench/collectives.hpp"
#include "comm/environment.hpp"
#include "comm/nccl/device.hpp"
#include "tensor/cuda/device.hpp"
#include "tests/comm/nccl/job.hpp"

namespace {

using namespace shard8;
using bench::BenchCase;
using comm::nccl::Gather;
using profile::Collective;
using tensor::DType;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// A layer of hidden 4096, ffn 14336, 32 heads, 8 kv heads in FP8, with its norms: what one gather moves.
BenchCase layer() {
  return {
      Collective::all_gather, DType::e4m3, {6144 * 4096, 4096 * 4096, 28672 * 4096, 4096 * 14336, 2 * 4096, 2 * 4096}};
}

std::vector<BenchCase> gathers(std::uint64_t most) {
  auto cases = bench::bench_sizes(Collective::all_gather, DType::u8, kMiB / 16, most, 4);
  cases.push_back({Collective::all_gather, DType::u8, {208 * kMiB}});
  cases.push_back(layer());
  return cases;
}

std::vector<BenchCase> reductions(std::uint64_t most) {
  std::vector<BenchCase> cases;
  for (const Collective op : {Collective::reduce_scatter, Collective::all_reduce}) {
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      for (BenchCase& one : bench::bench_sizes(op, dtype, kMiB / 16, most, 4)) cases.push_back(std::move(one));
    }
  }
  return cases;
}

void print(const comm::Communicator& group, const std::string& title, const std::vector<bench::BenchRow>& rows) {
  if (group.rank() != 0) return;
  fmt::print("\n{}\n{}", title, bench::to_text(rows));
  std::fflush(stdout);
}

void bench_all(const comm::Environment& environment, Gather gather, std::uint64_t most, bool all) {
  const tensor::cuda::Stream compute;
  comm::Communicator world(environment.world(), "world", comm::Waiting::spin, nullptr);
  comm::nccl::Settings settings;
  settings.share_devices = shard8::tests::share_devices();
  settings.gather = gather;
  settings.alarm = [&](const std::string& text) { environment.abort(base::ExitCode::failed, text); };
  world.attach(comm::nccl::make_device(world, compute, std::move(settings)), {.compute = true});
  const comm::Communicator overlapped = world.split(0, world.rank(), "overlapped", {.gather = true, .reduce = true});
  const bench::BenchSettings repeat;
  const auto rows = bench::bench_collectives(overlapped, compute, gathers(most), repeat);
  std::string title = fmt::format("gathers by {}, {} ranks", comm::nccl::name_of(gather), world.size());
  if (world.size() > 1)
    for (const std::string& line : world.device()->describe()) title += fmt::format("\n  {}", line);
  print(world, title, rows);
  if (!all) return;
  print(world, "reductions on a stream of their own",
        bench::bench_collectives(overlapped, compute, reductions(most), repeat));
  auto tokens = bench::bench_sizes(Collective::all_gather, DType::u8, kMiB / 16, most, 4);
  for (BenchCase& one : bench::bench_sizes(Collective::reduce_scatter, DType::bf16, kMiB / 16, most, 4))
    tokens.push_back(std::move(one));
  tokens.push_back({Collective::all_reduce, DType::fp32, {4}});
  print(world, "on the compute stream", bench::bench_collectives(world, compute, tokens, repeat));
}

std::uint64_t most_bytes(int argc, char** argv) {
  std::uint64_t mib = 256;
  if (argc > 1) {
    const std::string_view text = argv[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mib);
    if (error != std::errc() || end != text.data() + text.size() || mib < 1 || mib > 4096)
      base::fail(base::ExitCode::deck, "most MiB '{}' is not a number from 1 to 4096", text);
  }
  return mib * kMiB;
}

}  // namespace

int main(int argc, char** argv) {
  const comm::Environment environment(argc, argv, MPI_COMM_WORLD);
  return comm::run_guarded(environment, [&] {
    const std::uint64_t most = most_bytes(argc, argv);
    if (!comm::tests::take_device(environment.world())) return comm::tests::kSkipped;
    bench_all(environment, Gather::nccl, most, true);
    bench_all(environment, Gather::zero_cta, most, false);
    bench_all(environment, Gather::push, most, true);
    return 0;
  });
}
