// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shard8::profile {

/// The mean of the steps of a run, and how well it is known.
struct StepMean {
  double mean = 0;     ///< in the unit of the values
  double error = 0;    ///< standard error of the mean, ≥ 0
  double freedom = 1;  ///< degrees of freedom of the error, > 0

  /// This mean with `value` as the mean, where that is known. The error keeps its share of the mean.
  StepMean of(double value) const;
};

/// The mean of consecutive values, whose neighbours may resemble each other. Nothing for fewer than 4 values: the error
/// of fewer is not known.
///
/// The error is the larger of two estimates, since each one alone is too small for some series:
/// - Blocks of ⌊√n⌋ consecutive values: the means of blocks resemble each other less than single values do, and both
///   their length and their number grow with the series. (Batch means; Law, Simulation Modeling and Analysis, section
///   9.5.3.) Blocks of short series are too short for a strong correlation.
/// - s/√n · √((1 + r)/(1 − r)) with the correlation r of neighbours, which is exact for a first-order autoregression.
///   r is corrected for its bias in short series, r + (1 + 4r)/n (Kendall, Biometrika 41, 1954), and at least 0: an
///   error below s/√n is not believed.
/// The degrees of freedom are those of the blocks. Simulated autoregressions of 12 to 1000 values with r up to 0.5
/// leave a margin of 95 % in 1 to 4 % of pairs, with r = 0.8 in 5 % from 50 values on, in 10 % of 12 values.
std::optional<StepMean> mean_of_steps(std::span<const double> values);

/// What a difference of two means is worth: Welch's test.
struct MeanDifference {
  double difference = 0;  ///< b − a
  double error = 0;       ///< standard error of the difference
  double freedom = 1;     ///< degrees of freedom of the error (Welch and Satterthwaite)

  /// The probability, from 0 to 1, with which two runs of one distribution would differ by less.
  double confidence() const;
  /// Half the width of the confidence interval of the difference, for the probability `confidence` < 1.
  double margin(double confidence) const;
};
MeanDifference difference_of(const StepMean& a, const StepMean& b);

/// The probability that |t| is below `t` ≥ 0, for Student's distribution with `freedom` > 0 degrees of freedom.
double student_within(double t, double freedom);
/// The inverse of student_within(): the t below which |t| lies with the probability `within`, 0 ≤ within < 1.
double student_quantile(double within, double freedom);

/// What the files of a finished run say, for comparisons. Times are in seconds.
struct RecordedRun {
  using Texts = std::vector<std::pair<std::string, std::string>>;
  struct Time {
    std::string name;  ///< "forward" or "forward gemm"
    double mean_s = 0;
    std::optional<StepMean> known{};  ///< mean_s and its error; nothing if the error is not known
  };
  /// All collectives of one operation, group and dtype, in a step.
  struct Traffic {
    std::string name;  ///< "all_gather shard(2) fp32"
    double bytes = 0, calls = 0, total_s = 0, exposed_s = 0;
  };
  struct Casts {
    std::string name;
    double elements = 0, saturated = 0, flushed = 0, scale_change = 0;
  };

  /// What a summary that `shard8 project` wrote says of the machine and the step: nothing was run. mean_s and all else
  /// are of the nominal case.
  struct Projected {
    std::string machine;           ///< the machine's name
    double low_s = 0, high_s = 0;  ///< the step, 0 < low_s <= mean_s <= high_s
  };

  std::string name;  ///< the path that was given
  bool has_summary = false;
  std::optional<Projected> projected{};  ///< nothing: the run was measured
  std::string skeleton{};  ///< what a skeleton run kept of a step, run.skeleton; empty: it trained, or was projected
  Texts version{}, deck{}, run{}, environment{};
  std::string hosts{};
  std::int64_t ranks = 0;            ///< 0: not known
  std::int64_t tokens_per_step = 0;  ///< 0: not known
  double p50_s = 0, mean_s = 0;      ///< of the measured steps; 0: none
  double tokens_per_s = 0;           ///< 0: not known
  /// Joules of a token and mean watts of the measured steps, or projected; 0: not known.
  double joules_per_token = 0, watts = 0;
  std::string energy_of{};       ///< what was counted: "gpu, package"; of a projection "projected devices"
  std::string energy_missing{};  ///< why there is no energy, or not of all
  std::string
      busy{};  ///< how ranks were without a core for longer than is good; empty: they were not, or nobody looked
  /// The slowest rank's mean time for a fixed piece of work (CoreSpeed), in s. 0: not known, or ranks computed on
  /// devices.
  double core_work_s = 0;
  double core_slowed = 0;  ///< of the rank whose core was slowed most: mean over least time of that work, less 1
  std::optional<StepMean> known{};  ///< mean_s and its error; nothing for fewer than 4 measured steps
  std::vector<Time> phases{}, exchanges{};
  std::vector<Traffic> collectives{};
  std::vector<std::pair<std::string, double>> memory{};  ///< bytes by kind
  std::vector<Casts> casts{};
  std::vector<std::pair<std::string, double>> experts{};  ///< ratios and numbers of the report's table of experts
  std::map<std::int64_t, double> loss{};                  ///< by step; NaN where the run had no finite loss
  std::map<std::int64_t, double> validation{};            ///< losses of validations, by the step before; NaN as above
  std::map<std::int64_t, double> grad_norm{};             ///< by step, as loss
  /// Norms of the model's units by step, in the order of `units`; NaN where one was not finite. Only steps below
  /// kUnitNormSteps are read. Empty if the run wrote none.
  struct UnitNorms {
    std::map<std::int64_t, std::vector<double>> by_step{};
    std::vector<std::string> units{};  ///< "embedding", "layer 0", "head", "experts of layer 0"
  };
  UnitNorms unit_norms{};    ///< of gradients
  UnitNorms weight_norms{};  ///< of the weights kept in FP8, of layers and experts

  /// Chosen: more steps than an envelope judges, and bounded memory for long runs.
  static constexpr std::int64_t kUnitNormSteps = 1000;
};

/// Reads a run. `path` is an output folder, its summary.json or its metrics.jsonl. The other files are found in the
/// folder of summary.json, by the names in its deck; one that is missing is left out. A metrics.jsonl alone gives
/// losses and step times. No files are read in the folder of a projection's summary: they are of something else.
/// Error(deck) with the remedy if there is no such file, it is half-written, or it has another schema version.
RecordedRun read_run(const std::filesystem::path& path);

/// The probability with which no judged time of two runs of one distribution is called different. Chosen: of 20 pairs
/// of equal runs one may be called different in error.
inline constexpr double kCompareConfidence = 0.95;

/// Runs on the same hosts whose cores took times for the same work that differ by more are not compared by their times.
/// Chosen: less than `compare` has to find, a slowdown of 3 %. How much the times differ on cores that nothing slows
/// was not measured.
inline constexpr double kSpeedsDiffer = 0.02;
/// No time of a run is judged if a core was slowed by more, on the mean. Chosen: more than a clock at a power limit
/// changes. Measured: where something unseen slowed cores by 7 to 34 %, 38 of 90 pairs of equal runs of one speed
/// (kSpeedsDiffer) were called different, by up to 7 %; with this bound see docs/results/tests.json,
/// equal_runs_unquiet.
inline constexpr double kUnevenSpeed = 0.1;
/// The margin of a time is larger by so many times the share by which cores were slowed (RecordedRun::core_slowed), of
/// the run whose cores were slowed more. Chosen: a step may be slowed more than the fixed piece of work. Measured:
/// docs/results/tests.json, equal_runs_unquiet.
inline constexpr double kCoresToSteps = 2;

struct CompareLimits {
  double percent = 5;            ///< of a time, a rate, memory or bytes
  std::optional<double> loss{};  ///< largest relative difference of a loss; nothing: percent / 100

  double loss_limit() const { return loss.value_or(percent / 100); }
};

/// From the lowest to the highest that a projection says, in the figure's unit.
struct Band {
  double low = 0, high = 0;
};

/// One figure of two runs. Times are in seconds, sizes in bytes.
struct ComparedFigure {
  std::string name;
  std::optional<double> a{}, b{};  ///< nothing: this run has no such figure
  /// The margin of a judged time or rate: b − a is known to ± this, in the figure's unit. A larger difference is not
  /// chance.
  std::optional<double> margin{};
  std::optional<double> confidence{};      ///< with which a and b differ, from 0 to 1
  std::optional<Band> a_band{}, b_band{};  ///< of a projected figure; nothing: it was measured, or has no band
  bool in_band = false;                    ///< judged by bands: they meet
  /// not_judged: no limit is for this figure, or it could not be judged. faster, slower: the difference is larger than
  /// the margin, but within the limit. better, worse: beyond the limit.
  enum class Verdict : std::uint8_t { not_judged, within, faster, slower, better, worse } verdict = Verdict::not_judged;

  /// b / a − 1; nothing if a figure is missing or a is 0.
  std::optional<double> change() const;
};

/// `change`, a difference as a share of the first value, as text: "+12.5 %", and from ten times the first value on
/// the factor, "x 21.7".
std::string change_text(double change);

/// Figures of one kind. Text shows them multiplied by `scale`, which gives `unit`.
struct ComparedKind {
  std::string name, unit;
  double scale = 1;
  std::vector<ComparedFigure> figures{};
};

/// How a figure that both runs have changed, as text: as a share of the first value, or "from 0 to 54.5 ms".
std::string change_text(const ComparedFigure& figure, const ComparedKind& kind);

/// What is not the same in the decks, versions, hosts or environments; "-" for what a run does not have.
struct Difference {
  std::string what, name, a, b;
};

/// The losses of the steps that both runs have.
struct LossDifference {
  std::int64_t common = 0, only_a = 0, only_b = 0;  ///< numbers of steps
  std::optional<std::int64_t> first{};              ///< first step whose losses differ; nothing: none
  double a = 0, b = 0;                              ///< losses of this step
  double largest = 0;                               ///< largest relative difference, |a − b| / max(|a|, |b|)
  std::int64_t largest_step = 0;
};

struct Comparison {
  std::string a, b;                          ///< paths
  std::string a_projected{}, b_projected{};  ///< the machine on which a or b was projected; empty: it was measured
  std::string a_skeleton{}, b_skeleton{};    ///< RecordedRun::skeleton
  std::vector<Difference> differences{};
  std::vector<ComparedKind> kinds{};
  std::optional<LossDifference> loss{};
  std::optional<LossDifference> validation{};  ///< of the validations behind the same steps; nothing: a run has none
  std::optional<double> last_validation_a{}, last_validation_b{};  ///< the last validation losses
  bool times_judged = true;                                        ///< false: none was, and notes say why
  std::vector<std::string> notes{};                                ///< what was not compared, and why
  std::vector<std::string> exceeded{};  ///< what is worse in b by more than the limits; empty: nothing
  std::vector<std::string> slower{};    ///< what is slower in b, by less than the limits
};

/// Compares run b with run a. Judged times are means over the measured steps: of the step, of a token (the rate) and of
/// phases. A difference of judged times counts if it is larger than its margin, which comes from the errors of both
/// means (mean_of_steps) and from what cores that did not keep their speed may have done (kCoresToSteps): slower or
/// faster within `percent`, worse or better beyond. A phase also has to change by `percent` / 5 per cent of the step.
/// The margins hold together with the probability kCompareConfidence. Planned memory and bytes of collectives are worse
/// if they grow by more than `percent`. Percentiles, times of single exchanges and collectives, measured memory and
/// casts are not judged. Times of steps are not judged if the runs have other numbers of tokens a step or of ranks, and
/// no time is judged if the machine of a run was busy, or its cores were not of one speed, in both or in one of them
/// (kSpeedsDiffer, kUnevenSpeed).
///
/// In a projection the step and the rate have a band instead of an error: a measured mean in it is within, and beyond
/// it `percent` decides; of two projections the bands have to overlap. Phases and losses are not judged then, and what
/// says where and how a run ran is not compared.
Comparison compare_runs(const RecordedRun& a, const RecordedRun& b, const CompareLimits& limits);

/// The tables that `shard8 compare` prints, and the same as JSON. Runs are compared with the first one.
std::string to_text(const Comparison& comparison, const CompareLimits& limits);
std::string to_json(std::span<const Comparison> comparisons, const CompareLimits& limits);

/// What rounds in a training, from the values of the keys fp8.recipe, precision.compute and precision.reduce: the
/// recipe, or without one "fp32", "bf16", or "fp32, reduce bf16".
std::string rounding_of(std::string_view recipe, std::string_view compute, std::string_view reduce);

/// |a − b| / max(|a|, |b|). 0 for equal numbers and for two NaN; infinite if only one is finite.
double relative_difference(double a, double b);

/// How much two right runs of one training differ at most, if they differ only in what may change the rounding.
struct Envelope {
  /// Bounds of relative differences by step, from step 0. The bounds never fall with the step.
  struct Bounds {
    std::vector<double> loss, grad_norm;
    /// Of the largest difference of all units' gradient norms; empty in an envelope of an early version.
    std::vector<double> unit_norm{};
    /// The same of the norms of weights kept in FP8; empty as well for roundings that keep none.
    std::vector<double> weight_norm{};
    std::int64_t pairs = 0;  ///< of runs that were measured
  };
  std::string name;                           ///< the file, or "the shipped envelope"
  std::string origin;                         ///< the commit and date of the measurement
  std::map<std::string, Bounds> roundings{};  ///< by rounding_of()
};

/// Reads an envelope. Error(deck) with the place and the remedy if the file cannot be read, is no envelope, has another
/// schema version, or has bounds that are not positive, finite and rising.
Envelope read_envelope(const std::filesystem::path& path);
/// The envelope that the program contains: inputs/envelope.json of its source.
Envelope shipped_envelope();

/// How two runs lie in an envelope.
struct EnvelopeVerdict {
  /// A difference and its bound; share = difference / bound.
  struct Place {
    std::int64_t step = 0;
    std::string figure;  ///< "loss", "grad_norm", or "grad_norm of " or "weights of " and a unit
    double a = 0, b = 0, difference = 0, bound = 0;
    double share() const { return difference / bound; }
  };
  std::string a, b, rounding, envelope, origin;
  std::int64_t pairs = 0;
  std::int64_t judged = 0;           ///< steps 0 to judged - 1 were judged
  std::int64_t not_judged = 0;       ///< common steps behind them, which the envelope does not have
  std::optional<Place> outside{};    ///< the first difference outside; nothing: all are inside
  std::optional<Place> unit{};       ///< of that step, the unit whose norms have the largest share of their bound
  std::optional<Place> largest{};    ///< the largest share of a bound below 1; nothing: no such figures differ
  bool equal = true;                 ///< all figures of the judged steps have the same bits
  std::vector<std::string> notes{};  ///< what was taken for granted
};

/// Judges two runs by an envelope, step by step. Relative differences of norms are at most 1: where a bound is 1 or
/// more, only a figure that is not finite in one run is outside, and a note says from which step on. `may_differ` says
/// which keys of the deck may have different values in both runs; data.path and model.init_file may, too, with a note.
/// Error(deck) that names the reason:
/// - the runs are not one training; the message has the first key that differs and both values
/// - a run was projected, is a skeleton, or has no summary
/// - the runs have no steps in common from step 0 on
/// - the envelope has no bounds for the rounding of these runs
EnvelopeVerdict judge_by_envelope(const RecordedRun& a, const RecordedRun& b, const Envelope& envelope,
                                  const std::function<bool(const std::string& key)>& may_differ);

/// What `shard8 compare --envelope` prints.
std::string to_text(const EnvelopeVerdict& verdict);
/// The verdicts as JSON. Runs are compared with the first one.
std::string to_json(std::span<const EnvelopeVerdict> verdicts);

}  // namespace shard8::profile
