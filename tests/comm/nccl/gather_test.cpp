// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/comm/nccl/job.hpp"

namespace shard8::comm::tests {
namespace {

using nccl::Gather;
using OwnPart = Communicator::OwnPart;
using tensor::DType;
using tensor::Tensor;

/// A tensor to gather: this rank's rows on the host, and what plain MPI makes of all.
struct Piece {
  Piece(Job& j, const Communicator& group, Pool& pool, std::int64_t rows, std::int64_t cols, DType dtype, int salt)
      : whole(pool.allocate({rows * group.size(), cols}, dtype)), mine({rows, cols}, dtype) {
    mine.fill(j.world.rank(), salt);
    upload(j, whole.slice(group.rank() * rows, rows), mine.bytes());
  }
  Tensor whole;
  Buffer mine;
};

std::vector<Piece> unit(Job& j, const Communicator& group, Pool& pool, int salt) {
  std::vector<Piece> pieces;
  pieces.emplace_back(j, group, pool, 1000, 96, DType::e4m3, salt);
  pieces.emplace_back(j, group, pool, 1, 1, DType::fp32, salt + 1);
  pieces.emplace_back(j, group, pool, 37, 5, DType::bf16, salt + 2);
  pieces.emplace_back(j, group, pool, 0, 7, DType::fp32, salt + 3);
  pieces.emplace_back(j, group, pool, 7, 3, DType::e8m0, salt + 4);  // 21 bytes a rank
  pieces.emplace_back(j, group, pool, 2048, 512, DType::fp32, salt + 5);
  pieces.emplace_back(j, group, pool, 5, 1, DType::u8, salt + 6);
  return pieces;
}

std::vector<Tensor> wholes(const std::vector<Piece>& pieces) {
  std::vector<Tensor> tensors;
  for (const Piece& piece : pieces) tensors.push_back(piece.whole);
  return tensors;
}

std::vector<std::byte> gathered_by_mpi(const Communicator& group, const std::vector<std::byte>& mine) {
  std::vector<std::byte> all;
  for (const std::string& part :
       group.all_gather(std::string_view(reinterpret_cast<const char*>(mine.data()), mine.size())))
    for (const char c : part) all.push_back(static_cast<std::byte>(c));
  return all;
}

class Gathers : public ::testing::TestWithParam<Gather> {};

TEST_P(Gathers, several_tensors_of_all_kinds_at_once) {
  Job& j = job(GetParam());
  Pool exchanged(j.world);
  const std::vector<std::pair<const Communicator*, Pool*>> groups{{&*j.overlapped, &*j.pool},
                                                                  {&*j.half, &*j.half_pool},
                                                                  {&*j.half, &*j.pool},
                                                                  {&j.world, &*j.pool},
                                                                  {&j.world, &exchanged}};
  for (const auto& [group, pool] : groups) {
    const auto pieces = unit(j, *group, *pool, 10);
    group->all_gather_in_place(wholes(pieces)).wait();
    for (const Piece& piece : pieces)
      EXPECT_EQ(download(j, piece.whole), gathered_by_mpi(*group, piece.mine.bytes())) << group->name();
  }
}

// Also from memory that no peer sees; by copy engines on streams of their own, and by kernels on the compute stream.
TEST_P(Gathers, own_rows_from_elsewhere) {
  Job& j = job(GetParam());
  Pool exchanged(j.world);
  const std::vector<std::tuple<const Communicator*, Pool*, OwnPart>> cases{
      {&*j.overlapped, &*j.pool, OwnPart::copied},
      {&*j.overlapped, &*j.pool, OwnPart::returned},
      {&j.world, &exchanged, {}}};
  for (const auto& [group, pool, own_part] : cases) {
    const auto pieces = unit(j, *group, *pool, 20);
    std::deque<Block> blocks;
    std::vector<Tensor> own;
    for (const Piece& piece : pieces) {
      const bool apart = own.size() % 2 == 0 && !piece.mine.bytes().empty();
      own.push_back({});
      if (!apart) continue;
      const std::int64_t rows = piece.whole.rows() / j.world.size();
      own.back() = blocks.emplace_back(piece.mine.bytes().size()).tensor({rows, piece.whole.cols()}, piece.whole.dtype);
      upload(j, own.back(), piece.mine.bytes());
      upload(j, piece.whole.slice(j.world.rank() * rows, rows), std::vector<std::byte>(piece.mine.bytes().size()));
    }
    group->all_gather_in_place(wholes(pieces), own, {}, own_part).wait();
    for (const Piece& piece : pieces)
      EXPECT_EQ(download(j, piece.whole), gathered_by_mpi(*group, piece.mine.bytes())) << group->name();
  }
}

// Every rank has its columns row behind row. With widths that are multiples of 16 bytes and with others, in one round
// behind another; by copy engines on streams of their own, by kernels on the compute stream, and where no peer can
// write.
TEST_P(Gathers, by_columns) {
  Job& j = job(GetParam());
  if (j.world.size() == 1) GTEST_SKIP() << "needs several ranks";
  Pool exchanged(j.world);
  const std::size_t ranks = static_cast<std::size_t>(j.world.size());
  const std::vector<std::tuple<const Communicator*, Pool*, OwnPart>> cases{
      {&*j.overlapped, &*j.pool, OwnPart::copied},
      {&*j.overlapped, &*j.pool, OwnPart::returned},
      {&j.world, &exchanged, {}}};
  for (const auto& [group, pool, own_part] : cases) {
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{384, 1024}, {37, 24}, {1, 16}, {4096, 48}}) {
      const Tensor whole = pool->allocate({rows, cols * j.world.size()}, DType::e4m3);
      const Tensor through = pool->allocate({rows * j.world.size(), cols}, DType::e4m3);
      Buffer mine({rows, cols}, DType::e4m3);
      mine.fill(j.world.rank(), static_cast<int>(cols));
      const Block block(mine.bytes().size());
      const Tensor own = block.tensor({rows, cols}, DType::e4m3);
      upload(j, own, mine.bytes());
      group->all_gather_columns(whole, own, through, "qkv_dgrad", own_part).wait();
      const auto expected = side_by_side(gathered_by_mpi(*group, mine.bytes()), ranks, static_cast<std::size_t>(cols));
      EXPECT_EQ(download(j, whole), expected) << group->name() << ' ' << rows << " rows of " << cols;
    }
  }
}

TEST_P(Gathers, in_any_memory) {
  Job& j = job(GetParam());
  const std::int64_t rows = 3001;
  const Block block(static_cast<std::size_t>(rows * j.world.size()) * 4);
  const Tensor whole = block.tensor({rows * j.world.size()}, DType::fp32);
  Buffer mine({rows}, DType::fp32);
  mine.fill(j.world.rank());
  upload(j, whole.slice(j.world.rank() * rows, rows), mine.bytes());
  j.overlapped->all_gather_in_place({&whole, 1}).wait();
  EXPECT_EQ(download(j, whole), plain_all_gather(mine.bytes(), j.world.size()));
}

TEST_P(Gathers, nothing) {
  Job& j = job(GetParam());
  j.overlapped->all_gather_in_place({}).wait();
  const Tensor empty = j.allocate({0, 4}, DType::bf16);
  j.overlapped->all_gather_in_place({&empty, 1}).wait();
  finish(j);
}

// A gather begins when what the compute stream was given before is done, on every rank, and what is given after
// wait() sees it, though no host ever waits. The same buffer serves every round: gathers by rows, where this rank
// writes its own rows before, and gathers by columns, in which other ranks write into these rows, too. In some rounds
// a peer returns this rank's columns.
void expect_order(Job& j, const Communicator& group, Pool& pool) {
  constexpr int kRounds = 40;
  const std::int64_t rows = 40000;
  const int n = j.world.size(), rank = j.world.rank();
  const Tensor whole = pool.allocate({rows * n}, DType::fp32), through = pool.allocate({rows * n}, DType::fp32);
  const std::int64_t matrix_rows = 100, width = rows / matrix_rows;
  const auto by_columns = [n](int i) { return n > 1 && i % 3 == 1; };
  const Block busy(std::size_t{64} << 20);
  const Block results(static_cast<std::size_t>(kRounds) * whole.bytes());
  const Block inputs(static_cast<std::size_t>(kRounds) * whole.bytes() / static_cast<std::size_t>(n));
  const auto round = [](const Block& block, std::int64_t elements, int i) {
    return block.tensor({elements * kRounds}, DType::fp32).slice(elements * i, elements);
  };
  std::vector<Buffer> mine;
  for (int i = 0; i < kRounds; ++i) {
    mine.emplace_back(tensor::Shape{rows}, DType::fp32).fill(rank, i);
    upload(j, round(inputs, rows, i), mine.back().bytes());
  }
  const auto copy = [&](const Tensor& to, const Tensor& from) {
    SHARD8_CUDA_CHECK(cudaMemcpyAsync(to.data, from.data, from.bytes(), cudaMemcpyDefault, j.compute));
  };
  for (int i = 0; i < kRounds; ++i) {
    keep_busy(j, busy, std::size_t{64} << 20, (i * 7 + rank * 3) % 5 * 4);  // ranks come at other times
    if (by_columns(i)) {
      const Tensor own = round(inputs, rows, i).reshaped({matrix_rows, width});
      const OwnPart own_part = i % 2 == 0 ? OwnPart::copied : OwnPart::returned;
      group.all_gather_columns(whole.reshaped({matrix_rows, width * n}), own, through, {}, own_part).wait();
    } else {
      copy(whole.slice(rank * rows, rows), round(inputs, rows, i));
      group.all_gather_in_place({&whole, 1}).wait();
    }
    copy(round(results, rows * n, i), whole);
  }
  for (int i = 0; i < kRounds; ++i) {
    const auto all = plain_all_gather(mine[static_cast<std::size_t>(i)].bytes(), n);
    const auto bytes_of_row = static_cast<std::size_t>(width) * sizeof(float);
    ASSERT_EQ(download(j, round(results, rows * n, i)),
              by_columns(i) ? side_by_side(all, static_cast<std::size_t>(n), bytes_of_row) : all)
        << "round " << i;
  }
}

TEST_P(Gathers, keep_the_order_of_the_compute_stream) {
  Job& j = job(GetParam());
  expect_order(j, *j.overlapped, *j.pool);
}

TEST_P(Gathers, on_the_compute_stream_keep_its_order) {
  Job& j = job(GetParam());
  Pool exchanged(j.world);
  expect_order(j, j.world, exchanged);
}

TEST_P(Gathers, several_overlapped_with_reductions) {
  Job& j = job(GetParam());
  constexpr int kEach = 4;
  const std::int64_t rows = 50000;
  const int n = j.world.size(), rank = j.world.rank();
  std::vector<std::vector<Piece>> units;
  std::vector<Tensor> gradients;
  std::vector<Buffer> host;
  for (int i = 0; i < kEach; ++i) {
    units.push_back(unit(j, *j.overlapped, *j.pool, 100 * i));
    gradients.push_back(j.allocate({rows * n}, DType::fp32));
    host.emplace_back(tensor::Shape{rows * n}, DType::fp32).fill(rank, 1000 + i);
    upload(j, gradients.back(), host.back().bytes());
  }
  std::vector<Request> gathers, scatters;
  for (int i = 0; i < kEach; ++i) {
    const auto at = static_cast<std::size_t>(i);
    gathers.push_back(j.overlapped->all_gather_in_place(wholes(units[at])));
    scatters.push_back(j.overlapped->reduce_scatter(
        std::vector{Communicator::ReduceScatterItem{gradients[at].slice(rank * rows, rows), gradients[at]}}));
  }
  for (int i = kEach; i-- > 0;) {
    scatters[static_cast<std::size_t>(i)].wait();
    gathers[static_cast<std::size_t>(i)].wait();
  }
  for (int i = 0; i < kEach; ++i) {
    for (const Piece& piece : units[static_cast<std::size_t>(i)])
      EXPECT_EQ(download(j, piece.whole), plain_all_gather(piece.mine.bytes(), n));
    const Buffer sum = download_buffer(j, gradients[static_cast<std::size_t>(i)].slice(rank * rows, rows));
    for (std::int64_t e = 0; e < rows; e += 501) {
      double expected = 0;
      for (int r = 0; r < n; ++r) expected += value(r, rank * rows + e, 1000 + i);
      ASSERT_NEAR(sum.get(e), expected, n * n * 0x1p-23) << e;  // |x| ≤ 2
    }
  }
}

TEST(Method, is_said) {
  for (const Gather gather : {Gather::nccl, Gather::zero_cta, Gather::push}) {
    const auto lines = job(gather).world.device()->describe();
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(lines.front().rfind("NCCL 2.", 0), 0u) << lines.front();
    if (job().world.rank() == 0)
      for (const std::string& line : lines) std::printf("%s\n", line.c_str());
    if (job().world.size() == 1) continue;
    ASSERT_GE(lines.size(), 2u);
    EXPECT_EQ(lines[1].rfind("group 'overlapped': gathers by", 0), 0u) << lines[1];
  }
}

// Each deck that a program trains says so behind its first step.
TEST(Calls, are_not_doubled_by_every_deck) {
  Job& j = job();
  const Tensor whole = j.allocate({64 * j.world.size()}, DType::fp32);
  for (int deck = 0; deck < 40; ++deck) {
    for (int i = 0; i < 3; ++i) j.overlapped->all_gather_in_place({&whole, 1}).wait();
    finish(j);
    j.world.record_device_calls();
    j.world.first_step_over();
  }
}

TEST(Method, is_said_of_the_group_as_it_was_made_last) {
  Job& j = job(Gather::push);
  if (j.world.size() == 1) GTEST_SKIP() << "needs several ranks";
  const auto lines = [&](DeviceLanes lanes) {
    const Communicator group = j.world.split(0, j.world.rank(), "twice", lanes);
    const Pool pool(group);
    std::vector<std::string> said;
    for (const std::string& line : j.world.device()->describe())
      if (line.rfind("group 'twice':", 0) == 0) said.push_back(line);
    return said;
  };
  const auto first = lines({.gather = true}), second = lines({.compute = true});
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(second.size(), 1u) << second.front();
}

INSTANTIATE_TEST_SUITE_P(, Gathers, ::testing::Values(Gather::nccl, Gather::zero_cta, Gather::push),
                         [](const auto& test) { return std::string(nccl::name_of(test.param)); });

}  // namespace
}  // namespace shard8::comm::tests
