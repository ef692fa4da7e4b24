// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/device.hpp"
#include "comm/mesh.hpp"
#include "deck/config.hpp"
#include "kernels/libraries.hpp"
#include "profile/figures.hpp"
#include "profile/measurement.hpp"
#include "profile/step_timer.hpp"
#include "tensor/runtime.hpp"
#include "train/assembly.hpp"
#include "train/overlap/cases.hpp"
#include "train/setup.hpp"
#include "train/training_file.hpp"

namespace shard8::train {

/// The times of one exchange and its product on a rank: milliseconds of a call in blocks. In a block the calls of
/// `plain` and `overlapped` took turns.
struct ExchangeTimes {
  profile::Exchange exchange{};
  profile::ExchangeMethod method{};
  std::vector<double> plain;       ///< in the plain order
  std::vector<double> overlapped;  ///< with the method
};

/// Whether a method is faster than the plain order beyond the noise: its median is less by 1 % or more, and it was
/// faster in three quarters of the blocks or more. Both spans must have the same number of blocks, at least one. False
/// if a time is not finite.
bool pays(std::span<const double> plain, std::span<const double> overlapped);

/// The methods that pay. Times are those of the slowest rank in each block; rank 0 decides for all. Every rank passes
/// the same exchanges with the same number of blocks, and gets the same choice. Collective over `world`.
///
/// No method changes the bits of a training on hosts. On devices products in parts may be summed in another order than
/// whole ones; with precision.deterministic a method that did so would have to be left out here.
profile::OverlapChoice choose_overlap(const comm::Communicator& world, std::vector<ExchangeTimes> times);

/// A row for each key of the group overlap that is `auto` and has an effect under the deck, with its method and without
/// times. The rows are in the order of profile::Exchange.
std::vector<profile::OverlapChoice::Row> auto_rows(const deck::Config& config);

/// The deck in which nothing overlaps but the exchanges whose key is `auto`.
deck::Config auto_only(deck::Config config);

/// Times the exchanges whose key is `auto` on the ranks of `mesh`, which must have been made for overlap. Takes about
/// `seconds` or less, or, where calls are long, ten calls of each exchange with its product. The memory
/// (OverlapTiming::bytes) is freed. `adopt` as for OverlapTiming. Collective. AgreedError(environment) when a rank has
/// not enough memory.
std::vector<ExchangeTimes> time_auto(const deck::Config& config, const comm::Mesh& mesh, const tensor::Exec& exec,
                                     int threads, double seconds,
                                     const std::function<void(kernels::Libraries&)>& adopt = {});

/// Times of exchanges depend on everything: another condition may make another method the fastest. Format 1 did not
/// record the placement of ranks, the transport and the versions.
inline constexpr profile::MeasurementKind kOverlapKind{.name = "overlap", .format = 2};

/// Whether wgrads of all micro-batches but the first add to a layer's gradients. Otherwise all overwrite them.
bool wgrads_add(const Setup& setup);

/// Conditions of the deck, which come behind those of the job (conditions_of): the mesh, and the keys from which
/// the shapes and dtypes of products and exchanges follow.
profile::Conditions overlap_conditions(const deck::Config& config, profile::Conditions job);

/// A choice of overlap methods as a measurement.
profile::Measurement overlap_measurement(const profile::Conditions& conditions,
                                         const std::vector<profile::OverlapChoice::Row>& rows);

/// The rows of a measurement, without those of exchanges and methods that this program does not have. Nothing, with the
/// reason, if its payload is malformed.
std::optional<std::vector<profile::OverlapChoice::Row>> rows_of(const profile::Measurement& measurement,
                                                                std::string& reason);

/// The rows of a measurement for `wanted`, which have an exchange and its method each, in their order. Nothing if the
/// measurement does not fit: it was made under other conditions, is malformed, or lacks a row. Then `reason` says why.
/// Conditions named in `ignored` are not compared.
std::optional<std::vector<profile::OverlapChoice::Row>> rows_that_fit(
    const profile::Measurement& measurement, const profile::Conditions& conditions,
    const std::vector<profile::OverlapChoice::Row>& wanted, std::string& reason,
    std::span<const std::string_view> ignored = {});

/// The exchanges that a setup's overlap hides, in memory of its own, to be timed on all ranks of a mesh. All
/// functions but cases(), parts_problem() and push_problem() are collective over the mesh.
class OverlapTiming {
 public:
  /// Takes the memory. On a device it also chooses the algorithm of each product that `adopt` gives the libraries none
  /// for. All must outlive the object. AgreedError(environment) when a rank has not enough memory.
  OverlapTiming(const Setup& setup, const comm::Mesh& mesh, const tensor::Exec& exec,
                const std::function<void(kernels::Libraries&)>& adopt = {});
  ~OverlapTiming();
  OverlapTiming(const OverlapTiming&) = delete;
  OverlapTiming& operator=(const OverlapTiming&) = delete;

  /// Bytes of memory that the constructor takes on a rank.
  static std::size_t bytes(const Setup& setup);

  const std::vector<OverlapCase>& cases() const { return cases_; }
  /// On hosts: why exchanges by parts go by messages; empty if they do not.
  const std::string& parts_problem() const;
  /// Why dispatch and combine have no cases although they should overlap; empty if they have.
  const std::string& push_problem() const;

  /// Calls a function of a case once, and waits for it.
  void once(const std::function<void()>& call);
  /// Calls each of `variants` once in turn, `repetitions` times over, after one such round that is not timed if
  /// `warm_up`. Ranks are aligned before each call. Returns milliseconds of a call of each variant on this rank: the
  /// mean of the repetitions. On a device the host waits only after the last call, and events in the compute stream
  /// time the calls: a variant must have the compute stream wait for all that it starts. `repetitions` is at least 1.
  std::vector<double> in_turns(std::span<const std::function<void()>* const> variants, int repetitions,
                               bool warm_up = true);
  /// Compares `values` of all ranks and returns, for each place in the vector, the largest value that a rank has there.
  std::vector<double> largest(std::vector<double> values) const;

 private:
  struct Memory;
  void choose_algorithms();
  void align() const;
  void end_calls();

  const tensor::Exec& exec_;
  const comm::Communicator& world_;
  const comm::Communicator& aligned_group_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<kernels::Libraries> libraries_;  ///< null on hosts
  profile::StepTimer timer_;                   ///< of the host, so that nothing is timed on the device between products
  std::unique_ptr<profile::StepClock> clock_;  ///< of in_turns()
  operation::Executor executor_;
  std::unique_ptr<model::Context> context_;
  std::vector<OverlapCase> cases_;
};

/// What the keys `auto` of the deck's group overlap become in a run.
struct OverlapDecision {
  profile::OverlapChoice choice;     ///< without rows every `auto` becomes `off`
  std::string plan;                  ///< for output.dir/overlap.json and checkpoints; empty: there is nothing to keep
  std::vector<std::string> remarks;  ///< lines for the header
};

/// Decides before the assembly starts. The choice is read from the checkpoint that the run goes on from, else from
/// output.dir/overlap.json, if it fits this run; otherwise the exchanges are timed, unless that takes more memory than
/// the run. A choice fits if it was measured under the conditions of this run, all of them; for that of a checkpoint
/// the program may be another one. What does not fit, or is malformed, becomes a remark.
/// `checkpoint`: its name for the header, and `saved` what it keeps; both empty for a new run. Collective; every rank
/// gets the same. AgreedError(environment) when a rank has not enough memory.
OverlapDecision decide_overlap(Assembly& assembly, const std::string& checkpoint, const SavedChoices& saved);

}  // namespace shard8::train
