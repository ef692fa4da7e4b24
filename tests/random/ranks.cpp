// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/random/trial.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "checkpoint/directory.hpp"
#include "deck/layout.hpp"
#include "profile/trace_recorder.hpp"
#include "tensor/transfer.hpp"
#include "tests/random/random_deck.hpp"
#include "tests/support/execution.hpp"
#include "tests/train/checkpointed.hpp"
#include "tests/train/training.hpp"
#include "train/stopping.hpp"

namespace shard8::test {

namespace {

/// An estimate of the seconds of a job, to spread jobs evenly over ranks: 10 GFLOP/s, and 10 ms for each rank. Chosen.
double cost_of(const deck::Config& c) {
  const auto& m = c.model;
  const double layer = static_cast<double>(m.hidden) * static_cast<double>(4 * m.hidden + 3 * m.ffn);
  const double parameters =
      static_cast<double>(m.layers) * layer + static_cast<double>(m.vocab) * static_cast<double>(m.hidden);
  const double tokens = static_cast<double>(c.data.batch * m.seq * c.run.steps);
  return 6e-10 * tokens * parameters + 0.01 * static_cast<double>(c.mesh.ranks());
}

/// The ranks of each job, and the order in which every rank runs its jobs. Jobs that go on from the checkpoint of
/// another one come last, jobs with more ranks first; each starts as soon as enough ranks are free.
struct Assignment {
  std::vector<std::size_t> order;
  std::vector<std::vector<int>> members;  ///< by job, ascending
};

Assignment assign(std::span<const Job> jobs, int size) {
  Assignment a;
  a.order.resize(jobs.size());
  a.members.resize(jobs.size());
  std::iota(a.order.begin(), a.order.end(), std::size_t{0});
  const auto key = [&](std::size_t j) {
    return std::tuple(-jobs[j].part, jobs[j].config.mesh.ranks(), cost_of(jobs[j].config));
  };
  std::stable_sort(a.order.begin(), a.order.end(), [&](std::size_t x, std::size_t y) { return key(x) > key(y); });
  std::vector<double> free_at(static_cast<std::size_t>(size), 0.0);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto time = [&](int rank) -> double& { return free_at[static_cast<std::size_t>(rank)]; };
  for (const std::size_t j : a.order) {
    const std::int64_t needed = jobs[j].config.mesh.ranks();
    SHARD8_REQUIRE(needed <= size, "{} needs {} ranks, {} were started", jobs[j].name, needed, size);
    std::stable_sort(ranks.begin(), ranks.end(), [&](int x, int y) { return time(x) < time(y); });
    auto& members = a.members[j];
    members.assign(ranks.begin(), ranks.begin() + needed);
    const double end = time(members.back()) + cost_of(jobs[j].config);
    for (const int rank : members) time(rank) = end;
    std::sort(members.begin(), members.end());
  }
  return a;
}

/// A hash of this rank's bytes. The sum of the hashes over the ranks is a hash of all bytes.
std::uint64_t hash_of(std::uint64_t start, const tensor::Tensor& t) {
  std::uint64_t hash = base::mix64(start ^ t.bytes());
  for (std::size_t i = 0; i < t.bytes(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, t.data + i, std::min<std::size_t>(8, t.bytes() - i));
    hash = base::mix64(hash ^ word);
  }
  return hash;
}

std::uint64_t hash_of_weights(Training& training) {
  const auto& units = training.trainer().state().units;
  std::uint64_t hash = base::mix64(static_cast<std::uint64_t>(training.mesh().world.rank()));
  for (int u = 0; u < static_cast<int>(units.units().size()); ++u) {
    for (const auto& weight : units.weights(u)) hash = hash_of(hash, weight.master);
    for (const auto& weight : units.weights(u)) hash = hash_of(hash, weight.remainder);
  }
  training.mesh().world.all_reduce({&hash, 1}, comm::Communicator::Reduce::sum);
  return hash;
}

void put(std::string& out, const void* data, std::size_t bytes) { out.append(static_cast<const char*>(data), bytes); }
template <class T>
void put(std::string& out, const T& values) {
  const std::uint64_t count = values.size();
  put(out, &count, sizeof(count));
  put(out, values.data(), count * sizeof(values[0]));
}
void take(std::string_view& in, void* data, std::size_t bytes) {
  SHARD8_REQUIRE(in.size() >= bytes, "an outcome of {} bytes was cut off", in.size());
  std::memcpy(data, in.data(), bytes);
  in.remove_prefix(bytes);
}
template <class T>
void take(std::string_view& in, T& values) {
  std::uint64_t count = 0;
  take(in, &count, sizeof(count));
  values.resize(count);
  take(in, values.data(), count * sizeof(values[0]));
}

/// Traces a training, if its deck says so, as long as it lives.
class Traced {
 public:
  Traced(Training& training, std::int64_t first) : training_(training) {
    const deck::OutputConfig& output = training.setup().config.output;
    if (output.trace.empty()) return;
    std::string problem;
    std::vector<profile::StepRange> ranges;
    const std::vector<deck::StepRange> named = deck::parse_trace_steps(output.trace_steps, problem).value();
    for (const auto& range : named) ranges.push_back({range.first, range.last});
    recorder_.emplace(std::move(ranges), first);
    set(&*recorder_);
  }
  ~Traced() { set(nullptr); }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

 private:
  void set(profile::TraceRecorder* recorder) const {
    training_.timer().set_trace(recorder);
    training_.log().set_trace(recorder);
  }
  Training& training_;
  std::optional<profile::TraceRecorder> recorder_;
};

/// Takes down the collectives that the training's log has counted, on every rank. Collective.
void count(Training& training, Outcome& outcome) {
  training.log().set_measuring(false);
  const comm::Communicator& world = training.mesh().world;
  CallsByKind counted;
  for (const auto& [kind, stats] : training.log().entries()) counted[kind] = {stats.calls, stats.bytes};
  const auto all = [&](const std::string& own) {
    std::string text;
    for (const std::string& part : world.all_gather(std::string_view(own))) text += part;
    return text;
  };
  const std::string own = text_of(world.rank(), counted);
  outcome.collectives = all(own);
  const deck::Config& config = training.setup().config;
  if (config.run.skeleton == deck::Skeleton::none) return;
  const std::string planned =
      text_of(world.rank(), planned_calls(training.setup(), static_cast<std::uint64_t>(config.run.steps - 1)));
  outcome.unplanned = all(own == planned ? "" : fmt::format("counted:\n{}planned:\n{}", own, planned));
}

/// Trains steps `first` to `end` - 1, or until run.stop_after stops the training, as the program does.
/// Adds the steps to `outcome`.
train::LoopResult train_from(Training& training, std::int64_t first, std::int64_t end, train::Checkpoints* checkpoints,
                             Outcome& outcome) {
  const deck::RunConfig& run = training.setup().config.run;
  train::Stopping stopping(run, {{}, [] { return train::ClockTimes{}; }});
  const Traced traced(training, first);
  std::uint64_t stop_request = 0;
  training.trainer().stop_requests_from([&] { return train::code_of(stopping.end_step()); });
  train::LoopHooks hooks;
  hooks.before = [&](std::int64_t step) { training.log().set_measuring(step != first); };
  double loss = 0;
  hooks.validate = [&](const train::StepResult& step) -> std::optional<train::Validation> {
    if (!training.trainer().validates_after(step.step)) return std::nullopt;
    const bool measuring = training.log().measuring();
    profile::TraceRecorder* const trace = training.log().trace();
    training.log().set_measuring(false);
    training.log().set_trace(nullptr);
    train::Validation validation = training.trainer().validate({});
    training.log().set_trace(trace);
    training.log().set_measuring(measuring);
    if (!validation.loss) base::fail(base::ExitCode::failed, "the validation behind step {} has no loss", step.step);
    return validation;
  };
  std::vector<train::StepResult> results;
  hooks.after = [&](const train::StepResult& result) {
    results.push_back(result);
    const auto norms = training.trainer().unit_norms();
    outcome.unit_norms.insert(outcome.unit_norms.end(), norms.begin(), norms.end());
    const auto of_weights = training.trainer().weight_norms();
    outcome.weight_norms.insert(outcome.weight_norms.end(), of_weights.begin(), of_weights.end());
    stop_request = result.stop_request;
    loss = result.loss;
  };
  hooks.stops_before = [&](std::int64_t) { return stop_request != 0; };
  if (checkpoints != nullptr) {
    hooks.between = [&](std::int64_t done) { checkpoints->between_steps(done, loss); };
    hooks.save = [&](std::int64_t done) { return checkpoints->write_now(done, loss); };
  }
  train::LoopResult loop = train::train(training.trainer(), {.first = first, .end = end}, hooks);
  if (checkpoints != nullptr) checkpoints->finish();
  training.trainer().stop_requests_from({});
  outcome.add(results);
  return loop;
}

Thresholds thresholds_of(const Job& job) {
  Thresholds t{.messages = {}, .head_tokens = job.head_tokens, .threads = job.limits.threads, .pushes = {}};
  if (job.limits.direct_ranks > 0) t.messages.direct_ranks = job.limits.direct_ranks;
  if (job.limits.message_bytes > 0) t.messages.message_bytes = static_cast<std::size_t>(job.limits.message_bytes);
  return t;
}

/// A job that writes checkpoints to checkpoint.dir, and goes on from the last one that is there.
Outcome train_with_checkpoints(const Job& job, const deck::Config& config, MPI_Comm comm) {
  Outcome outcome;
  CheckpointedTraining run(config, comm, thresholds_of(job));
  outcome.first = run.first;
  if (run.first != job.first)
    base::fail(base::ExitCode::failed, "goes on from step {} instead of {}\n{}", run.first, job.first, run.said);
  const train::LoopResult loop = train_from(run.training, run.first, config.run.steps, &*run.checkpoints, outcome);
  if (loop.why == train::Stop::requested && !loop.saved)
    base::fail(base::ExitCode::failed, "stopped without a checkpoint\n{}", run.said);
  outcome.weights = hash_of_weights(run.training);
  if (run.said.find("no checkpoint was written") != std::string::npos) outcome.error = run.said;
  return outcome;
}

Outcome train_without(const Job& job, const deck::Config& config, MPI_Comm comm) {
  Outcome outcome;
  const auto made = [&](const deck::Config& c) { return std::make_unique<Training>(c, comm, thresholds_of(job)); };
  auto training = made(config);
  if (job.change_at > 0) {
    train_from(*training, 0, job.change_at, nullptr, outcome);
    auto next = made(job.changed);
    hand_over(*training, *next, job.change_at);
    training = std::move(next);
  }
  train_from(*training, job.change_at, config.run.steps, nullptr, outcome);
  if (job.counts) count(*training, outcome);
  if (config.run.skeleton != deck::Skeleton::none) return outcome;
  outcome.weights = hash_of_weights(*training);
  return outcome;
}

/// What an action throws; "" if nothing.
template <class Action>
std::string problem_of(Action&& action) {
  try {
    action();
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

char crash_text[512];  // names the job that runs; printed by the handler of a signal
std::size_t crash_length = 0;

extern "C" void name_job_and_die(int signal) {
  static_cast<void>(!write(2, crash_text, crash_length));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

Watch::Watch(int rank, std::chrono::seconds limit) : rank_(rank), limit_(limit), thread_([this] { watch(); }) {
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL}) std::signal(signal, name_job_and_die);
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watch::begin(const std::string& job) {
  const std::string text = fmt::format("[rank {}] crashed in {}\n", rank_, job.substr(0, job.find('\n')));
  crash_length = std::min(text.size(), sizeof(crash_text));
  std::memcpy(crash_text, text.data(), crash_length);
  {
    const std::lock_guard lock(mutex_);
    job_ = job;
    ++number_;
  }
  changed_.notify_one();
}

void Watch::end() {
  crash_length = 0;
  {
    const std::lock_guard lock(mutex_);
    job_.clear();
  }
  changed_.notify_one();
}

void Watch::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait(lock, [this] { return stop_ || !job_.empty(); });
    const std::uint64_t number = number_;
    const auto is_over = [&] { return stop_ || job_.empty() || number_ != number; };
    // Counts the seconds in which this process ran: a pause of the whole machine or job does not count.
    std::int64_t seconds = 0;
    while (seconds < limit_.count() && !changed_.wait_for(lock, std::chrono::seconds(1), is_over)) ++seconds;
    if (is_over()) continue;
    std::fprintf(stderr, "[rank %d] not at the end after %d s: %s\n", rank_, static_cast<int>(limit_.count()),
                 job_.c_str());
    std::fflush(stderr);
    std::_Exit(1);  // the launcher ends the other ranks
  }
}

void Outcome::add(const std::vector<train::StepResult>& steps) {
  for (const train::StepResult& step : steps) {
    losses.push_back(step.loss);
    norms.push_back(step.gradient_norm);
  }
}

Ranks::Ranks(MPI_Comm comm, std::chrono::seconds limit, const std::filesystem::path& folder)
    : control_(comm, "control", comm::Waiting::yield, nullptr), watch_(control_.rank(), limit) {
  MPI_Comm_dup(comm, &comm_);
  std::string process = std::to_string(::getpid());
  control_.broadcast(process, 0);
  checkpoints_ = folder / ("checkpoints_" + process);
}

Ranks::~Ranks() {
  MPI_Comm_free(&comm_);
  std::error_code ignored;
  if (rank() == 0) std::filesystem::remove_all(checkpoints_, ignored);
}

/// A communicator of the members. MPI polls without pause while it creates one, so the members first wait for each
/// other and yield meanwhile.
MPI_Comm Ranks::meet(std::size_t number, const std::vector<int>& members) const {
  const int tag = static_cast<int>(number), leader = members.front();
  const auto wait = [](std::vector<MPI_Request>& requests) {
    comm::Pause pause(comm::Waiting::yield);
    for (int done = 0;;) {
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
      if (done != 0) return;
      pause();
    }
  };
  std::vector<MPI_Request> requests;
  if (rank() == leader) {
    for (const int member : members)
      if (member != leader) MPI_Irecv(nullptr, 0, MPI_BYTE, member, tag, comm_, &requests.emplace_back());
    wait(requests);
    requests.clear();
    for (const int member : members)
      if (member != leader) MPI_Isend(nullptr, 0, MPI_BYTE, member, tag, comm_, &requests.emplace_back());
  } else {
    MPI_Isend(nullptr, 0, MPI_BYTE, leader, tag, comm_, &requests.emplace_back());
    MPI_Irecv(nullptr, 0, MPI_BYTE, leader, tag, comm_, &requests.emplace_back());
  }
  wait(requests);
  MPI_Group all = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  MPI_Comm_group(comm_, &all);
  MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &group);
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_create_group(comm_, group, tag, &made);
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  return made;
}

Outcome Ranks::train_on(const Job& job, std::size_t number, const std::vector<int>& members) {
  MPI_Comm comm = meet(number, members);
  Outcome outcome;
  watch_.begin(job.name);
  try {
    deck::Config config = placed(job);
    if (job.weights != WeightFile::none) {
      const std::string folder = checkpoints_ / ("weights_" + std::to_string(number));
      std::string problem;
      if (rank() == members.front()) problem = problem_of([&] { write_weights(job.weights, folder, job.config); });
      int failed = problem.empty() ? 0 : 1;
      MPI_Bcast(&failed, 1, MPI_INT, 0, comm);
      if (failed != 0) base::fail(base::ExitCode::failed, "weights were not written: {}", problem);
      config.model.init_file = weight_path(job.weights, folder);
    }
    outcome = job.checkpoints.empty() ? train_without(job, config, comm) : train_with_checkpoints(job, config, comm);
  } catch (const std::exception& error) {
    outcome.error = error.what();
    std::fprintf(stderr, "[rank %d] %s: %s\n", rank(), job.name.substr(0, job.name.find('\n')).c_str(), error.what());
    std::fflush(stderr);
  }
  watch_.end();
  MPI_Comm_free(&comm);
  return outcome;
}

std::vector<Outcome> Ranks::train(std::span<const Job> jobs) {
  const Assignment assignment = assign(jobs, size());
  std::string mine;  // outcomes of the jobs in which this rank is the first member
  for (const std::size_t j : assignment.order) {
    const auto& members = assignment.members[j];
    if (std::find(members.begin(), members.end(), rank()) == members.end()) continue;
    const bool leads = rank() == members.front();
    if (leads && jobs[j].part > 0) wait_for_part_before(jobs[j]);
    const Outcome outcome = train_on(jobs[j], j, members);
    if (!leads) continue;
    if (!jobs[j].checkpoints.empty()) std::ofstream(end_mark(jobs[j], jobs[j].part)).put('\n');
    put(mine, &j, sizeof(j));
    put(mine, &outcome.first, sizeof(outcome.first));
    put(mine, outcome.losses);
    put(mine, outcome.norms);
    put(mine, outcome.unit_norms);
    put(mine, outcome.weight_norms);
    put(mine, &outcome.weights, sizeof(outcome.weights));
    put(mine, outcome.error);
    put(mine, outcome.collectives);
    put(mine, outcome.unplanned);
  }
  std::vector<Outcome> outcomes(jobs.size());
  for (const std::string& text : control_.all_gather(std::string_view(mine))) {
    std::string_view in = text;
    while (!in.empty()) {
      std::size_t j = 0;
      take(in, &j, sizeof(j));
      Outcome& outcome = outcomes.at(j);
      take(in, &outcome.first, sizeof(outcome.first));
      take(in, outcome.losses);
      take(in, outcome.norms);
      take(in, outcome.unit_norms);
      take(in, outcome.weight_norms);
      take(in, &outcome.weights, sizeof(outcome.weights));
      take(in, outcome.error);
      take(in, outcome.collectives);
      take(in, outcome.unplanned);
    }
  }
  std::error_code ignored;
  if (rank() == 0) std::filesystem::remove_all(checkpoints_, ignored);
  control_.barrier();  // before jobs of the next call make the folder
  return outcomes;
}

std::filesystem::path Ranks::end_mark(const Job& job, int part) const {
  std::filesystem::create_directories(checkpoints_);
  return checkpoints_ / fmt::format("{}_part_{}.ended", job.checkpoints, part);
}

/// The part before this one is before it in the list of every rank, so it ends.
void Ranks::wait_for_part_before(const Job& job) const {
  const std::filesystem::path mark = end_mark(job, job.part - 1);
  while (!std::filesystem::exists(mark)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// The config of a job, with the folders of its checkpoints.
deck::Config Ranks::placed(const Job& job) const {
  deck::Config config = job.config;
  if (job.checkpoints.empty()) return config;
  const auto folder = [&](int number) { return checkpoints_ / fmt::format("{}_{}", job.checkpoints, number); };
  config.checkpoint.dir = folder(job.folder);
  if (job.from) config.checkpoint.restart = folder(*job.from) / checkpoint::step_name(job.first);
  return config;
}

int run_on_ranks(const char* name, MPI_Comm comm, std::chrono::seconds limit, const std::filesystem::path& folder,
                 const std::function<bool(Ranks& ranks)>& work) {
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    std::fprintf(stderr, "%s: set OMP_NUM_THREADS\n", name);
    return 2;
  }
  const tests::Execution execution(0);
  bool good = false;
  try {
    Ranks ranks(comm, limit, std::filesystem::absolute(folder));
    good = work(ranks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return good ? 0 : 1;
}

}  // namespace shard8::test
