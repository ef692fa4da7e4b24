// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/io_thread.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <vector>

#include "io/hdf5.hpp"
#include "tests/io/files.hpp"

using namespace shard8;

TEST(IoThread, RunsTasksInOrderOnOneOtherThread) {
  io::IoThread io;
  std::vector<int> order;
  std::vector<std::thread::id> where;
  std::vector<std::future<void>> done;
  for (int i = 0; i < 1000; ++i) {
    done.push_back(io.submit([&order, &where, i] {
      order.push_back(i);
      where.push_back(std::this_thread::get_id());
    }));
  }
  for (auto& task : done) task.get();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
    ASSERT_EQ(where[static_cast<std::size_t>(i)], where[0]);
  }
  EXPECT_NE(where[0], std::this_thread::get_id());
}

TEST(IoThread, ReturnsMoveOnlyValues) {
  io::IoThread io;
  auto future = io.submit([] { return std::make_unique<int>(7); });
  EXPECT_EQ(*future.get(), 7);
  EXPECT_EQ(io.call([] { return 8; }), 8);
}

TEST(IoThread, CarriesExceptionsAndGoesOn) {
  io::IoThread io;
  auto bad = io.submit([]() -> int { base::fail(base::ExitCode::failed, "disk {}", 3); });
  auto good = io.submit([] { return 4; });
  test::expect_error([&] { bad.get(); }, base::ExitCode::failed, {"disk 3"});
  EXPECT_EQ(good.get(), 4);
  EXPECT_THROW(io.call([] { throw std::out_of_range("x"); }), std::out_of_range);
}

TEST(IoThread, CallFromATaskRunsAtOnce) {
  io::IoThread io;
  EXPECT_FALSE(io.on_thread());
  const auto inner = io.call([&io] { return io.call([&io] { return io.on_thread(); }); });
  EXPECT_TRUE(inner);
}

TEST(IoThread, DestructorRunsWhatIsQueued) {
  std::atomic<int> ran = 0;
  {
    io::IoThread io;
    io.submit([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
    for (int i = 0; i < 100; ++i) io.submit([&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

TEST(IoThread, TakesTasksFromManyThreads) {
  io::IoThread io;
  int sum = 0;  // only the I/O thread reads and writes it
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&io, &sum] {
        for (int i = 0; i < 250; ++i) io.call([&sum] { ++sum; });
      });
    }
  }
  EXPECT_EQ(io.call([&sum] { return sum; }), 1000);
}

TEST(IoThread, Hdf5ErrorsAreSilentAndInTheMessage) {
  io::IoThread io;
  testing::internal::CaptureStderr();
  test::expect_error([&] { io.call([] { SHARD8_H5("'nowhere.h5'", H5Fopen("/nowhere.h5", H5F_ACC_RDONLY, 0)); }); },
                     base::ExitCode::failed, {"'nowhere.h5': H5Fopen(\"/nowhere.h5\"", "HDF5 says", "H5F"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// HDF5 is not thread-safe, and a process with two trainings has two I/O threads.
TEST(IoThread, TasksOfTwoThreadsRunOneAtATime) {
  io::IoThread one, two;
  std::atomic<int> running = 0, together = 0;
  const auto task = [&] {
    if (++running > 1) ++together;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    --running;
  };
  std::vector<std::future<void>> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(one.submit(task));
    all.push_back(two.submit(task));
    EXPECT_FALSE(io::hdf5_version().empty());  // waits for no task
  }
  for (auto& done : all) done.get();
  EXPECT_EQ(together, 0);
}
