// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/energy.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "profile/report_files.hpp"
#include "tests/profile/job_of_threads.hpp"
#include "tests/profile/synthetic.hpp"

namespace shard8::profile::tests {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kNoThread{0};

/// A counter that takes `watts`, and whose clock a test sets.
struct Fake final : EnergyCounter {
  Fake(EnergyKind kind_of, std::string name_of) : kind_(kind_of), name_(std::move(name_of)) {}
  EnergyKind kind() const override { return kind_; }
  const std::string& name() const override { return name_; }
  double unit_j() const override { return 1e-3; }
  std::uint64_t range() const override { return range_; }
  EnergyReading read() override {
    ++reads;
    std::this_thread::sleep_for(takes);
    if (lost) return {.error = "it is lost: look at it"};
    return {.at = std::chrono::steady_clock::time_point(milliseconds(std::llround(1e3 * at_s))),
            .counts = counts,
            .limit_w = limit,
            .sm_mhz = mhz,
            .at_limit = at_limit};
  }
  void pass(double s, double watts) {
    at_s += s;
    counts += static_cast<std::uint64_t>(std::llround(1e3 * s * watts));
    if (range_ > 0) counts %= range_;
  }

  EnergyKind kind_;
  std::string name_;
  std::uint64_t range_ = 0, counts = 0;
  double at_s = 0;
  std::optional<double> limit{}, mhz{};
  std::optional<bool> at_limit{};
  bool lost = false;
  int reads = 0;
  milliseconds takes{0};
};

/// A meter of one counter without a thread.
struct OneCounter {
  explicit OneCounter(std::uint64_t range = 0, std::uint64_t counts = 0) {
    auto made = std::make_unique<Fake>(EnergyKind::gpu, "GPU-0");
    fake = made.get();
    fake->range_ = range;
    fake->counts = counts;
    std::vector<std::unique_ptr<EnergyCounter>> counters;
    counters.push_back(std::move(made));
    meter.emplace(std::move(counters), kNoThread);
  }
  Fake* fake;
  std::optional<EnergyMeter> meter;
};

TEST(EnergyMeter, counts_the_measured_steps_and_the_whole_run) {
  OneCounter one;
  one.fake->pass(5, 100);
  one.meter->begin();
  one.fake->limit = 700, one.fake->mhz = 1980, one.fake->at_limit = true;
  one.fake->pass(1, 600);
  one.meter->sample();
  one.fake->limit = 500, one.fake->mhz = 1500, one.fake->at_limit = false;
  one.fake->pass(1, 800);
  one.meter->end();
  one.fake->pass(3, 100);
  const CountedEnergy c = one.meter->counted().at(0);
  EXPECT_DOUBLE_EQ(c.joules, 1400);
  EXPECT_DOUBLE_EQ(c.seconds, 2);
  EXPECT_DOUBLE_EQ(c.run_joules, 500 + 1400 + 300);
  EXPECT_DOUBLE_EQ(c.run_seconds, 10);
  EXPECT_DOUBLE_EQ(c.watts.min, 600);
  EXPECT_DOUBLE_EQ(c.watts.max, 800);
  EXPECT_EQ(c.watts.samples, 2);
  EXPECT_DOUBLE_EQ(c.sm_mhz.mean(), 1740);
  EXPECT_DOUBLE_EQ(c.at_limit.mean(), 0.5);
  EXPECT_DOUBLE_EQ(c.limit_w.value(), 500);
}

TEST(EnergyMeter, counters_wrap_around_more_than_once) {
  OneCounter one(1000000, 999000);  // 1000 J
  one.meter->begin();
  for (int i = 0; i < 30; ++i) {
    one.fake->pass(1, 300);
    one.meter->sample();
  }
  one.meter->end();
  EXPECT_NEAR(one.meter->counted().at(0).joules, 9000, 1e-6);
}

TEST(EnergyMeter, a_counter_without_range_must_not_go_back) {
  OneCounter one(0, 5000);
  one.meter->begin();
  one.fake->counts = 10;
  one.meter->end();
  EXPECT_NE(one.meter->counted().at(0).failed.find("went back from 5000 to 10"), std::string::npos);
}

TEST(EnergyMeter, steps_that_do_not_end_have_no_joules) {
  OneCounter one;
  one.meter->begin();
  one.fake->pass(10, 100);
  EXPECT_EQ(one.meter->counted().at(0).seconds, 0);
  EXPECT_DOUBLE_EQ(one.meter->counted().at(0).run_joules, 1000);
}

TEST(EnergyMeter, a_counter_that_stands_still_is_not_zero_joules) {
  OneCounter one;
  one.meter->begin();
  one.fake->pass(10, 0);
  one.meter->end();
  EXPECT_NE(one.meter->counted().at(0).failed.find("GPU-0 stood still for 10.0 s"), std::string::npos);
}

TEST(EnergyMeter, watts_of_a_short_time_are_no_sample) {
  OneCounter one;
  one.meter->begin();
  one.fake->pass(0.1, 700);
  one.meter->end();
  EXPECT_EQ(one.meter->counted().at(0).watts.samples, 0);
  EXPECT_DOUBLE_EQ(one.meter->counted().at(0).joules, 70);
}

TEST(EnergyMeter, a_thread_samples_and_takes_less_than_a_thousandth_of_a_core) {
  auto made = std::make_unique<Fake>(EnergyKind::gpu, "GPU-0");
  Fake* const fake = made.get();
  std::vector<std::unique_ptr<EnergyCounter>> counters;
  counters.push_back(std::move(made));
  EnergyMeter meter(std::move(counters), milliseconds(100));
  std::this_thread::sleep_for(milliseconds(1050));
  const double cpu_s = meter.thread_cpu_s();
  meter.sample();  // takes the lock: no read is under way
  EXPECT_GE(fake->reads, 4);
  EXPECT_GT(cpu_s, 0);
  EXPECT_LT(cpu_s, 1.05e-2);  // ten times the samples of a run
}

// A GPU's counters can take 10 ms, which no step may wait for.
TEST(EnergyMeter, a_reading_that_takes_long_is_begun_at_once_and_waited_for) {
  constexpr milliseconds kLong{300};
  auto made = std::make_unique<Fake>(EnergyKind::gpu, "GPU-0");
  Fake* const fake = made.get();
  std::vector<std::unique_ptr<EnergyCounter>> counters;
  counters.push_back(std::move(made));
  EnergyMeter meter(std::move(counters), seconds(3600));
  const auto joules = [&] { return meter.joules({EnergyKind::gpu}).value_or(-1); };
  fake->pass(2, 100);
  EXPECT_DOUBLE_EQ(joules(), 0) << "nothing was read";
  fake->takes = kLong;
  const auto begin = std::chrono::steady_clock::now();
  meter.start_reading();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong / 3);
  EXPECT_DOUBLE_EQ(joules(), 200);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kLong);
  EXPECT_EQ(fake->reads, 2);
  OneCounter alone;
  alone.fake->pass(1, 70);
  alone.meter->start_reading();
  EXPECT_DOUBLE_EQ(alone.meter->joules({EnergyKind::gpu}).value_or(-1), 70) << "without a thread";
  alone.fake->lost = true;
  alone.meter->start_reading();
  EXPECT_FALSE(alone.meter->joules({EnergyKind::gpu}));
}

/// A folder that ends with the test.
class Folder {
 public:
  Folder() : path_(fs::path(testing::TempDir()) / ("shard8_energy_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }
  void zone(const std::string& name, const std::string& called, std::uint64_t counts, std::uint64_t range) const {
    fs::create_directories(path_ / name);
    write(name + "/name", called);
    write(name + "/energy_uj", std::to_string(counts));
    write(name + "/max_energy_range_uj", std::to_string(range));
  }
  void write(const std::string& name, const std::string& line) const { std::ofstream(path_ / name) << line << '\n'; }

 private:
  fs::path path_;
};

TEST(Rapl, two_packages_and_their_memory_but_nothing_twice) {
  const Folder folder;
  folder.zone("intel-rapl:0", "package-0", 5000000, 262143328850);
  folder.zone("intel-rapl:0:0", "core", 1, 262143328850);
  folder.zone("intel-rapl:0:1", "dram", 2, 65712999613);
  folder.zone("intel-rapl:1", "package-1", 3, 262143328850);
  folder.zone("intel-rapl:1:0", "dram", 4, 65712999613);
  folder.zone("intel-rapl:2", "psys", 5, 262143328850);
  folder.zone("intel-rapl-mmio:0", "package-0", 6, 262143328850);
  const EnergySources sources = rapl_counters(folder.path());
  ASSERT_EQ(sources.counters.size(), 4u);
  EXPECT_TRUE(sources.missing.empty());
  EXPECT_EQ(sources.counters[0]->name(), "package-0");
  EXPECT_EQ(sources.counters[1]->name(), "package-1");
  EXPECT_EQ(sources.counters[2]->name(), "package-0/dram");
  EXPECT_EQ(sources.counters[3]->name(), "package-1/dram");
  EXPECT_EQ(sources.counters[3]->range(), 65712999613u);
  EXPECT_EQ(sources.counters[0]->read().counts, 5000000u);
}

TEST(Rapl, zones_whose_names_cannot_be_read_are_said) {
  const Folder folder;
  folder.zone("intel-rapl:0", "package-0", 5, 262143328850);
  folder.zone("intel-rapl:0:0", "dram", 6, 65712999613);
  folder.zone("intel-rapl:1", "package-1", 7, 262143328850);
  fs::remove(folder.path() / "intel-rapl:1/name");
  fs::remove(folder.path() / "intel-rapl:0:0/name");
  const EnergySources sources = rapl_counters(folder.path());
  ASSERT_EQ(sources.counters.size(), 1u);
  ASSERT_EQ(sources.missing.size(), 2u);
  EXPECT_EQ(sources.missing[0].kind, EnergyKind::package);
  EXPECT_NE(sources.missing[0].why.find("intel-rapl:1/name cannot be read: No such file"), std::string::npos);
  EXPECT_EQ(sources.missing[1].kind, EnergyKind::dram);
}

TEST(Rapl, a_package_wraps_around_between_samples) {
  const Folder folder;
  folder.zone("intel-rapl:0", "package-0", 262143000000, 262143328850);
  EnergyMeter meter(rapl_counters(folder.path()).counters, kNoThread);
  meter.begin();
  folder.write("intel-rapl:0/energy_uj", "99671150");
  meter.end();
  EXPECT_NEAR(meter.counted().at(0).joules, 100, 1e-6);
}

TEST(Rapl, a_zone_that_disappears_is_said_with_its_place) {
  const Folder folder;
  folder.zone("intel-rapl:0", "package-0", 1, 262143328850);
  EnergyMeter meter(rapl_counters(folder.path()).counters, kNoThread);
  meter.begin();
  fs::remove(folder.path() / "intel-rapl:0/energy_uj");
  meter.end();
  EXPECT_NE(meter.counted().at(0).failed.find("intel-rapl:0/energy_uj cannot be read: No such file"),
            std::string::npos);
}

TEST(Rapl, what_cannot_be_read_is_said_with_the_remedy) {
  const Folder folder;
  EXPECT_NE(rapl_counters(folder.path()).missing.at(0).why.find("intel_rapl_msr"), std::string::npos);
  folder.zone("intel-rapl:0", "package-0", 1, 262143328850);
  folder.write("intel-rapl:0/energy_uj", "many");
  EXPECT_NE(rapl_counters(folder.path()).missing.at(0).why.find("'many', not a number"), std::string::npos);
  fs::permissions(folder.path() / "intel-rapl:0/energy_uj", fs::perms::none);
  fs::permissions(folder.path(), fs::perms::all);
  const bool root = ::geteuid() == 0;  // it may read all files
  ASSERT_EQ(root ? ::seteuid(65534) : 0, 0);
  const EnergySources sources = rapl_counters(folder.path());
  ASSERT_EQ(root ? ::seteuid(0) : 0, 0);
  EXPECT_NE(sources.missing.at(0).why.find("Permission denied (since Linux 5.10 only root may)"), std::string::npos);
  EXPECT_NE(sources.missing.at(0).why.find("chmod a+r"), std::string::npos);
}

TEST(Nvml, seven_hundred_watts) {
  EnergyMeter meter(nvml_counter({.uuid = "GPU-1"}, SHARD8_FAKE_NVML).counters, milliseconds(600));
  meter.begin();
  std::this_thread::sleep_for(milliseconds(1500));
  meter.end();
  const CountedEnergy c = meter.counted().at(0);
  EXPECT_EQ(c.name, "GPU-1");
  EXPECT_GE(c.seconds, 1.5);
  EXPECT_NEAR(c.joules, 700 * c.seconds, 0.02 * 700 * c.seconds);
  EXPECT_GE(c.watts.samples, 2);
  EXPECT_NEAR(c.watts.max, 700, 14);
  EXPECT_DOUBLE_EQ(c.limit_w.value(), 700);
  EXPECT_DOUBLE_EQ(c.at_limit.mean(), 1);
  EXPECT_DOUBLE_EQ(c.sm_mhz.mean(), 1980);
  EXPECT_DOUBLE_EQ(c.memory_mhz.mean(), 2619);
}

std::string why_not(const DeviceNames& device, const std::string& library = SHARD8_FAKE_NVML) {
  const EnergySources sources = nvml_counter(device, library);
  EXPECT_TRUE(sources.counters.empty());
  return sources.missing.empty() ? "" : sources.missing[0].why;
}

TEST(Nvml, what_cannot_be_read_is_said) {
  EXPECT_NE(why_not({.uuid = "GPU-1"}, "/none/libnvidia-ml.so.1").find("cannot be loaded"), std::string::npos);
  EXPECT_NE(why_not({.uuid = "GPU-1"}, "libm.so.6").find("has no function nvmlInit_v2"), std::string::npos);
  EXPECT_NE(why_not({.uuid = "GPU-7", .pci = "0000:01:00.0"}).find("has no device GPU-7"), std::string::npos);
  EXPECT_NE(why_not({.uuid = "GPU-7", .pci = "0000:99:00.0"}).find("is divided (MIG)"), std::string::npos);
  EXPECT_NE(why_not({.uuid = "GPU-old"}).find("before Volta"), std::string::npos);
}

TEST(Nvml, a_device_that_is_lost) {
  EnergyMeter meter(nvml_counter({.uuid = "GPU-0"}, SHARD8_FAKE_NVML).counters, kNoThread);
  meter.begin();
  ::setenv("SHARD8_FAKE_LOST", "1", 1);
  meter.end();
  ::unsetenv("SHARD8_FAKE_LOST");
  EXPECT_NE(meter.counted().at(0).failed.find("GPU is lost: the device must be reset"), std::string::npos);
}

/// What a rank of a job finds, and what happens to its counters in the measured steps, which take 10 s.
struct Rank {
  std::string node;
  std::vector<std::pair<EnergyKind, std::string>> counters;
  std::vector<EnergyMissing> missing{};
  bool lost = false;  ///< its counters, in the measured steps
};

constexpr double kSeconds = 10;
double watts_of(EnergyKind kind) { return kind == EnergyKind::gpu ? 700 : kind == EnergyKind::package ? 200 : 30; }

struct Result {
  EnergyFigures figures;                          ///< of rank 0
  std::vector<std::size_t> read;                  ///< counters that each rank reads
  std::vector<std::vector<EnergyKind>> complete;  ///< what each rank knows of
};

/// 100 steps of 1000 tokens.
Result run(const std::vector<Rank>& ranks) {
  Result result;
  result.read.resize(ranks.size());
  result.complete.resize(ranks.size());
  JobOfThreads(static_cast<int>(ranks.size())).run([&](int r, const Gather& gather) {
    const auto at = static_cast<std::size_t>(r);
    const Rank& rank = ranks[at];
    EnergySources sources;
    for (const auto& [kind, name] : rank.counters) sources.counters.push_back(std::make_unique<Fake>(kind, name));
    sources.missing = rank.missing;
    EnergyCounts counts;
    counts.directory = share_counters(sources, {.rank = r, .node = rank.node, .host = "host-" + rank.node}, gather);
    result.read[at] = sources.counters.size();
    result.complete[at] = counts.directory.complete;
    std::vector<Fake*> fakes;
    for (const auto& counter : sources.counters) fakes.push_back(static_cast<Fake*>(counter.get()));
    EnergyMeter meter(std::move(sources.counters), kNoThread);
    meter.begin();
    for (Fake* const fake : fakes) {
      fake->pass(kSeconds, watts_of(fake->kind()));
      fake->lost = rank.lost;
    }
    meter.end();
    counts.counted = meter.counted();
    EnergyFigures figures = energy_over_ranks(counts, 100, 100000, gather);
    if (r == 0) result.figures = std::move(figures);
  });
  return result;
}

const auto kGpu = EnergyKind::gpu;
const auto kPackage = EnergyKind::package;
const auto kDram = EnergyKind::dram;

TEST(Energy, two_ranks_on_one_device_count_it_once) {
  const Result r = run({{"a", {{kGpu, "GPU-0"}}}, {"a", {{kGpu, "GPU-0"}}}});
  EXPECT_DOUBLE_EQ(r.figures.joules, 7000);
  EXPECT_DOUBLE_EQ(r.figures.watts(), 700);
  ASSERT_EQ(r.figures.rows.size(), 1u);
  EXPECT_EQ(r.figures.rows[0].ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(r.read, (std::vector<std::size_t>{1, 0}));
}

TEST(Energy, three_ranks_on_two_devices) {
  const Result r = run({{"a", {{kGpu, "GPU-0"}}}, {"a", {{kGpu, "GPU-1"}}}, {"a", {{kGpu, "GPU-0"}}}});
  EXPECT_DOUBLE_EQ(r.figures.joules, 14000);
  ASSERT_EQ(r.figures.rows.size(), 2u);
  EXPECT_EQ(r.figures.rows[0].ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(r.read, (std::vector<std::size_t>{1, 1, 0}));
}

TEST(Energy, nodes_have_packages_of_the_same_names) {
  const std::vector<std::pair<EnergyKind, std::string>> two = {
      {kPackage, "package-0"}, {kPackage, "package-1"}, {kDram, "package-0/dram"}};
  const Result r = run({{"a", two}, {"a", two}, {"b", two}, {"b", two}});
  EXPECT_EQ(r.read, (std::vector<std::size_t>{3, 0, 3, 0}));
  EXPECT_DOUBLE_EQ(r.figures.joules, 2 * (2 * 2000 + 300));
  ASSERT_EQ(r.figures.nodes.size(), 2u);
  EXPECT_EQ(r.figures.nodes[1].host, "host-b");
  EXPECT_DOUBLE_EQ(r.figures.nodes[1].joules, 4300);
  EXPECT_DOUBLE_EQ(r.figures.nodes[1].watts, 430);
  EXPECT_EQ(r.figures.rows[0].ranks, (std::vector<int>{0, 1}));
  for (const auto& complete : r.complete) EXPECT_EQ(complete, (std::vector{kPackage, kDram}));
  const Json json = Json::parse(to_json(r.figures));
  EXPECT_FALSE(json.contains("energy_missing"));
  const Json& energy = json["energy"];
  EXPECT_DOUBLE_EQ(energy["joules_per_token"].get<double>(), 0.086);
  EXPECT_DOUBLE_EQ(energy["joules_per_step"].get<double>(), 86);
  EXPECT_DOUBLE_EQ(energy["mean_watts"].get<double>(), 860);
  double of_nodes = 0, of_kinds = 0, of_counters = 0;
  for (const Json& node : energy["nodes"]) of_nodes += node["joules"].get<double>();
  for (const Json& kind : energy["counted"]) of_kinds += kind.get<double>();
  for (const Json& counter : energy["counters"]) of_counters += counter["joules"].get<double>();
  EXPECT_DOUBLE_EQ(of_nodes, 8600);
  EXPECT_DOUBLE_EQ(of_kinds, 8600);
  EXPECT_DOUBLE_EQ(of_counters, 8600);
  EXPECT_NE(to_text(r.figures).find("energy: 8600.0 J in 10.000 s, 86 J a step, 0.086 J a token   mean: 860.0 W "
                                    "(packages 800.0 W, dram 60.0 W)"),
            std::string::npos)
      << to_text(r.figures);
}

TEST(Energy, a_kind_that_one_node_lacks_is_not_in_the_sums_and_said) {
  const Result r = run({{"a", {{kGpu, "GPU-0"}, {kPackage, "package-0"}, {kDram, "package-0/dram"}}},
                        {"b", {{kGpu, "GPU-0"}, {kDram, "package-0/dram"}}, {{kPackage, "no right: be root"}}}});
  EXPECT_EQ(r.figures.complete, (std::vector{kGpu, kDram}));
  EXPECT_DOUBLE_EQ(r.figures.joules, 2 * 7300);
  EXPECT_EQ(r.figures.missing_text(), "packages: no right: be root (host-b)");
  EXPECT_EQ(Json::parse(to_json(r.figures))["energy_missing"], "packages: no right: be root (host-b)");
  const Result lacks =
      run({{"a", {{kPackage, "package-0"}, {kDram, "package-0/dram"}}}, {"b", {{kPackage, "package-0"}}}});
  EXPECT_EQ(lacks.figures.complete, std::vector{kPackage});
  EXPECT_NE(lacks.figures.missing_text().find("dram: it has no such counter"), std::string::npos);
}

TEST(Energy, a_rank_that_may_read_more_reads_for_its_node) {
  const Result r = run({{"a", {}, {{kPackage, "no right: be root"}}}, {"a", {{kPackage, "package-0"}}}});
  EXPECT_EQ(r.read, (std::vector<std::size_t>{0, 1}));
  EXPECT_DOUBLE_EQ(r.figures.joules, 2000);
  EXPECT_TRUE(r.figures.missing.empty());
}

TEST(Energy, a_counter_that_disappears_takes_its_kind_out_of_the_sums) {
  const Result r = run({{"a", {{kPackage, "package-0"}}}, {"b", {{kGpu, "GPU-0"}, {kPackage, "package-0"}}, {}, true}});
  EXPECT_FALSE(r.figures.known());
  const Json json = Json::parse(to_json(r.figures));
  EXPECT_FALSE(json.contains("energy"));
  EXPECT_NE(json["energy_missing"].get<std::string>().find("packages: during the run: it is lost: look at it (host-b)"),
            std::string::npos)
      << json;
}

TEST(Energy, in_a_report_and_in_its_summary) {
  Report report = synthetic_report();
  const auto without = Json::parse(to_json(report, {}));
  EXPECT_FALSE(without.contains("energy") || without.contains("energy_missing"));
  report.energy = run({{"a", {{kGpu, "GPU-0"}}, {{kPackage, "no right: be root"}}}}).figures;
  const auto with = Json::parse(to_json(report, {}));
  EXPECT_DOUBLE_EQ(with["energy"]["joules_per_token"].get<double>(), 0.07);
  EXPECT_EQ(with["energy_missing"], "packages: no right: be root (host-a)");
  EXPECT_NE(to_text(report).find("\nenergy: 7000.0 J in 10.000 s"), std::string::npos);
  EXPECT_NE(to_text(report).find("\nenergy not read: packages: no right: be root (host-a)"), std::string::npos);
}

TEST(Energy, without_counters_there_are_no_figures_and_a_reason) {
  const Result r = run({{"a", {}, {{kPackage, "none here: load the module"}}},
                        {"a", {}, {{kPackage, "none here: load the module"}}},
                        {"b", {}, {{kPackage, "none here: load the module"}}}});
  EXPECT_FALSE(r.figures.known());
  const Json json = Json::parse(to_json(r.figures));
  EXPECT_EQ(json, (Json{{"energy_missing", "packages: none here: load the module (host-a and 1 host more)"}}));
  EXPECT_EQ(to_text(r.figures), "\nenergy not read: packages: none here: load the module (host-a and 1 host more)\n");
}

}  // namespace
}  // namespace shard8::profile::tests
