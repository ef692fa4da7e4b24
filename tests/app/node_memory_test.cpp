// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "app/job.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/io/files.hpp"

namespace shard8 {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// A machine's files below a folder: 64 GiB with 40 GiB available and 8 GiB of swap.
class Machine {
 public:
  explicit Machine(const std::string& groups) {
    write("proc/meminfo", "MemTotal:       67108864 kB\nMemAvailable:   41943040 kB\nSwapTotal:       8388608 kB\n");
    write("proc/self/cgroup", groups);
  }
  void write(const std::string& name, const std::string& text) const {
    const fs::path path = fs::path(folder_.path()) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void limit(const std::string& name, std::uint64_t bytes) const {
    write("sys/fs/cgroup/" + name, std::to_string(bytes) + '\n');
  }
  app::MemoryLimits limits() const { return app::read_memory_limits(folder_.path()); }

 private:
  test::TempFolder folder_;
};

TEST(MemoryLimits, OfVersion2AreTheSmallestOnTheWayUp) {
  const Machine machine("0::/slurm/job_7/step_0\n");
  EXPECT_EQ(machine.limits().total, 72 * kGiB);
  EXPECT_EQ(machine.limits().available, 40 * kGiB);
  EXPECT_FALSE(machine.limits().group);
  machine.write("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  machine.limit("slurm/job_7/memory.max", 16 * kGiB);
  machine.limit("slurm/memory.max", 32 * kGiB);
  machine.limit("slurm/job_7/memory.swap.max", 1 * kGiB);
  auto group = machine.limits().group;
  ASSERT_TRUE(group);
  EXPECT_TRUE(group->file.ends_with("slurm/job_7/memory.max")) << group->file;
  EXPECT_EQ(group->limit, 16 * kGiB);
  EXPECT_EQ(group->with_swap, 17 * kGiB);
  EXPECT_NE(group->id, 0U);
  machine.limit("slurm/job_7/memory.swap.max", 0);
  EXPECT_EQ(machine.limits().group->with_swap, 16 * kGiB);
  fs::remove_all(group->file);
  EXPECT_EQ(machine.limits().group->limit, 32 * kGiB);
}

TEST(MemoryLimits, OfVersion1) {
  const Machine machine("9:name=systemd:/x\n4:cpu,memory:/docker/abc\n0::/\n");
  machine.limit("memory/docker/abc/memory.limit_in_bytes", 9223372036854771712ULL);  // none
  EXPECT_FALSE(machine.limits().group);
  machine.limit("memory/docker/abc/memory.limit_in_bytes", 8 * kGiB);
  EXPECT_EQ(machine.limits().group->with_swap, 16 * kGiB);
  machine.limit("memory/docker/abc/memory.memsw.limit_in_bytes", 9 * kGiB);
  EXPECT_EQ(machine.limits().group->limit, 8 * kGiB);
  EXPECT_EQ(machine.limits().group->with_swap, 9 * kGiB);
}

// The path is that outside of the container.
TEST(MemoryLimits, OfAContainerThatSeesItselfAsTheRoot) {
  const Machine machine("4:memory:/kubepods/pod_1\n");
  machine.limit("memory/memory.limit_in_bytes", 4 * kGiB);
  EXPECT_EQ(machine.limits().group->limit, 4 * kGiB);
}

TEST(MemoryLimits, ThatCannotBeReadAreNone) {
  const auto limits = app::read_memory_limits("/nothing/here");
  EXPECT_EQ(limits.total, 0U);
  EXPECT_FALSE(limits.group);
  const auto verdict = app::judge_memory(1000 * kGiB, 8, 8, limits);
  EXPECT_EQ(verdict.refusal + verdict.warning, "");
}

TEST(MemoryVerdict, CountsTheRanksOfANodeAndOfAGroup) {
  const Machine machine("0::/job\n");
  const auto judge = [&](std::uint64_t gib, int ranks, int group) {
    return app::judge_memory(gib * kGiB, ranks, group, machine.limits());
  };
  EXPECT_EQ(judge(10, 4, 4).refusal + judge(10, 4, 4).warning, "");
  EXPECT_NE(judge(10, 5, 5).warning.find("40.00 GiB are available now"), std::string::npos) << judge(10, 5, 5).warning;
  EXPECT_EQ(judge(9, 8, 8).refusal, "") << "72 GiB are all that there is";
  EXPECT_EQ(judge(10, 8, 8).refusal,
            "training takes at least 80.00 GiB of this node's memory, 8 ranks of 10.00 GiB (see shard8 plan), but the "
            "machine has 72.00 GiB, with swap: use more nodes, more ranks in mesh.shard or mesh.tensor, a smaller "
            "data.micro_batch or model.recompute");
  EXPECT_EQ(
      app::judge_memory(10 * kGiB, 8, 8, machine.limits(), {"bench collective", "two wholes", "give less"}).refusal,
      "bench collective takes at least 80.00 GiB of this node's memory, 8 ranks of 10.00 GiB (two wholes), but the "
      "machine has 72.00 GiB, with swap: give less");
  EXPECT_NE(app::judge_memory(~std::uint64_t{0} / 2, 8, 8, machine.limits()).refusal, "") << "a product beyond 2^64";
  machine.limit("job/memory.max", 20 * kGiB);
  EXPECT_EQ(judge(10, 4, 2).refusal + judge(10, 4, 2).warning, "") << "the others have a group of their own";
  EXPECT_NE(judge(10, 4, 4).refusal.find("job/memory.max allows 28.00 GiB"), std::string::npos);
  EXPECT_NE(judge(7, 3, 3).warning.find("job/memory.max allows 20.00 GiB without swap"), std::string::npos);
}

}  // namespace
}  // namespace shard8
