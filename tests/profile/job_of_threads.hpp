// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <barrier>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "profile/spread.hpp"

namespace shard8::profile::tests {

/// A job whose ranks are threads, with what figures of texts need of a Gather.
class JobOfThreads {
 public:
  explicit JobOfThreads(int ranks) : barrier_(ranks), texts_(static_cast<std::size_t>(ranks)) {}

  void run(const std::function<void(int rank, const Gather& gather)>& of_rank) {
    const int ranks = static_cast<int>(texts_.size());
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([this, r, ranks, &of_rank] {
        Gather gather;
        gather.ranks = ranks;
        gather.texts = [this, r](std::string_view mine) {
          auto all = exchange(r, std::string(mine));
          return r == 0 ? all : std::vector<std::string>();
        };
        gather.broadcast = [this, r](std::string& text, int from) {
          text = exchange(r, text)[static_cast<std::size_t>(from)];
        };
        of_rank(r, gather);
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::string> exchange(int rank, std::string mine) {
    texts_[static_cast<std::size_t>(rank)] = std::move(mine);
    barrier_.arrive_and_wait();
    auto all = texts_;
    barrier_.arrive_and_wait();
    return all;
  }
  std::barrier<> barrier_;
  std::vector<std::string> texts_;
};

}  // namespace shard8::profile::tests
