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
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace shard8::io {

/// The one thread of a process that calls HDF5, which is not thread-safe. Tasks run one at a time
/// in the order they were submitted; they must not call MPI. The library is opened on the
/// constructing thread (a parallel HDF5 then asks MPI whether it is initialized and hooks itself
/// into MPI_Finalize), so construct this on the thread that initialized MPI; everything else
/// happens on the thread. Make one, pass it by reference, and let it outlive every file opened
/// with it.
class IoThread {
 public:
  IoThread();
  /// Runs what is still queued, then joins.
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  /// Queues a task. What it returns or throws comes out of the future. Waiting for that future
  /// on the thread itself would never end: use call() there.
  template <class F>
  std::future<std::invoke_result_t<F>> submit(F&& task) {
    auto packaged = std::make_shared<std::packaged_task<std::invoke_result_t<F>()>>(std::forward<F>(task));
    auto future = packaged->get_future();
    push([packaged] { (*packaged)(); });
    return future;
  }

  /// Queues a task whose end and exceptions are its own business.
  void post(std::function<void()> task) { push(std::move(task)); }

  /// Runs a task on the thread and waits for its result or exception; at once when already there.
  template <class F>
  std::invoke_result_t<F> call(F&& task) {
    if (on_thread()) return std::forward<F>(task)();
    return submit(std::forward<F>(task)).get();
  }

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
