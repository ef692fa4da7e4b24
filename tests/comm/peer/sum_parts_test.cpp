// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/peer/sum_parts.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "comm/mpi/all_reduce.hpp"
#include "tests/comm/peer/one_process.hpp"

// The kernel that sums parts has the bits of hosts, in both orders.

namespace shard8::comm::tests {
namespace {

using tensor::DType;

/// Sums `count` elements of `ranks` parts, and an addend, which begin `skipped` elements behind their memory's begin.
void expect_host_bits(int ranks, bool adds, std::int64_t count, std::int64_t skipped, DType dtype, SumOrder order) {
  const auto skipped_bytes = tensor::bytes_of(dtype, skipped);
  std::vector<Buffer> host;
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<const std::byte*> sources;
  peer::Parts parts;
  parts.order = order;
  for (int r = 0; r < ranks + (adds ? 1 : 0); ++r) {
    Buffer& buffer = host.emplace_back(tensor::Shape{skipped + count}, dtype);
    buffer.fill(r);
    memory.push_back(std::make_unique<Memory>(buffer.bytes().size()));
    SHARD8_CUDA_CHECK(
        cudaMemcpy(memory.back()->data(), buffer.bytes().data(), buffer.bytes().size(), cudaMemcpyHostToDevice));
    const std::byte* const part = memory.back()->data() + skipped_bytes;
    r < ranks ? parts.add(part) : parts.add_addend(part);
  }
  for (int r = 0; r < ranks; ++r) sources.push_back(host[static_cast<std::size_t>(r)].bytes().data() + skipped_bytes);
  Buffer sum({count}, dtype);
  sum_in_order(sum.bytes().data(), sources, count, dtype, order,
               adds ? host.back().bytes().data() + skipped_bytes : nullptr);
  std::byte* const out = memory.front()->data() + skipped_bytes;
  peer::sum_parts(nullptr, out, dtype, count, parts);
  EXPECT_EQ(download(out, sum.bytes().size()), sum.bytes())
      << ranks << " parts" << (adds ? " and an addend" : "") << " of " << count << " " << name_of(dtype) << " from "
      << skipped << (order == SumOrder::tree ? ", as a tree" : "");
}

TEST(SumParts, has_the_bits_of_hosts) {
  for (const SumOrder order : {SumOrder::ranks, SumOrder::tree})
    for (const DType dtype : {DType::fp32, DType::bf16})
      for (int ranks = 1; ranks <= peer::kMostRanks; ++ranks)
        for (const bool adds : {false, true})
          for (const std::int64_t skipped : {0, 1})  // vectors with elements behind them, and elements alone
            expect_host_bits(ranks, adds, 20011, skipped, dtype, order);
}

TEST(SumParts, pushed_parts_are_summed_as_a_tree) {
  for (const int size : {2, 3, 4, 8}) {
    Scatters ranks(size, SumOrder::tree);
    ranks.load_kernels();
    for (int call = 0; call < 3; ++call) {
      for (int r = 0; r < size; ++r)
        ranks.sums[static_cast<std::size_t>(r)]->reduce_scatter({&ranks.items[static_cast<std::size_t>(r)], 1});
      for (int r = 0; r < size; ++r) {
        const Buffer expected = ranks.sum_of(r);
        EXPECT_EQ(download(ranks.out[static_cast<std::size_t>(r)]->data(), expected.bytes().size()), expected.bytes());
      }
    }
  }
}

}  // namespace
}  // namespace shard8::comm::tests
