// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <unistd.h>

#include <Kokkos_Core.hpp>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "app/commands.hpp"
#include "app/process_memory.hpp"
#include "app/run_report.hpp"
#include "app/threads.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "comm/agree.hpp"
#include "comm/environment.hpp"
#include "data/entropy.hpp"
#include "deck/choices.hpp"
#include "deck/layout.hpp"
#include "profile/metrics.hpp"
#include "profile/progress.hpp"
#include "profile/timing_file.hpp"
#include "train/flops.hpp"
#include "train/loop.hpp"
#include "train/plan.hpp"
#include "train/verify.hpp"

namespace shard8::app {

namespace {

namespace fs = std::filesystem;

/// Rank 0 reads the deck, every rank checks it.
deck::LoadResult load_everywhere(const comm::Communicator& world, const DeckArguments& arguments) {
  std::string text;
  comm::agree_on_root(world, 0, [&] { text = deck::read_deck_file(arguments.path); });
  world.broadcast(text, 0);
  deck::LoadResult deck;
  comm::agree(world, [&] { deck = deck::load_text(text, arguments.path, arguments.overrides); });
  return deck;
}

void check_ranks(const comm::Communicator& world, const deck::MeshConfig& mesh) {
  if (world.size() == mesh.ranks()) return;
  throw comm::AgreedError(
      base::ExitCode::environment,
      fmt::format("the deck's mesh has {} ranks (replicate {} × shard {} × tensor {}), but {} {} started: run it under "
                  "mpiexec -n {} or srun -n {}, or change the mesh group",
                  mesh.ranks(), mesh.replicate, mesh.shard, mesh.tensor, world.size(),
                  world.size() == 1 ? "was" : "were", mesh.ranks(), mesh.ranks()),
      world.size());
}

/// A stream's length is checked when it is opened; a fixed sequence of slabs must last for the run.
void check_data(const data::Dataset& dataset, const deck::Config& config) {
  const auto available = dataset.steps_available();
  if (available && *available < config.run.steps)
    base::fail(base::ExitCode::deck, "run.steps = {}, but {} has only {} steps: lower run.steps", config.run.steps,
               dataset.description(), *available);
}

/// Read by one rank; whole files of tokens only when the deck asks for the ratio.
std::optional<double> unigram_entropy(const comm::Communicator& world, const data::Dataset& dataset,
                                      const deck::Config& config) {
  if (config.data.kind == deck::DataKind::tokens && config.verify.unigram_ratio_max <= 0) return std::nullopt;
  std::array<double, 1> entropy{0};
  comm::agree_on_root(world, 0, [&] { entropy[0] = data::unigram_entropy(dataset); });
  world.all_reduce(entropy, comm::Communicator::Reduce::sum);
  return entropy[0];
}

/// All ranks see the same environment, so its fault is everybody's.
int agreed_threads(const comm::Environment& environment, const comm::Node& node) {
  try {
    return choose_threads(node);
  } catch (const base::Error& e) {
    throw comm::AgreedError(e.code(), e.what(), environment.size());
  }
}

/// Whether rank 0's output ends on a terminal: a launcher puts a pipe in between, so scripts/run says it.
bool on_terminal() {
  const char* const said = std::getenv("SHARD8_TERMINAL");
  return isatty(STDOUT_FILENO) == 1 || (said != nullptr && std::string_view(said) == "1");
}

/// One rank's run, from the deck to the report.
class Run {
 public:
  Run(const comm::Node& node, const deck::LoadResult& deck, comm::Communicator world, profile::CollectiveLog& log,
      int threads)
      : deck_(deck),
        node_(node),
        log_(log),
        baseline_(process_memory().resident),
        logger_(world.rank(), world.size()),
        mesh_(comm::make_mesh(std::move(world), train::mesh_shape(deck.config.mesh))),
        setup_(train::Setup::make(deck.config, mesh_.place, threads)) {}

  int operator()() {
    open();
    print_header();
    const auto results = train();
    return report(results);
  }

 private:
  const deck::Config& config() const { return deck_.config; }

  void open() {
    comm::agree(mesh_.world, [&] {
      if (!config().verify.gold.empty()) gold_ = train::read_gold(config().verify.gold);
      loader_ = std::make_unique<data::Loader>(setup_.data(), config().model.seq, config().model.vocab,
                                               mesh_.shape.data_ranks(), mesh_.data_rank(), io_);
      check_data(loader_->dataset(), config());
    });
    entropy_ = unigram_entropy(mesh_.world, loader_->dataset(), config());
    comm::agree(mesh_.world, [&] {
      std::unique_ptr<io::TensorFile> weights;
      if (!config().model.init_file.empty()) weights = io::open_tensor_file(io_, config().model.init_file);
      trainer_ = std::make_unique<train::Trainer>(exec_, setup_, mesh_, *loader_, timer_);
      trainer_->initialise(weights.get());
    });
    // Last: what an earlier run left is replaced only by a run that starts.
    comm::agree_on_root(mesh_.world, 0, [&] {
      metrics_ = std::make_unique<profile::MetricsFile>(output(config().output.metrics));
      std::error_code ignored;  // what cannot be removed cannot be written either, which is said then
      for (const auto& name : {config().output.timing, config().output.summary}) fs::remove(output(name), ignored);
    });
  }

  fs::path output(const std::string& name) const { return fs::path(config().output.dir) / name; }

  void print_header() const {
    const base::Version v = base::version();
    logger_.info("shard8 {} ({}, {})", v.number, v.git_hash, v.build_type);
    std::string description = deck::describe(config());
    description.pop_back();  // its last end of line
    logger_.info("{}", description);
    logger_.info("ranks      {} on {}, {} threads each, waiting by {}", mesh_.world.size(), node_.host, setup_.threads,
                 comm::name_of(mesh_.world.waiting()));
    logger_.info("found      {}", loader_->dataset().description());
    if (entropy_) logger_.info("unigram entropy of the data: {:.6f} nats", *entropy_);
  }

  std::vector<train::StepResult> train() {
    std::optional<profile::Progress> progress;
    if (mesh_.world.rank() == 0) progress.emplace(stdout, on_terminal(), 0, config().run.steps, config().run.log_every);
    train::LoopHooks hooks;
    hooks.before = [&](std::int64_t s) { log_.set_measuring(s >= config().run.timing_skip); };
    hooks.after = [&](const train::StepResult& r) {
      if (!progress) return;
      const profile::StepMetrics metrics{r.step,
                                         r.loss,
                                         r.gradient_norm,
                                         r.learning_rate,
                                         r.tokens,
                                         r.seconds,
                                         static_cast<double>(r.tokens) / r.seconds};
      metrics_->write(metrics);
      progress->step(metrics);
    };
    return train::train(*trainer_, config().run, hooks);
  }

  MemoryFigures memory_figures() const {
    MemoryFigures memory;
    memory.arenas = trainer_->state().arenas.bytes();
    const auto plan = train::make_plan(config(), setup_.threads);
    memory.planned = plan.total_bytes();
    std::array<std::uint64_t, 1> growth{process_memory().peak - baseline_};
    mesh_.world.all_reduce(growth, comm::Communicator::Reduce::max);
    memory.measured = growth[0];
    return memory;
  }

  int report(const std::vector<train::StepResult>& results) {
    profile::ReportInput input;
    input.timing_skip = config().run.timing_skip;
    input.tokens_per_step = static_cast<double>(loader_->tokens_per_step());
    input.flops_per_step = train::model_flops_per_token(config().model) * input.tokens_per_step;
    input.host = node_.host;
    input.casts = trainer_->state().scaling.figures(exec_);
    if (setup_.weights.recipe.emulated()) input.emulated = deck::to_string(config().fp8.recipe);
    input.verification = train::verify(config().verify, results, entropy_, gold_);
    const auto report = profile::make_report(timer_.steps(), log_, input, gather_over(mesh_.world));
    const MemoryFigures memory = memory_figures();
    if (entropy_)
      logger_.info("\nfinal loss {:.6f}, {:.4f} of the data's unigram entropy {:.6f}", results.back().loss,
                   results.back().loss / *entropy_, *entropy_);
    logger_.info("\n{}{}", to_text(memory), profile::to_text(report));
    comm::agree_on_root(mesh_.world, 0, [&] {
      metrics_->close();
      profile::write_timing(output(config().output.timing), report);
      profile::write_summary(output(config().output.summary), report, summary_input(deck_.echo, memory));
    });
    const bool failed = input.verification.status == profile::Verification::Status::failed;
    return static_cast<int>(failed ? base::ExitCode::verification : base::ExitCode::ok);
  }

  const deck::LoadResult& deck_;
  const comm::Node& node_;
  profile::CollectiveLog& log_;
  std::uint64_t baseline_;
  base::Logger logger_;
  comm::Mesh mesh_;
  train::Setup setup_;
  profile::StepTimer timer_;
  io::IoThread io_;
  tensor::Exec exec_;
  std::vector<double> gold_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<profile::MetricsFile> metrics_;
  std::optional<double> entropy_;
  std::unique_ptr<train::Trainer> trainer_;
};

}  // namespace

int run_command(int argc, char** argv, const DeckArguments& arguments) {
  comm::Environment environment(argc, argv, MPI_COMM_WORLD);
  return comm::run_guarded(environment, [&] {
    const comm::Node node = comm::survey_node(environment.world());
    const int threads = agreed_threads(environment, node);
    profile::CollectiveLog log;
    // A rank that spins takes a core from threads of others.
    const comm::Waiting waiting = comm::choose_waiting(node.ranks * threads, node.cores);
    comm::Communicator world(environment.world(), "world", waiting, &log);
    const deck::LoadResult deck = load_everywhere(world, arguments);
    check_ranks(world, deck.config.mesh);
    const KokkosScope kokkos(threads);
    // A Kokkos without threads has one whatever it is given.
    return Run(node, deck, std::move(world), log, tensor::Exec().concurrency())();
  });
}

}  // namespace shard8::app
