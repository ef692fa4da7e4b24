// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.hpp"
#include "deck/config.hpp"
#include "tests/random/random_deck.hpp"
#include "train/trainer.hpp"

namespace shard8::test {

/// The outcome of a training.
struct Outcome {
  std::int64_t first = 0;             ///< the number of its first step
  std::vector<double> losses, norms;  ///< by step
  std::uint64_t weights = 0;          ///< a hash of the bits of all ranks' master shards after the last step
  std::string error;                  ///< not empty: the training threw this

  void add(const std::vector<train::StepResult>& steps);
};

/// A training, and the text that is printed if it hangs or crashes.
struct Job {
  deck::Config config;
  std::string name;
  /// Not empty: the training writes checkpoints to a folder of this name, and goes on from the last one that is there.
  std::string checkpoints{};
  std::int64_t first = 0;     ///< the step from which it must go on
  int part = 0;               ///< among the jobs with these checkpoints: it begins when the part before it has ended
  int folder = 0;             ///< number of the folder to which it writes them
  std::optional<int> from{};  ///< goes on from the checkpoint of step `first` in this folder, which it names
  Limits limits{};
  std::int64_t head_tokens = 0;  ///< Thresholds::head_tokens
  WeightFile weights = WeightFile::none;
  /// Not 0: from this step on another training, with the config `changed`, goes on with the state of this one in
  /// memory.
  std::int64_t change_at = 0;
  deck::Config changed{};
};

/// Ends the process with a message when a job takes longer than the limit. Ranks that wait for a rank which has gone
/// cannot be freed in another way.
class Watch {
 public:
  Watch(int rank, std::chrono::seconds limit);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void begin(const std::string& job);
  void end();

 private:
  void watch();

  int rank_;
  std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string job_;  ///< empty: none
  std::uint64_t number_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

/// All ranks of the program. Each job trains on a communicator of as many ranks as its mesh has; jobs on different
/// ranks run at the same time. Ranks yield while they wait, so there may be more of them than cores.
class Ranks {
 public:
  /// Duplicates `comm`. A job that takes longer than the limit ends the program. Checkpoints are written to a folder in
  /// `folder`, which has a name of its own and is removed at the end. Collective.
  Ranks(MPI_Comm comm, std::chrono::seconds limit, const std::filesystem::path& folder);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return control_.rank(); }
  int size() const { return control_.size(); }

  /// Trains all jobs; every rank must give the same list. Returns their outcomes, on every rank. Removes their
  /// checkpoints. Collective.
  std::vector<Outcome> train(std::span<const Job> jobs);

 private:
  Outcome train_on(const Job& job, std::size_t number, const std::vector<int>& members);
  deck::Config placed(const Job& job) const;
  std::filesystem::path end_mark(const Job& job, int part) const;
  void wait_for_part_before(const Job& job) const;
  MPI_Comm meet(std::size_t number, const std::vector<int>& members) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  comm::Communicator control_;
  Watch watch_;
  std::filesystem::path checkpoints_;
};

}  // namespace shard8::test
