// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "app/commands.hpp"
#include "app/device.hpp"
#include "app/job.hpp"
#include "app/run_report.hpp"
#include "base/log.hpp"
#include "base/plain_file.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "comm/agree.hpp"
#include "comm/device.hpp"
#include "comm/node.hpp"
#include "deck/overlap.hpp"
#include "machine/machine.hpp"
#include "profile/output_file.hpp"
#include "profile/processor.hpp"
#include "profile/report.hpp"
#include "train/algorithms.hpp"
#include "train/overlap/choice.hpp"
#include "train/plan/plan.hpp"

#if defined(SHARD8_CUDA)
#include "tensor/cuda/device.hpp"
#endif

namespace shard8::app {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using machine::Machine;
using machine::Source;

constexpr const char* kOutRemedy = "give --out a file in";

/// Chosen: collectives over all sizes take about a minute on eight GPUs.
constexpr double kShareOfCollectives = 0.3;
/// Chosen: a device reaches its power limit, and then lowers its clocks, within seconds.
constexpr double kWarmupOnDevice_s = 10, kWarmupOnHosts_s = 1;
/// Bytes of the largest kernel of memory alone.
constexpr std::uint64_t kLeastMemory = std::uint64_t{1} << 20, kMostMemoryOnHosts = std::uint64_t{256} << 20,
                        kMostMemoryOnDevice = std::uint64_t{16} << 30;
/// Bytes of the largest collective.
constexpr std::uint64_t kMostBytesOnDevice = std::uint64_t{1} << 30, kMostBytesOnHosts = std::uint64_t{64} << 20;

double seconds_until(Clock::time_point end) { return std::chrono::duration<double>(end - Clock::now()).count(); }

/// A name for files: "Intel(R) Xeon(R)" becomes "intel-r-xeon-r".
std::string plain_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (word)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name;
}

/// Ports of this node's network that MPI and NCCL may use: InfiniBand devices, or 1 where there are none.
int network_ports() {
  std::error_code none;
  int ports = 0;
  const fs::path all = "/sys/class/infiniband";
  for (const std::string& device : base::names_in(all, none))
    ports += base::kind_of_file(all / device / "ports").is_there() ? 1 : 0;
  return std::max(ports, 1);
}

/// "shard8 calibrate a.yaml --out m.yaml; 2 x NVIDIA H100 80GB HBM3; shard8 0.2.0 (hash); 2026-11-26".
std::string source_text(const Job& job, const CalibrateArguments& arguments) {
  std::string command = "shard8 calibrate";
  for (const std::string& deck : arguments.decks) command += ' ' + deck;
  for (const std::string& change : arguments.overrides) command += ' ' + change;
  const base::Version version = base::version();
  return fmt::format("{}; {}, {}; shard8 {} ({}); {}", command, machine_of(job),
                     base::count(job.world.size(), "rank", "ranks"), version.number, version.git_hash,
                     utc_now().substr(0, 10));
}

void add_device(Machine& m, const Job& job, int source) {
  m.device = tensor::kDevice;
  m.device_name = train::machine_name();
  if (!m.device) {
    m.node_devices = {static_cast<double>(job.node.ranks), source, 0};
    m.node_cores = {static_cast<double>(job.node.cores), source, 0};
    const MemoryLimits limits = read_memory_limits();
    std::uint64_t memory = limits.total;
    if (limits.group) memory = memory == 0 ? limits.group->limit : std::min(memory, limits.group->limit);
    if (memory > 0) m.memory = {static_cast<double>(memory / static_cast<std::uint64_t>(job.node.ranks)), source, 0};
    return;
  }
#if defined(SHARD8_CUDA)
  const tensor::cuda::Device device = tensor::cuda::describe_device(tensor::cuda::current_device());
  m.node_devices = {static_cast<double>(std::max(tensor::cuda::device_count(), job.node.ranks)), source, 0};
  m.node_cores = {static_cast<double>(job.node.cores), source, 0};
  m.memory = {static_cast<double>(device.memory), source, 0};
  if (device.memory_bandwidth > 0) m.bandwidth = {device.memory_bandwidth, source, 0};
  std::optional<int> datasheet;
  const auto peak = [&](machine::Figure& figure, profile::Products products) {
    const double flops = profile::peak_flops(device.name, products);
    if (flops <= 0) return;
    if (!datasheet)
      datasheet = m.add_source(Source::Kind::datasheet, "peaks",
                               fmt::format("NVIDIA's data sheet of {}, dense products", device.name));
    figure = {flops, *datasheet, 0};
  };
  peak(m.peak_fp32, profile::Products::fp32);
  peak(m.peak_bf16, profile::Products::bf16);
  peak(m.peak_fp8, profile::Products::fp8);
#endif
}

/// Whether ranks of this node write to each other's memory, so that copy engines move what collectives move.
bool moved_by_copies(const comm::Communicator& world) {
  if (world.device() == nullptr || world.size() == 1) return false;
  const comm::Placement placement = world.placement();
  const int node = placement.node_of[static_cast<std::size_t>(world.rank())];
  const comm::Communicator group = world.split(node, world.rank(), "node", {.gather = true, .reduce = true});
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  std::string moves = group.size() == 1 ? "" : group.parts_transport(kBytes, kBytes);
  world.broadcast(moves, 0);
  return moves == "memory of peers";
}

/// Warns, on rank 0, if the machine was busy while decks were timed. Collective.
bool warn_of_busy(const comm::Communicator& world, const comm::Node& node, const profile::MeasuredUse& use) {
  const profile::Gather gather = gather_over(world);
  const profile::ProcessorFigures figures = profile::processor_over_ranks(use, gather);
  const std::vector<std::string> hosts = gather.texts(node.host);
  if (!figures.busy()) return false;
  warn("calibrate: " + profile::busy_text(figures, hosts));
  return true;
}

/// Times collectives of a group, and on devices what the host takes to issue one.
class CollectiveTimer {
 public:
  explicit CollectiveTimer(const tensor::Exec& exec) : exec_(exec) {}

  std::vector<bench::CollectiveFigures> operator()(const comm::Communicator& group, std::uint64_t bytes,
                                                   int repetitions) {
#if defined(SHARD8_CUDA)
    std::vector<bench::BenchCase> cases;
    for (const auto& [op, dtype] : kTimedCollectives) cases.push_back({op, dtype, {bytes}});
    const auto rows = bench::bench_collectives(group, tensor::cuda::stream_of(exec_), cases,
                                               {.warmup = 3, .repetitions = repetitions});
    for (const bench::BenchRow& row : rows) issue_us_.push_back(row.host_us);
    return figures_of(group, rows);
#else
    return bench::bench_host_collectives(
        group, {.least = bytes, .most = bytes, .factor = 2, .warmup = 2, .repetitions = repetitions, .check = false});
#endif
  }
  /// Microseconds; 0 if none was timed on a device.
  double issue_us() const { return profile::percentile(issue_us_, 50); }

 private:
  [[maybe_unused]] const tensor::Exec& exec_;
  std::vector<double> issue_us_;
};

/// Calibrates on the ranks of a job.
class Calibration {
 public:
  Calibration(Job& job, const CalibrateArguments& arguments)
      : job_(job),
        arguments_(arguments),
        world_(job.world.same()),
        logger_(world_.rank(), world_.size()),
        end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(60 * arguments.minutes))) {}

  int run() {
    read_files();
    load_decks();
    profile::MeasuredUse use{
        .threads = job_.runtime.threads(), .on_cpus = !tensor::kDevice, .begin = profile::processor_use()};
    for (std::size_t d = 0; d < decks_.size(); ++d) time_deck(d);
    use.end = profile::processor_use();
    busy_ = warn_of_busy(world_, job_.node, use);
    const bool copies = moved_by_copies(world_);
    CollectiveTimer timer(job_.runtime.exec());
    std::vector<machine::CollectiveTime> collectives;
    if (world_.size() > 1) {
      collectives = bench::time_collectives(world_, std::ref(timer),
                                            tensor::kDevice ? kMostBytesOnDevice : kMostBytesOnHosts, end_);
      logger_.info("{} of collectives alone",
                   base::count(static_cast<std::int64_t>(collectives.size()), "time", "times"));
      const int nodes = world_.placement().nodes();
      if (world_.rank() == 0 &&
          std::none_of(collectives.begin(), collectives.end(), [&](const auto& row) { return row.nodes == nodes; }))
        warn(fmt::format("calibrate: no time was left for collectives of {}: give more --minutes",
                         base::count(nodes, "node", "nodes")));
    }
    std::vector<machine::KernelTime> memory;  // all ranks, since they share a node's memory
    comm::agree(world_, [&] { memory = bench::time_memory(job_.runtime.exec(), most_of_memory()); });
    comm::agree_on_root(world_, 0, [&] { write(collectives, memory, copies, timer.issue_us()); });
    return 0;
  }

 private:
  /// Everything that can be wrong before anything is timed.
  void read_files() {
    comm::agree_on_root(world_, 0, [&] {
      profile::require_writable(arguments_.out, kOutRemedy);
      std::vector<profile::NamedFile> read;
      for (const std::string& deck : arguments_.decks) read.push_back({"the deck", deck});
      if (!arguments_.base.empty()) read_base();
      for (const std::string& file : arguments_.imports) {
        imports_.push_back(bench::read_import(file));
        for (const std::string& remark : imports_.back().remarks) warn("calibrate: " + remark);
        read.push_back({"--import", imports_.back().file});
      }
      profile::require_distinct("shard8 calibrate", {{"--out", arguments_.out}}, read);
    });
  }

  void read_base() {
    base_ = machine::read(arguments_.base);
    const auto kind = [](bool device) { return device ? "cuda" : "host"; };
    if (base_->device != tensor::kDevice)
      base::fail(base::ExitCode::deck,
                 "shard8 calibrate: --base {} is of machine.kind {}, but ranks compute on {} here: give a file "
                 "of this kind, or leave --base out",
                 arguments_.base, kind(base_->device), kind(tensor::kDevice));
    if (const std::string here = train::machine_name(); !base_->device_name.empty() && base_->device_name != here)
      warn(fmt::format("calibrate: --base {} is of '{}', this is '{}': what is not measured here is of the other one",
                       arguments_.base, base_->device_name, here));
  }

  void load_decks() {
    decks_.push_back(job_.deck.config);
    for (std::size_t d = 1; d < arguments_.decks.size(); ++d) {
      decks_.push_back(load_deck(world_, {arguments_.decks[d], arguments_.overrides, {}, true, {}}).config);
      require_memory(world_, job_.node, decks_.back(), job_.runtime.threads());
    }
  }

  void time_deck(std::size_t d) {
    const bool on_device = tensor::kDevice;
    const double collectives = world_.size() > 1 ? 60 * arguments_.minutes * kShareOfCollectives : 0;
    const auto left = static_cast<double>(decks_.size() - d);
    const Clock::time_point end =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(
                           std::chrono::duration<double>(std::max(seconds_until(end_) - collectives, 0.0) / left));
    train::Assembly assembly(bench::calibration_deck(decks_[d]), world_.same(), job_.runtime.exec(),
                             job_.runtime.threads(), program_text());
    assembly.open_files();
    const deck::Config& config = assembly.setup().config;
    if (!deck::exchanges_with(config, profile::ExchangeMethod::automatic).empty()) {
      const train::OverlapDecision decision = train::decide_overlap(assembly, "", {});
      assembly.set_overlap(decision.choice.resolve(config.overlap.methods));
    }
    assembly.start();
    const std::string& name = arguments_.decks[d];
    times_.push_back(bench::time_steps(
        assembly, job_.log, name,
        {.warmup_s = on_device ? kWarmupOnDevice_s : kWarmupOnHosts_s, .seconds = std::max(seconds_until(end), 0.0)}));
    if (times_.back().ranks.empty()) return;  // not rank 0
    const bench::RankTimes& mine = times_.back().ranks.front();
    const auto milliseconds = [](const std::vector<double>& s) { return 1e3 * profile::percentile(s, 50); };
    logger_.info("{}: {} after {} of warm-up, {:.3f} ms a step, of it {:.3f} ms in {} of operations, {:.3f} ms besides",
                 name, base::count(static_cast<std::int64_t>(mine.total_s.size()), "traced step", "traced steps"),
                 times_.back().warmup_steps, milliseconds(mine.total_s), milliseconds(mine.computed_s),
                 base::count(static_cast<std::int64_t>(mine.work.size()), "kind", "kinds"),
                 milliseconds(mine.besides_s));
  }

  /// The bytes that the largest kernel of memory alone passes: no more than what the largest deck has taken.
  std::uint64_t most_of_memory() const {
    std::uint64_t largest = 0;
    for (const deck::Config& deck : decks_)
      largest = std::max<std::uint64_t>(largest, train::make_plan(deck, job_.runtime.threads()).total_bytes());
    return std::clamp(largest / 2, kLeastMemory, tensor::kDevice ? kMostMemoryOnDevice : kMostMemoryOnHosts);
  }

  void write(const std::vector<machine::CollectiveTime>& collectives, const std::vector<machine::KernelTime>& memory,
             bool copies, double issue_us) {
    Machine m;
    const int source = m.add_source(Source::Kind::measured, "here",
                                    source_text(job_, arguments_) + (busy_ ? "; the machine was busy" : ""));
    add_device(m, job_, source);
    m.name = arguments_.name.empty() ? plain_name(m.device_name) : arguments_.name;
    m.copies_in_node = copies;
    m.moved_by_given = true;
    std::vector<std::string> remarks = bench::add_work(m, times_, m.device, source);
    const auto more = [&](const std::vector<std::string>& lines) {
      remarks.insert(remarks.end(), lines.begin(), lines.end());
    };
    if (m.device)
      if (const auto remark = bench::short_warmup(times_, kWarmupOnDevice_s, arguments_.minutes))
        remarks.push_back(*remark);
    more(bench::add_collectives(m, collectives, times_, network_ports(), source));
    if (issue_us > 0) m.issue_collective = {1e-6 * issue_us, source, 0};
    for (machine::KernelTime time : memory) {
      time.source = source;
      m.kernels.push_back(time);
    }
    bench::round_times(m);
    for (const bench::ImportedRows& rows : imports_) more(bench::add_imported(m, rows));
    if (base_) {
      if (world_.size() == 1) {
        m.copies_in_node = base_->copies_in_node;
        m.moved_by_given = base_->moved_by_given;
      }
      more(bench::add_base(m, *base_));
    }
    machine::sort_rows(m);
    const std::string text = machine::write(m);
    for (const std::string& remark : remarks) warn("calibrate: " + remark);
    require_readable(text);
    profile::write_output(arguments_.out, text, kOutRemedy);
    logger_.info("{}: {}, {} of attention, {}, {}; {}", arguments_.out,
                 base::count(static_cast<std::int64_t>(m.products.size()), "product", "products"), m.attention.size(),
                 base::count(static_cast<std::int64_t>(m.kernels.size()), "kernel", "kernels"),
                 base::count(static_cast<std::int64_t>(m.collectives.size()), "collective", "collectives"),
                 base::count(static_cast<std::int64_t>(m.sources.size()), "source", "sources"));
  }

  /// Error(deck) for the text of a machine file that no command would read: what was measured may contradict a data
  /// sheet, an import or the base. The text is then in OUT.refused, and OUT is as it was.
  void require_readable(const std::string& text) const {
    const std::string refused = arguments_.out + ".refused";
    try {
      machine::read_text(text, refused);
    } catch (const base::Error& error) {
      profile::write_output(refused, text, kOutRemedy);
      base::fail(error.code(), "{}\n{} is not written: what was measured has these errors, and is in {}", error.what(),
                 arguments_.out, refused);
    }
  }

  Job& job_;
  const CalibrateArguments& arguments_;
  const comm::Communicator world_;
  const base::Logger logger_;
  const Clock::time_point end_;
  std::optional<Machine> base_;               ///< on rank 0
  std::vector<bench::ImportedRows> imports_;  ///< on rank 0
  std::vector<deck::Config> decks_;
  std::vector<bench::DeckTimes> times_;
  bool busy_ = false;  ///< on rank 0
};

}  // namespace

int calibrate_command(int argc, char** argv, const CalibrateArguments& arguments) {
  DeckArguments first{arguments.decks.front(), arguments.overrides, {}, true, {}};
  return run_job(argc, argv, first, [&](Job& job) { return Calibration(job, arguments).run(); });
}

}  // namespace shard8::app
