// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "operation/executor.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "comm/mesh.hpp"
#include "tensor/arena.hpp"
#include "tests/support/execution.hpp"

namespace shard8::operation {
namespace {

using tensor::DType;
using tensor::Tensor;

/// An executor that records, and what it has recorded.
struct Recording {
  std::vector<Operation> list;
  Recorder recorder{[this](const Operation& operation) { list.push_back(operation); }};
  profile::StepTimer phases{nullptr};
  Executor executor{recorder, phases, true};
  tensor::Arena arena = tensor::Arena::measure("test", tensor::MemoryKind::buffers);

  Issued<comm::Request> gather(const Tensor& whole, Stream stream = Stream::gather) {
    return executor.issue(Call{.group = Group::shard, .ranks = 4, .stream = stream, .tensors = {&whole, 1}},
                          []() -> comm::Request {
                            ADD_FAILURE() << "a recorded collective was called";
                            return {};
                          });
  }
  void kernel(std::int64_t rows) {
    executor.issue(Kernel{"cast", rows, 2, DType::fp32, DType::bf16},
                   [](const tensor::Exec&) { ADD_FAILURE() << "a recorded kernel was called"; });
  }
};

TEST(Executor, RecordsAndDoesNothing) {
  Recording r;
  EXPECT_FALSE(r.executor.runs());
  EXPECT_TRUE(r.executor.device());
  EXPECT_THROW(r.executor.exec(), base::Error);
  const Tensor x = r.arena.allocate({4, 8}, DType::bf16), y = r.arena.allocate({4, 8}, DType::fp32);
  auto phase = r.phases.phase(profile::Phase::backward);
  {
    const At unit(r.executor, 3);
    const At linear(r.executor, Linear::fc1);
    const Recomputing again(r.executor);
    r.executor.issue(Kernel{"cast", 4, 8, DType::bf16, DType::fp32}.reads(x, Tensor{}).writes(y),
                     [](const tensor::Exec&) { FAIL() << "called"; });
  }
  r.kernel(0);  // without elements
  r.kernel(1);
  ASSERT_EQ(r.list.size(), 2U);
  EXPECT_EQ(to_text(r.list[0]),
            "backward | compute | unit 3 fc1 | cast of (4, 8) bf16 to fp32 | 64 bytes read, 128 written | recomputed");
  EXPECT_EQ(to_text(r.list[1]), "backward | compute | - | cast of (1, 2) fp32 to bf16");
}

TEST(Executor, RecordsWaitsWithTheNextOperation) {
  Recording r;
  const Tensor whole = r.arena.allocate({8}, DType::bf16);
  r.recorder.begin_step();
  auto first = r.gather(whole), second = r.gather(whole);
  auto at_once = r.gather(whole, Stream::compute);
  r.executor.wait(second);
  r.executor.wait(second);  // it waits once
  r.executor.wait(at_once);
  r.kernel(1);
  r.executor.wait(first);
  r.kernel(1);
  ASSERT_EQ(r.list.size(), 5U);
  EXPECT_EQ(r.list[3].waits, std::vector<int>{1});
  EXPECT_EQ(r.list[4].waits, std::vector<int>{0});
}

// Entry k of the list `ahead` of a step is −1 − k in the next one.
TEST(Executor, NumbersGathersForTheNextStep) {
  Recording r;
  const Tensor whole = r.arena.allocate({8}, DType::bf16);
  r.recorder.begin_step();
  r.kernel(1);
  r.executor.gathers_are_ahead();
  auto first = r.gather(whole), second = r.gather(whole);
  EXPECT_EQ(r.recorder.ahead(), (std::vector<int>{1, 2}));
  r.recorder.begin_step();
  auto own = r.gather(whole);
  EXPECT_TRUE(r.recorder.ahead().empty());
  r.executor.wait(own);
  r.executor.wait(second);
  r.executor.wait(first);
  r.kernel(1);
  EXPECT_EQ(r.list.back().waits, (std::vector<int>{0, -2, -1}));
}

TEST(Executor, LeavesOutCollectivesOfOneRankAndAddsUpDtypes) {
  Recording r;
  const std::array<Tensor, 3> tensors{r.arena.allocate({8}, DType::bf16), r.arena.allocate({4}, DType::u8),
                                      r.arena.allocate({2}, DType::bf16)};
  Call call{.op = profile::Collective::all_reduce, .group = Group::replicate, .ranks = 1, .tensors = tensors};
  r.executor.run(call, []() -> comm::Request { return {}; });
  EXPECT_TRUE(r.list.empty());
  call.ranks = 2;
  r.executor.run(call, []() -> comm::Request { return {}; });
  ASSERT_EQ(r.list.size(), 1U);
  EXPECT_EQ(to_text(*r.list[0].collective()), "all_reduce in replicate of 2: 20 bytes of bf16 4 bytes of u8");
  EXPECT_EQ(r.list[0].collective()->items, 3);
}

TEST(Executor, RunsAndTellsTheObserver) {
  profile::StepTimer timer;
  int progressed = 0, kernels = 0;
  Executor executor(tests::exec(), timer, [&] { ++progressed; });
  EXPECT_TRUE(executor.runs());
  std::vector<std::string> told;
  const Observer observer{[&](const Product& p) { told.push_back(to_text(p)); }, {}};
  executor.observe(&observer);
  timer.begin_step();
  const Product product{Product::Kind::wgrad, 2, 3, 4, {DType::bf16}, {DType::bf16}, DType::fp32, true};
  executor.issue(product, [&](const tensor::Exec& exec) { EXPECT_EQ(&exec, &tests::exec()); });
  executor.issue(Kernel{"cast", 1, 1}, [&](const tensor::Exec&) { ++kernels; });
  executor.issue(Kernel{"cast", 0, 1}, [&](const tensor::Exec&) { ++kernels; });
  double sum = 1;
  executor.run_on_hosts(Group::world, 1, sizeof(sum), [&] { sum = 2; });
  timer.discard_step();
  EXPECT_EQ(told, std::vector<std::string>{"wgrad (2, 3) fp32 += (2, 4) bf16 · (4, 3) bf16"});
  EXPECT_EQ(progressed, 1);
  EXPECT_EQ(kernels, 1);
  EXPECT_EQ(sum, 2);
}

TEST(PaperMesh, HasTheGroupsOfAMesh) {
  const base::Extents extents(2, 3, 4);
  for (int rank = 0; rank < extents.ranks(); ++rank) {
    const base::Place place(extents, rank);
    const comm::Mesh mesh = comm::mesh_on_paper(place);
    EXPECT_EQ(mesh.world.rank(), rank);
    EXPECT_EQ(mesh.world.size(), 24);
    for (const base::AxisSet axes :
         {base::AxisSet::replicate, base::AxisSet::shard, base::AxisSet::tensor, base::AxisSet::model}) {
      EXPECT_EQ(mesh.group(axes).rank(), place.rank(axes)) << name_of(axes);
      EXPECT_EQ(mesh.group(axes).size(), extents.ranks(axes)) << name_of(axes);
    }
  }
}

}  // namespace
}  // namespace shard8::operation
