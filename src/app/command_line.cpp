// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <sstream>
#include <utility>

#include "app/command_table.hpp"
#include "app/commands.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/version.hpp"

namespace shard8::app {

namespace {

struct Arguments {
  DeckArguments deck;
  CkptArguments ckpt;
  BenchArguments bench;
  CalibrateArguments calibrate;
  TraceArguments trace;
  CompareArguments compare;
  HistoryArguments history;
  PlanArguments plan;
  ProjectArguments project;
  std::string restart;  ///< of `run`
  bool compare_off = false;
  bool quiet = false;  ///< of `run`
  int compare_pairs = 4;
  std::string group, format = "yaml", to;
  std::string machine;              ///< of `deck --machine FILE`
  std::string shell;                ///< of `completions`
  std::string man_format = "roff";  ///< of `man`
  std::string ranks_of_check;       ///< "print" for `check --ranks`, N for `check --ranks=N`
  bool files_of_check = false;
  std::int64_t ranks = 0;  ///< of `plan --ranks N`; 0: not given
  std::string devices;     ///< of `check` and `plan`; empty: not given
};

constexpr std::int64_t kMostRanks = 2147483647;  // as MPI counts them

const CLI::Validator kNotEmpty = not_empty();

CLI::App* add_deck_command(CLI::App& app, DeckArguments& deck, const char* name, const char* help) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("DECK", deck.path, "a deck: .yaml, .yml or .nml")->required();
  command->add_option("group.key=value", deck.overrides, "changes to the deck");
  return command;
}

void add_devices(CLI::App& command, Arguments& arguments) {
  command.add_option("--devices", arguments.devices, "cuda or host: mesh.device, whatever the build is for")
      ->check(CLI::IsMember({"cuda", "host"}));
}

void add_run(CLI::App& app, Arguments& arguments) {
  CLI::App* run = add_deck_command(app, arguments.deck, "run", "train (under mpiexec or srun, one process a rank)");
  add_devices(*run, arguments);
  run->add_option("--restart", arguments.restart, "auto, none, or the folder of a checkpoint: checkpoint.restart")
      ->check(kNotEmpty);
  CLI::Option* compare =
      run->add_flag("--compare-off", arguments.compare_off, "afterwards measure steps without overlap, too");
  run->add_flag("--quiet", arguments.quiet, "print warnings and errors only; files are written as ever");
  run->add_option("--pairs", arguments.compare_pairs, "of --compare-off: pairs of blocks (4)")
      ->needs(compare)
      ->check(whole_from(1, 100));
}

/// What `check --ranks` may be followed by: nothing, which reads "print", or =N.
const CLI::Validator kRanksOrPrint(
    [](const std::string& value) { return value == "print" ? "" : problem_of_whole(value, 1, kMostRanks); }, "");

void add_check_and_plan(CLI::App& app, Arguments& arguments) {
  CLI::App* check = add_deck_command(app, arguments.deck, "check", "read and validate a deck, say what would run");
  add_devices(*check, arguments);
  check
      ->add_flag("--ranks{print}", arguments.ranks_of_check,
                 "print only the deck's number of ranks; --ranks=N: say what would run on N")
      ->check(kRanksOrPrint);
  check->add_flag("--files", arguments.files_of_check, "print only a run's folders and files, as lines KEY PATH");
  CLI::App* plan =
      add_deck_command(app, arguments.deck, "plan", "memory, sent bytes and FLOPs of a deck, without running it");
  add_devices(*plan, arguments);
  plan->add_option("--ranks", arguments.ranks, "number of ranks, for mesh.shard = auto or --sweep")
      ->check(whole_from(1, kMostRanks));
  CLI::Option* sweep = plan->add_flag("--sweep", arguments.plan.sweep, "every mesh of so many ranks that fits");
  plan->add_option("--fit", arguments.plan.fit, "with --sweep: most memory of a rank, as in 80GiB")
      ->needs(sweep)
      ->check(kNotEmpty);
  plan->add_flag("--json", arguments.plan.json, "as JSON");
}

void add_project(CLI::App& app, Arguments& arguments) {
  ProjectArguments& p = arguments.project;
  CLI::App* project =
      add_deck_command(app, arguments.deck, "project", "the step of a deck on another machine, simulated");
  project->add_option("--machine", p.machine, "a machine file (docs/projection.md)")->required()->check(kNotEmpty);
  project->add_option("--ranks", arguments.ranks, "number of ranks, for mesh.shard = auto or --sweep")
      ->check(whole_from(1, kMostRanks));
  CLI::Option* sweep = project->add_flag("--sweep", p.sweep, "every mesh of so many ranks, the fastest first");
  project->add_option("--vary", p.vary, "with --sweep: values to try, as in data.micro_batch=1,2,4; several times")
      ->needs(sweep)
      ->check(kNotEmpty);
  project->add_option("--fit", p.fit, "with --sweep: most memory of a rank, in place of the machine's")
      ->needs(sweep)
      ->check(kNotEmpty);
  project->add_option("--what-if", p.what_if, "changes of the machine, as in network.bandwidth=0.5x,device.power=0.8x")
      ->check(kNotEmpty);
  project->add_flag("--sensitivities", p.sensitivities, "each property of the machine halved and doubled");
  project->add_option("--stack", p.stack, "structure of another training stack")->check(kNotEmpty);
  project->add_option("--efficiency", p.efficiency, "divides times of computation")
      ->capture_default_str()
      ->check(number_from(0.01, 10));
  project->add_option("--extrapolate", p.extrapolate, "the most by which sizes may exceed the machine file's")
      ->capture_default_str()
      ->check(number_from(1, 1e6));
  project->add_option("--hold-up", p.hold_up_s, "measured seconds for which a checkpoint holds training up")
      ->check(number_from(0));
  project->add_option("--durable", p.durable_s, "measured seconds until a checkpoint is durable")
      ->check(number_from(0));
  project->add_flag("--json", p.json, "as JSON, like a run's summary");
}

void add_ckpt(CLI::App& app, CkptArguments& arguments) {
  CLI::App* ckpt = app.add_subcommand("ckpt", "look at checkpoints, verify and export them");
  ckpt->require_subcommand(1);
  const auto add = [&](const char* name, const char* help) {
    CLI::App* action = ckpt->add_subcommand(name, help);
    action->parse_complete_callback([&arguments, name] { arguments.action = name; });
    return action;
  };
  const auto add_path = [&](CLI::App* action, const char* name, const char* help) {
    return action->add_option(name, arguments.paths, help)->required()->check(kNotEmpty);
  };
  add_path(add("list", "a table of the checkpoints in a folder"), "DIR", "a folder of checkpoints, or an output.dir")
      ->expected(1);
  constexpr auto kOne = "a checkpoint; of a folder of checkpoints the last that is usable";
  CLI::App* show = add("show", "run, mesh, deck, tensors and hashes of a checkpoint");
  add_path(show, "CKPT", kOne)->expected(1);
  show->add_flag("--boxes", arguments.boxes, "every box with its file");
  show->add_flag("--json", arguments.json, "as JSON");
  show->add_flag("--no-hashes", arguments.no_hashes, "read no values");
  add_path(add("verify", "check every byte, the boxes, and FP8 weights against their masters"), "CKPT",
           "checkpoints, or folders of them");
  CLI::App* out = add("export", "write the weights and config.json for Hugging Face Transformers");
  add_path(out, "CKPT", kOne)->expected(1);
  out->add_option("--to", arguments.to, "folder, made if missing")->required()->check(kNotEmpty);
  out->add_option("--dtype", arguments.dtype, "fp32 or bf16")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  out->add_flag("--force", arguments.force, "replace files that are there");
}

void add_bench_command(CLI::App& app, BenchArguments& arguments) {
  CLI::App* bench = app.add_subcommand("bench", "time parts of a deck's run (under mpiexec or srun)");
  bench->require_subcommand(1);
  const auto add = [&](const char* name, const char* help) {
    CLI::App* what = add_deck_command(*bench, arguments.deck, name, help);
    what->parse_complete_callback([&arguments, name] { arguments.what = name; });
    what->add_option("--json", arguments.json, "a file for all figures")->check(kNotEmpty);
    return what;
  };
  const auto number = [](CLI::App* what, const char* name, int& value, const char* help, int least, int most) {
    what->add_option(name, value, help)->capture_default_str()->check(whole_from(least, most));
  };
  add("gemm", "the deck's matrix products, on GPUs");
  CLI::App* collective = add("collective", "the collectives of the deck's groups, over sizes");
  collective->add_option("--min", arguments.least, "the smallest size")->capture_default_str()->check(kNotEmpty);
  collective->add_option("--max", arguments.most, "the largest size (16MiB on hosts, 512MiB on GPUs)")
      ->check(kNotEmpty);
  number(collective, "--factor", arguments.factor, "from one size to the next", 2, 1024);
  number(collective, "--warmup", arguments.warmup, "calls that are not timed", 1, 100000);
  number(collective, "--iterations", arguments.iterations, "calls in a row that are timed", 1, 100000);
  collective->add_flag("!--no-check", arguments.check, "on hosts: do not check the data");
  CLI::App* overlap =
      add("overlap", "exchanges of tensor and expert groups, alone and with products, overlapped and plain");
  overlap->add_option("--csv", arguments.csv, "a file for all figures")->check(kNotEmpty);
  number(overlap, "--blocks", arguments.blocks, "how often all variants are timed", 1, 1000);
  number(overlap, "--repetitions", arguments.repetitions, "calls of each variant in a block, in turns", 1, 100000);
  CLI::App* checkpoint = add("checkpoint", "saving and loading a checkpoint, and a plain write");
  number(checkpoint, "--runs", arguments.runs, "how often", 1, 40);
  checkpoint->add_option("--dir", arguments.dir, "the folder to write to (output.dir)")->check(kNotEmpty);
  checkpoint->add_flag("!--no-evict", arguments.evict, "load from the page cache");
}

void add_deck(CLI::App& app, Arguments& arguments) {
  CLI::App* deck = app.add_subcommand("deck", "every key: type, default, bounds, unit, meaning");
  CLI::Option* group = deck->add_option("GROUP", arguments.group, "one group only");
  deck->add_option("--format", arguments.format, "yaml, nml, markdown or schema; of --machine yaml or markdown")
      ->capture_default_str();
  deck->add_option("--machine", arguments.machine,
                   "every key of machine files; with a FILE: check it, and say what it gives")
      ->expected(0, 1)
      ->excludes(group);
}

/// An argument group.key=value; a path with '=' in it has a '/' or no '.' before.
bool is_override(const std::string& argument) {
  const auto name = argument.substr(0, argument.find('='));
  return name.size() < argument.size() && name.find('.') != std::string::npos && name.find('/') == std::string::npos;
}

void add_calibrate(CLI::App& app, CalibrateArguments& arguments) {
  CLI::App* calibrate =
      app.add_subcommand("calibrate", "measure this machine inside the steps of decks (under mpiexec or srun)");
  calibrate
      ->add_option("DECK", arguments.decks, "decks: .yaml, .yml or .nml; and group.key=value, changes to all of them")
      ->required()
      ->check(kNotEmpty);
  calibrate->add_option("--out", arguments.out, "the machine file to write")->required()->check(kNotEmpty);
  calibrate->add_option("--name", arguments.name, "the machine's name (its card or processor)")->check(kNotEmpty);
  calibrate->add_option("--base", arguments.base, "a machine file for all that is not measured")->check(kNotEmpty);
  calibrate
      ->add_option("--import", arguments.imports,
                   "FILE[:NODESxRANKS] of nccl-tests, OSU or shard8 bench --json; several times")
      ->check(kNotEmpty)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  calibrate->add_option("--minutes", arguments.minutes, "the time to spend")
      ->capture_default_str()
      ->check(number_from(0.05, 600));
  calibrate->parse_complete_callback([&arguments] {
    const auto changes = std::stable_partition(arguments.decks.begin(), arguments.decks.end(),
                                               [](const std::string& a) { return !is_override(a); });
    arguments.overrides.assign(changes, arguments.decks.end());
    arguments.decks.erase(changes, arguments.decks.end());
    if (arguments.decks.empty()) throw CLI::RequiredError("DECK");
  });
}

void add_generators(CLI::App& app, Arguments& arguments) {
  app.add_subcommand("man", "print the man page")
      ->add_option("--format", arguments.man_format, "roff, or markdown for docs/commands.md")
      ->capture_default_str()
      ->check(CLI::IsMember({"roff", "markdown"}));
  CLI::App* completions = app.add_subcommand("completions", "print a script that completes command lines");
  completions->add_option("SHELL", arguments.shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return 0;
}

/// Adds KEY=VALUE, the value of `option`; nothing for an empty one. Error(deck) if the command line sets the key, too:
/// nobody can say which of the two comes last.
void add_override(DeckArguments& deck, const std::string& key, const std::string& value, std::string_view option) {
  if (value.empty()) return;
  for (const std::string& given : deck.overrides)
    if (given.starts_with(key + '='))
      base::fail(base::ExitCode::deck, "command line: error: {} {} and {} are both given: leave one out", option, value,
                 given);
  deck.overrides.push_back(key + '=' + value);
}

DeckArguments planned(DeckArguments deck, const std::string& devices, std::int64_t ranks) {
  add_override(deck, "mesh.device", devices, "--devices");
  if (ranks > 0) deck.ranks = ranks;
  return deck;
}

void add_trace(CLI::App& app, TraceArguments& arguments) {
  CLI::App* trace = app.add_subcommand("trace", "merge the ranks' traces of a run, for Perfetto and other tools");
  trace->add_option("DIR", arguments.folder, "output.dir of a run with output.trace")->required()->check(kNotEmpty);
  trace->add_option("--name", arguments.name, "output.trace of the run, where DIR has several traces")
      ->check(kNotEmpty);
  trace->add_option("--output", arguments.output, "the merged file, in Kineto's format; by default output.trace in DIR")
      ->check(kNotEmpty);
  trace->add_option("--ranks", arguments.ranks, "a folder for one file a rank, as HolisticTraceAnalysis reads them")
      ->check(kNotEmpty);
  trace->add_option("--chakra", arguments.chakra, "a folder for Chakra execution traces, as ASTRA-sim reads them")
      ->check(kNotEmpty);
  CLI::Option* timeline =
      trace->add_option("--timeline", arguments.timeline, "an SVG picture of one layer")->check(kNotEmpty);
  trace->add_option("--layer", arguments.layer, "of the picture, from 0; by default the one in the middle")
      ->needs(timeline)
      ->check(whole_from(0));
  trace->add_option("--rank", arguments.rank, "of the picture")
      ->capture_default_str()
      ->needs(timeline)
      ->check(whole_from(0));
  trace->add_option("--step", arguments.step, "of the picture; by default the first that was traced")
      ->needs(timeline)
      ->check(whole_from(0, std::numeric_limits<std::int64_t>::max()));
}

void add_compare(CLI::App& app, CompareArguments& arguments) {
  CLI::App* compare = app.add_subcommand("compare", "what differs between runs: speed, phases, memory, losses, decks");
  compare->add_option("RUN", arguments.paths, "two or more output folders, or their summary.json or metrics.jsonl")
      ->required()
      ->check(kNotEmpty);
  compare->add_option("--threshold", arguments.percent, "per cent by which a run may be worse than the first one")
      ->capture_default_str()
      ->check(number_from(0));
  compare->add_option("--loss", arguments.loss, "largest relative difference of losses (threshold / 100)")
      ->check(number_from(0));
  compare
      ->add_option("--envelope", arguments.envelope,
                   "whether losses and norms differ by rounding alone; with a FILE: by its bounds, not the program's")
      ->expected(0, 1)
      ->excludes("--threshold")
      ->excludes("--loss");
  compare->add_flag("--json", arguments.json, "as JSON");
  compare->parse_complete_callback([&arguments] {
    if (arguments.paths.size() < 2 && !arguments.envelope.empty())
      throw CLI::ArgumentMismatch(
          fmt::format("--envelope takes '{}' for its FILE, which leaves {}: write --envelope behind the runs",
                      arguments.envelope, base::count(std::ssize(arguments.paths), "RUN", "RUNs")));
    if (arguments.paths.size() < 2) throw CLI::ArgumentMismatch::AtLeast("RUN", 2, arguments.paths.size());
  });
}

void add_history(CLI::App& app, HistoryArguments& arguments) {
  CLI::App* history = app.add_subcommand("history", "where the time of all legs of a training went, and its goodput");
  history->add_option("OUTPUT", arguments.folder, "output.dir of a training")->required()->check(kNotEmpty);
  history->add_flag("--json", arguments.json, "as JSON");
}

int dispatch(const CLI::App& app, int argc, char** argv, const Arguments& arguments) {
  const auto chosen = app.get_subcommands().front()->get_name();
  if (chosen == "run") {
    RunArguments run{arguments.deck, arguments.compare_off ? arguments.compare_pairs : 0, arguments.quiet};
    // Standard output becomes /dev/null before MPI starts threads that might print. Warnings go to standard error.
    if (arguments.quiet && std::freopen("/dev/null", "w", stdout) == nullptr)
      base::fail(base::ExitCode::environment, "--quiet: cannot open /dev/null; leave --quiet out");
    add_override(run.deck, "mesh.device", arguments.devices, "--devices");
    add_override(run.deck, "checkpoint.restart", arguments.restart, "--restart");
    return run_command(argc, argv, run);
  }
  if (chosen == "compare") {
    const bool envelope = app.get_subcommands().front()->count("--envelope") > 0;
    return envelope ? envelope_command(arguments.compare) : compare_command(arguments.compare);
  }
  if (chosen == "history") return history_command(arguments.history);
  if (chosen == "ckpt") return ckpt_command(arguments.ckpt);
  if (chosen == "check") {
    const bool ranks_only = arguments.ranks_of_check == "print";
    for (const std::string& word : arguments.deck.overrides)
      if (ranks_only && problem_of_whole(word, 1, kMostRanks).empty())
        base::fail(base::ExitCode::deck, "shard8 check: --ranks takes its number after an equals sign: --ranks={}",
                   word);
    const bool given = !arguments.ranks_of_check.empty() && !ranks_only;
    const std::int64_t ranks = given ? std::stoll(arguments.ranks_of_check) : 0;
    return check_command({planned(arguments.deck, arguments.devices, ranks), ranks_only, arguments.files_of_check});
  }
  if (chosen == "plan") {
    PlanArguments plan = arguments.plan;
    plan.deck = planned(arguments.deck, arguments.devices, arguments.ranks);
    return plan_command(plan);
  }
  if (chosen == "project") {
    ProjectArguments project = arguments.project;
    project.deck = planned(arguments.deck, "", arguments.ranks);
    project.command.assign(argv, argv + argc);
    return project_command(project);
  }
  if (chosen == "convert") return convert_command(arguments.deck, arguments.to);
  if (chosen == "deck") {
    const bool machine = app.get_subcommands().front()->count("--machine") > 0;
    return machine ? machine_command(arguments.machine, arguments.format)
                   : deck_command(arguments.group, arguments.format);
  }
  if (chosen == "bench") return bench_command(argc, argv, arguments.bench);
  if (chosen == "calibrate") return calibrate_command(argc, argv, arguments.calibrate);
  if (chosen == "man")
    return print(arguments.man_format == "roff" ? man_page(command_table(app)) : command_reference(command_table(app)));
  if (chosen == "completions") return print(completions(command_table(app), arguments.shell));
  if (chosen == "trace") return trace_command(arguments.trace);
  return info_command();
}

constexpr const char* kExitCodes =
    "Exit codes: 0 done; 2 bad deck or usage; 3 environment (ranks, devices, libraries, files that cannot be written); "
    "4 checkpoint unusable; 5 failed while running; 6 verification failed, or compare found a run worse than the "
    "limits or outside of the envelope; 75 stopped early with a checkpoint: run again to go on\n";

/// What --help prints last: an example and the exit codes.
void add_footers(CLI::App& app) {
  constexpr std::pair<const char*, const char*> kExamples[] = {
      {"run", "mpiexec -n 4 shard8 run inputs/quickstart.yaml run.steps=50"},
      {"check", "shard8 check inputs/quickstart.yaml mesh.tensor=4"},
      {"plan", "shard8 plan inputs/plan/llama3_70b.yaml --ranks 512 --sweep --fit 80GiB"},
      {"project",
       "shard8 project inputs/plan/llama3_70b.yaml --machine inputs/machines/h100-sxm.yaml --ranks 512 --sweep"},
      {"deck", "shard8 deck mesh --format nml"},
      {"convert", "shard8 convert inputs/quickstart.yaml --to nml"},
      {"bench", "mpiexec -n 2 shard8 bench overlap inputs/quickstart.yaml mesh.shard=1 --json overlap.json"},
      {"bench gemm", "shard8 bench gemm inputs/quickstart.yaml mesh.shard=1 mesh.tensor=1 --json gemm.json"},
      {"bench collective", "mpiexec -n 4 shard8 bench collective inputs/quickstart.yaml --max 1MiB"},
      {"bench overlap", "mpiexec -n 2 shard8 bench overlap inputs/quickstart.yaml mesh.shard=1 --json overlap.json"},
      {"bench checkpoint", "mpiexec -n 4 shard8 bench checkpoint inputs/quickstart.yaml --dir out"},
      {"calibrate", "mpiexec -n 2 shard8 calibrate inputs/quickstart.yaml mesh.shard=2 --out machine.yaml"},
      {"ckpt", "shard8 ckpt list out/checkpoints"},
      {"ckpt list", "shard8 ckpt list out/checkpoints"},
      {"ckpt show", "shard8 ckpt show out/checkpoints/step_00001200"},
      {"ckpt verify", "shard8 ckpt verify out/checkpoints"},
      {"ckpt export", "shard8 ckpt export out/checkpoints --to weights"},
      {"trace", "shard8 trace out --timeline layer.svg"},
      {"compare", "shard8 compare out/yesterday out/today --threshold 8"},
      {"history", "shard8 history out/quickstart"},
      {"info", "shard8 info"},
      {"man", "shard8 man >shard8.1"},
      {"completions", "shard8 completions bash >shard8"}};
  app.footer(fmt::format("Example: shard8 run inputs/quickstart.yaml\n{}", kExitCodes));
  for (const auto& [name, example] : kExamples) {
    CLI::App* command = &app;
    std::istringstream words(name);
    for (std::string word; words >> word;) command = command->get_subcommand(word);
    command->footer(fmt::format("Example: {}\n{}", example, kExitCodes));
  }
}

/// Prints an error and returns its exit code. Errors of a deck begin with the deck's name; the others get the
/// program's.
int report(const base::Error& error) {
  const bool deck = error.code() == base::ExitCode::deck;
  const std::string line = fmt::format("{}{}\n", deck ? "" : "shard8: ", error.what());
  base::print_coloured(line, stderr);
  return static_cast<int>(error.code());
}

/// The exit code of a command that ended with `code`. If its output could not be written, this prints an error, and a
/// command that otherwise succeeded gets the error's code.
int after_output(int code) {
  if (code == static_cast<int>(base::ExitCode::environment)) return code;  // `run` has already printed such an error
  try {
    require_standard_output();
    return code;
  } catch (const base::Error& e) {
    const int lost = report(e);
    return code == static_cast<int>(base::ExitCode::ok) ? lost : code;
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"shard8: trains a transformer with sharded weights and times every phase", "shard8"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(base::version().number));
  add_run(app, arguments);
  add_check_and_plan(app, arguments);
  add_project(app, arguments);
  add_deck(app, arguments);
  CLI::App* convert =
      add_deck_command(app, arguments.deck, "convert", "a deck in the other spelling, on standard output");
  convert->add_option("--to", arguments.to, "yaml or nml")->required()->check(CLI::IsMember({"yaml", "nml"}));
  add_bench_command(app, arguments.bench);
  add_calibrate(app, arguments.calibrate);
  add_ckpt(app, arguments.ckpt);
  add_trace(app, arguments.trace);
  add_compare(app, arguments.compare);
  add_history(app, arguments.history);
  app.add_subcommand("info", "version, backends, libraries, devices, environment");
  add_generators(app, arguments);
  add_footers(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return after_output(app.exit(e));  // --help, --version
    return usage_error(app, argc, argv, e);
  }
  try {
    return after_output(dispatch(app, argc, argv, arguments));
  } catch (const base::Error& e) {
    return report(e);
  } catch (const std::exception& e) {
    const bool lost = std::ferror(stdout) != 0;  // output that could not be written is the machine's fault
    return report(base::Error(lost ? base::ExitCode::environment : base::ExitCode::failed, e.what()));
  }
}

}  // namespace shard8::app
