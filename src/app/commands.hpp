// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shard8::base {
class Extents;
}
namespace shard8::deck {
struct Config;
struct LoadResult;
}  // namespace shard8::deck

namespace shard8::app {

/// A deck and what the command line changes in it.
struct DeckArguments {
  std::string path;
  std::vector<std::string> overrides;  ///< group.key=value
  /// Throws what a command cannot do with this deck. Called on every rank; empty: nothing to check.
  std::function<void(const deck::LoadResult&)> check{};
  bool trains = false;  ///< the command takes the memory of the deck's training
  /// Of `check` and `plan`: the number of ranks that will be started. `run` and `bench` take that of their job.
  std::optional<std::int64_t> ranks{};
};

/// What `run` is to do.
struct RunArguments {
  DeckArguments deck;
  int compare_pairs = 0;  ///< pairs of blocks of steps to measure, with and without overlap; 0: none
  bool quiet = false;     ///< standard output leads nowhere: what warns of the result goes to standard error
};

/// What `ckpt` is to do.
struct CkptArguments {
  std::string action;              ///< "list", "show", "verify" or "export"
  std::vector<std::string> paths;  ///< as checkpoint::open_checkpoint() takes them; several for `verify` alone
  bool boxes = false, json = false, no_hashes = false;  ///< of `show`
  std::string to, dtype = "fp32";                       ///< of `export`: a folder; "fp32" or "bf16"
  bool force = false;                                   ///< of `export`: files that are there are replaced
};

/// What `bench` times, with the deck's shapes and groups.
struct BenchArguments {
  std::string what;  ///< "gemm", "collective", "overlap" or "checkpoint"
  DeckArguments deck;
  std::string json;  ///< of all but gemm: a file; empty: none
  // Options of `bench checkpoint`.
  int runs = 5;
  std::string dir;  ///< empty: the deck's output.dir
  bool evict = true;
  // Options of `bench overlap`.
  int blocks = 5, repetitions = 20;
  std::string csv;  ///< a file; empty: none
  // Options of `bench collective`.
  std::string least = "64KiB", most;  ///< sizes of the wholes; empty: 16MiB on hosts, 512MiB on devices
  int factor = 8, warmup = 5, iterations = 20;
  bool check = true;
};

/// What `calibrate` measures, and where it writes the machine file.
struct CalibrateArguments {
  std::vector<std::string> decks;      ///< one at least
  std::vector<std::string> overrides;  ///< group.key=value, of every deck
  std::string out;                     ///< the file
  std::string name;                    ///< of the machine; empty: that of its card or processor
  std::string base;                    ///< a machine file for what is not measured; empty: none
  std::vector<std::string> imports;    ///< as bench::read_import() takes them
  double minutes = 5;                  ///< the time to spend
};

/// What `check` prints: what a run would do, or one thing alone, for scripts.
struct CheckArguments {
  DeckArguments deck;
  bool ranks = false;  ///< the number of ranks; Error(deck) if the deck leaves that to the launcher
  bool files = false;  ///< a line "KEY PATH" for each folder and file of a run; whether it could start is not checked
};

/// What `plan` is to do.
struct PlanArguments {
  DeckArguments deck;
  bool sweep = false, json = false;
  std::string fit;  ///< "80GiB": meshes of the sweep that need more memory a rank are left out; empty: none is
};

/// What `project` is to do.
struct ProjectArguments {
  DeckArguments deck;
  std::vector<std::string> command;  ///< the command line, for the JSON
  std::string machine;               ///< a machine file
  std::string stack;                 ///< a file of another training stack's structure; empty: shard8's own step
  double efficiency = 1;             ///< times of computation are divided by it
  double extrapolate = 4;            ///< the largest factor by which a size may lie outside of the entries
  bool json = false, sweep = false, sensitivities = false;
  std::string fit;                        ///< of the sweep: memory of a rank, in place of the machine's device.memory
  std::vector<std::string> vary;          ///< of the sweep: "group.key=value,value"
  std::string what_if;                    ///< "network.bandwidth=0.5x,..."; empty: nothing changes
  double hold_up_s = -1, durable_s = -1;  ///< of a checkpoint, as measured; negative: as planned
};

/// What `compare` compares.
struct CompareArguments {
  std::vector<std::string> paths;  ///< as profile::read_run() takes them; the others are compared with the first
  double percent = 5;
  double loss = -1;        ///< negative: percent / 100
  std::string envelope{};  ///< the envelope's file; empty: the program's
  bool json = false;
};

/// What `history` adds up.
struct HistoryArguments {
  std::string folder;  ///< output.dir of a training
  bool json = false;
};

/// What `trace` is to do with the trace of a run.
struct TraceArguments {
  std::string folder;      ///< output.dir of the run
  std::string name;        ///< output.trace; empty: the one that is there
  std::string output;      ///< the merged file; empty: `name` in `folder`, unless another file is requested
  std::string ranks;       ///< a folder for one file a rank; empty: none
  std::string chakra;      ///< a folder for Chakra execution traces; empty: none
  std::string timeline;    ///< an SVG file; empty: none
  int layer = -1;          ///< of the timeline; -1: the one in the middle
  int rank = 0;            ///< of the timeline
  std::int64_t step = -1;  ///< of the timeline; -1: the first
};

/// Prints a warning of the program, not of a deck's line, to standard error.
void warn(const std::string& text);
/// Prints a deck's warnings to standard error.
void print_warnings(const deck::LoadResult& deck);
/// Error(deck) if the deck of the file `path` has methods of overlap that this build lacks.
void check_methods(const std::string& path, const deck::LoadResult& deck);

/// "80GiB" or "64kB" in bytes. Error(deck), which begins with `option`, for another form.
std::uint64_t bytes_of(const std::string& text, std::string_view option);

/// Reads the deck for arguments.ranks. Error(deck) if its mesh has another number of ranks; `others` ends the message
/// with what else the command offers.
deck::LoadResult load_for_ranks(const DeckArguments& arguments, std::string_view command, std::string_view others);

/// The degrees of expert parallelism (mesh.expert) that a sweep tries on each mesh: all that divide a layer's experts.
/// None for a deck without experts, and none where the user sets mesh.expert: in the arguments, or in `vary`.
std::vector<std::int64_t> swept_experts(const deck::Config& config, const DeckArguments& arguments,
                                        std::span<const std::string> vary = {});
/// The config of a deck, whose text was read, on another mesh, with `more` changes after those of the arguments. The
/// mesh sets mesh.expert only with `experts`; without it the deck's value stays. Throws what deck::load_text() throws.
deck::Config config_on(const base::Extents& mesh, bool experts, const DeckArguments& arguments, const std::string& text,
                       std::span<const std::string> more = {});

/// Flushes standard output. Throws Error(environment) if something that was printed could not be written.
void require_standard_output();

/// The subcommands. Each returns the process's exit code. `run`, `bench` and `calibrate` start MPI, with argc and argv,
/// and run under comm::run_guarded, which prints errors; the others use one process and throw them.
int run_command(int argc, char** argv, const RunArguments& arguments);
int check_command(const CheckArguments& arguments);
int plan_command(const PlanArguments& arguments);
int project_command(const ProjectArguments& arguments);
/// Prints the deck in the spelling `to`, "yaml" or "nml".
int convert_command(const DeckArguments& deck, const std::string& to);
int deck_command(const std::string& group, const std::string& format);
/// Reads and checks the machine file at `path`, and prints what it gives. Without a path: prints all keys of machine
/// files, as `format`, "yaml" or "markdown".
int machine_command(const std::string& path, const std::string& format);
int bench_command(int argc, char** argv, const BenchArguments& arguments);
/// Measures this machine and writes a machine file. Starts MPI as `bench` does.
int calibrate_command(int argc, char** argv, const CalibrateArguments& arguments);
/// Reads checkpoints. Error(checkpoint) or that code if one is not usable.
int ckpt_command(const CkptArguments& arguments);
/// Merges the traces of ranks. Error(environment) if a file is missing, cut off or cannot be written; Error(deck) for a
/// layer, rank or step that the trace has not.
int trace_command(const TraceArguments& arguments);
/// Compares runs. Returns ExitCode::verification if a run is worse than the first one by more than the limits.
int compare_command(const CompareArguments& arguments);
/// Judges runs by an envelope. Returns ExitCode::verification if one lies outside. Error(deck) if the runs cannot be
/// judged: profile::judge_by_envelope().
int envelope_command(const CompareArguments& arguments);
/// Adds up the legs of a training. Error(deck) if the folder holds none, or a file of it is damaged.
int history_command(const HistoryArguments& arguments);
int info_command();

/// Parses the command line, runs a subcommand and prints errors to standard error. Returns the process's exit code.
int main(int argc, char** argv);

}  // namespace shard8::app
