// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/communicator.hpp"
#include "deck/config.hpp"
#include "profile/collective_log.hpp"
#include "tests/random/random_deck.hpp"
#include "train/setup.hpp"
#include "train/trainer.hpp"

namespace shard8::test {

/// The outcome of a training.
struct Outcome {
  std::int64_t first = 0;             ///< the number of its first step
  std::vector<double> losses, norms;  ///< by step
  std::vector<double> unit_norms;     ///< by step, then by unit (train::Trainer::unit_norms)
  std::vector<double> weight_norms;   ///< the same of train::Trainer::weight_norms
  std::uint64_t weights = 0;          ///< a hash of the bits of all ranks' master shards after the last step
  /// The collectives of all steps but the first, of each rank. Of a job with Job::counts.
  std::string collectives;
  std::string unplanned;  ///< of a skeleton: what ranks did that their plans do not have, and the other way round
  std::string error;      ///< not empty: the training threw this

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
  bool counts = false;  ///< its collectives
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

/// The body of a program on Ranks: calls work(ranks) and returns its exit code, 0 if that is true, else 1. It returns 2
/// unless OMP_NUM_THREADS is set, since by default the threads of nine ranks would spin on few cores. An exception is
/// printed under `name` and aborts all ranks.
int run_on_ranks(const char* name, MPI_Comm comm, std::chrono::seconds limit, const std::filesystem::path& folder,
                 const std::function<bool(Ranks& ranks)>& work);

/// Relative differences between the losses and the gradient norms of two trainings: those of the first step, before any
/// update has made them larger, and the largest of the later steps.
struct Spread {
  double first_loss = 0, first_norm = 0, loss = 0, norm = 0;

  bool within(const Spread& bounds) const {
    return first_loss <= bounds.first_loss && first_norm <= bounds.first_norm && loss <= bounds.loss &&
           norm <= bounds.norm;
  }
  void raise(const Spread& other);  ///< sets each member to the larger of the two
};
inline constexpr double Spread::*kSpreadMembers[] = {&Spread::first_loss, &Spread::first_norm, &Spread::loss,
                                                     &Spread::norm};

/// The largest differences allowed between two right trainings of a deck, and the kind of decks that they are for.
struct Bounds {
  std::string_view kind;
  Spread most;
};
Bounds bounds_of(const deck::Config& config);

/// The same training on one rank with the default schedule. Keys that change the numbers stay. A clip of 0 becomes a
/// bound that no gradient reaches, so that no unit is updated before all gradients are reduced. All steps
/// are trained.
deck::Config alone(const deck::Config& config);

/// The training of alone() with every number in FP32, without a recipe. Nothing if alone() is that training.
std::optional<deck::Config> alone_in_fp32(const deck::Config& config);

enum class Failure { none, threw, differs, other_bits, stopped_badly, restarted_badly, skeleton_differs };

struct Verdict {
  Failure failure = Failure::none;
  std::string text;   ///< for a failure: what differs and where, or what was thrown
  Spread difference;  ///< from the training on one rank
};

/// The trainings of a deck: on its mesh, on its mesh with the second schedule, on one rank. If run.stop_after is not 0,
/// more: on its mesh until run.stop_after stops it, and one for each restart. The deck's skeleton is the last. If the
/// first restart changes keys, the first three change them at the same step, in memory. `folder`: of the checkpoints,
/// which no other deck has.
std::vector<Job> jobs_of(const RandomDeck& deck, const std::string& name, const std::string& folder);
/// The skeleton of a deck that has one.
Job skeleton_job(const RandomDeck& deck, const std::string& name);
/// The training of alone_in_fp32(), with the change of the deck.
std::optional<Job> job_in_fp32(const RandomDeck& deck, const std::string& name);
/// Neighbours of the training of alone(): their learning rates differ from the deck's by one or two parts in a million,
/// with the change of the deck. They are as right as that training, and their distance from it shows how much the deck
/// makes of a rounding.
std::vector<Job> neighbour_jobs(const RandomDeck& deck, const std::string& name);
/// The deck as several texts, if a stopped training goes on: the one that stops, and one for each restart. Otherwise as
/// one. Each is the text of a deck that the program runs; with form_text().
std::string text_of(const RandomDeck& deck);
/// Further trainings, asked where the training on the mesh differs from the one on one rank by more than the bounds.
struct Doubt {
  const Outcome* in_fp32 = nullptr;       ///< of alone_in_fp32(), or null
  std::span<const Outcome> neighbours{};  ///< of neighbour_jobs(), or none
};
/// Compares the outcomes of jobs_of() with each other. In doubt a training on the mesh passes if it differs from the
/// one in FP32 by at most 1.5 times as much as the one on one rank does, or from that one by at most 1.5 times as much
/// as neighbours on one rank differ among themselves.
Verdict judge(const RandomDeck& deck, std::span<const Outcome> outcomes, const Doubt& doubt = {});
/// Whether a skeleton's collectives are those of its plans, call by call, and those of `training`, the training on the
/// same mesh, unless it is null.
Verdict judge_skeleton(const RandomDeck& deck, const Outcome& skeleton, const Outcome* training);

/// The largest differences over the steps; infinite if only one of two numbers is finite, 0 if neither is.
Spread difference_of(const Outcome& a, const Outcome& b);

struct Shrunk {
  RandomDeck deck;
  Verdict verdict;
  int trials = 0;
};

/// A smaller deck that fails in the same way. The search is greedy: keys are set to their defaults, then sizes are made
/// smaller, one at a time; a change stays if the deck still fails. `run` trains a deck. Collective if `run` is.
Shrunk shrink(const RandomDeck& deck, const Verdict& verdict, const std::filesystem::path& folder,
              const std::function<Verdict(const RandomDeck&)>& run);

/// How often collectives of a kind were called, and the bytes of all these calls.
struct Calls {
  std::uint64_t calls = 0, bytes = 0;
};
using CallsByKind = std::map<profile::CollectiveKey, Calls>;

/// One line for each kind, as those of a rank.
std::string text_of(int rank, const CallsByKind& all);
/// Those of so many steps, as they are planned.
CallsByKind planned_calls(const train::Setup& setup, std::uint64_t steps);

}  // namespace shard8::test
