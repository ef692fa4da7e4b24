// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/sequences/world.hpp"

namespace shard8::test {

/// The losses that trainings must have: those of runs in folders of their own which nothing interrupts. They are
/// computed when they are first asked for, and kept. Any thread may call the functions.
class References {
 public:
  explicit References(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Losses by step, kMostSteps of them. Where the lineage has several segments, each is a run of its own that goes on
  /// from a checkpoint of the one before. Throws std::runtime_error when a run fails.
  std::vector<double> losses(const BaseDeck& base, const std::vector<Segment>& lineage, const Mesh& mesh);

  int runs() const { return runs_; }

 private:
  struct Entry {
    std::mutex mutex;
    bool done = false;
    std::filesystem::path folder;
    std::vector<double> losses;
  };
  std::shared_ptr<Entry> entry(const std::string& key);
  /// A run of `lineage` that ends after `end` steps; with a checkpoint there if that is not kMostSteps.
  std::shared_ptr<Entry> run(const BaseDeck& base, const std::vector<Segment>& lineage, const Mesh& mesh,
                             std::int64_t end);

  std::filesystem::path folder_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
  int runs_ = 0;
};

}  // namespace shard8::test
