// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/io_thread.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "io/hdf5.hpp"

namespace shard8::io {
namespace {

/// The mutex that a caller of HDF5 holds.
std::mutex& library() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

std::string hdf5_version() {
  static const std::string version = [] {
    const std::scoped_lock lock(library());
    unsigned major = 0, minor = 0, release = 0;
    SHARD8_REQUIRE(H5get_libversion(&major, &minor, &release) >= 0, "HDF5 does not tell its version");
    return fmt::format("{}.{}.{}", major, minor, release);
  }();
  return version;
}

IoThread::IoThread() {
  static_cast<void>(hdf5_version());  // so that no later call of it waits for a task
  {
    const std::scoped_lock lock(library());
    h5_open_library();
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
  call([] { h5_silence(); });  // on the I/O thread: a thread-safe HDF5 has an error stack for each thread
}

IoThread::~IoThread() {
  thread_.request_stop();
  thread_.join();
}

void IoThread::push(std::function<void()> task) {
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void IoThread::loop(const std::stop_token& stop) {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, stop, [this] { return !queue_.empty(); });
      if (queue_.empty()) return;  // stop was requested and nothing is left
      task = std::move(queue_.front());
      queue_.erase(queue_.begin());
    }
    const std::scoped_lock lock(library());
    task();
    task = nullptr;  // what it holds may close files
  }
}

}  // namespace shard8::io
