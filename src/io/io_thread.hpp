// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace shard8::io {

/// The version of the HDF5 library that is linked, "1.10.8". The first call queries HDF5 on the caller's thread.
std::string hdf5_version();

/// The thread that calls HDF5, which is not thread-safe. Tasks run one at a time in the order in which they were
/// queued. A process may have several IoThreads, as two trainings have; a task of one waits while a task of another
/// runs. Tasks must not call MPI. Construct an IoThread on the thread that initialised MPI: the constructor opens HDF5
/// there, because a parallel HDF5 queries whether MPI is initialised and registers itself with MPI_Finalize. Every
/// other call of HDF5 but the first hdf5_version() is made on an I/O thread. The IoThread must outlive every file that
/// was opened with it.
class IoThread {
 public:
  IoThread();
  /// Runs the tasks that are still queued, then joins.
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  /// Queues a task. The future gives its result or exception. A task must not wait for the future of another task,
  /// which would never run; a task uses call().
  template <class F>
  std::future<std::invoke_result_t<F>> submit(F&& task) {
    auto packaged = std::make_shared<std::packaged_task<std::invoke_result_t<F>()>>(std::forward<F>(task));
    auto future = packaged->get_future();
    push([packaged] { (*packaged)(); });
    return future;
  }

  /// Queues a task without a future. The task must not throw.
  void post(std::function<void()> task) { push(std::move(task)); }

  /// Runs a task on the I/O thread and waits for its result or exception. On the I/O thread itself it runs the task at
  /// once.
  template <class F>
  std::invoke_result_t<F> call(F&& task) {
    if (on_thread()) return std::forward<F>(task)();
    return submit(std::forward<F>(task)).get();
  }

  /// Whether the caller is on the I/O thread.
  bool on_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  void push(std::function<void()> task);
  void loop(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<std::function<void()>> queue_;  // in order; short
  std::jthread thread_;                       // last: the others must exist while it runs
};

}  // namespace shard8::io
