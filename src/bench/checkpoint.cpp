// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "base/plain_file.hpp"
#include "checkpoint/reader.hpp"
#include "comm/agree.hpp"
#include "comm/host_waits.hpp"
#include "deck/load.hpp"
#include "io/box.hpp"
#include "io/digest.hpp"
#include "io/raw_file.hpp"
#include "kernels/elementwise.hpp"
#include "tensor/transfer.hpp"
#include "train/checkpoints.hpp"
#include "train/state.hpp"
#include "train/training_file.hpp"

namespace shard8::bench {
namespace {

namespace fs = std::filesystem;
using comm::Communicator;
using train::Checkpoints;
using Clock = std::chrono::steady_clock;

/// A checkpoint is begun on the way under a number that this divides. No run trains so many steps.
constexpr std::int64_t kEvery = 1000000;
/// run.steps of the deck: for how many steps the timer reserves memory. More steps may be trained.
constexpr std::int64_t kSteps = 1000;

/// A folder that rank 0 makes and removes.
class Folder {
 public:
  Folder(const Communicator& world, const std::string& in) {
    const comm::HostWaits::Unlimited files(world.waits());
    comm::agree_on_root(world, 0, [&] {
      path_ = fmt::format("{}/shard8_bench_checkpoint.{}", in, ::getpid());
      std::error_code error;
      fs::create_directories(in, error);
      if (!error && base::kind_of_file(path_).is_there()) error = std::make_error_code(std::errc::file_exists);
      if (!error) fs::create_directory(path_, error);
      if (error)
        base::fail(base::ExitCode::environment, "cannot make folder '{}': {}; choose another --dir", path_,
                   error.message());
      owns_ = true;
    });
    world.broadcast(path_, 0);
  }
  ~Folder() {
    std::error_code ignored;
    if (owns_) fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool owns_ = false;
};

train::RunDescription with_id(train::RunDescription run, const Communicator& world) {
  run.identity.id = train::new_run_id(world);
  return run;
}

class Bench {
 public:
  Bench(train::Assembly& assembly, const CheckpointSettings& settings)
      : assembly_(assembly),
        settings_(settings),
        world_(assembly.mesh().world),
        folder_(world_, settings.dir),
        tensors_(train::state_tensors(assembly.setup(), assembly.trainer().state())),
        checkpoint_folder_(world_, folder_.path() + "/checkpoints", say()),
        checkpoints_(assembly, checkpoint_folder_, with_id(settings.run, world_), nullptr, say()) {
    for (const auto& t : tensors_) {
      for (const auto& part : t.parts) {
        loaded_bytes_ += part.local.bytes();
        if (t.counts(assembly.setup().place)) own_bytes_ += part.local.bytes();
      }
    }
  }

  CheckpointBench operator()() {
    CheckpointBench bench;
    bench.ranks = world_.size();
    train();  // a first step takes memory and time that later ones do not
    settle();
    for (int i = 0; i < settings_.runs; ++i) {
      CheckpointRun& run = bench.runs.emplace_back();
      done_ = kEvery * (2 * i + 1) + 1;
      refuse_to_go_on();
      run.plain = plain();
      refuse_to_go_on();
      run.save = save();
      bench.bytes = last_bytes_;
      run.load = load();
      done_ = kEvery * (2 * i + 2);
      refuse_to_go_on();
      save_while_training(run);
    }
    return bench;
  }

 private:
  /// AgreedError(failed) once a signal requests a stop, so that the folder is removed. Collective.
  void refuse_to_go_on() const {
    comm::agree(world_, [&] {
      if (settings_.signalled && settings_.signalled())
        base::fail(base::ExitCode::failed, "stopped by a signal; {} is removed", folder_.path());
    });
  }

  train::Say say() {
    return [this](const std::string& text) { said_ += (said_.empty() ? "" : "; ") + text; };
  }

  double slowest(double seconds) const {
    std::array<double, 1> most{seconds};
    world_.all_reduce(most, Communicator::Reduce::max);
    return most[0];
  }
  /// `seconds` are this rank's for its `own` bytes; of a rank without bytes they do not count.
  Transfer transfer(double whole_seconds, std::uint64_t all, std::uint64_t own, double seconds) const {
    constexpr double kNothing = std::numeric_limits<double>::infinity();
    std::array<double, 1> rate{own > 0 ? -static_cast<double>(own) / seconds : -kNothing};
    world_.all_reduce(rate, Communicator::Reduce::max);
    return {whole_seconds, static_cast<double>(all) / whole_seconds, -rate[0]};
  }
  std::uint64_t sum(std::uint64_t mine) const {
    std::array<std::uint64_t, 1> all{mine};
    world_.all_reduce(all, Communicator::Reduce::sum);
    return all[0];
  }

  void train() { assembly_.trainer().step(step_++); }
  /// Ends the gathers that the last step has begun: they read the state.
  void settle() { assembly_.trainer().settle(); }

  /// The counts that a checkpoint adds; fails when none was written.
  profile::CheckpointCounts written(const std::function<void()>& write) {
    const profile::CheckpointCounts before = checkpoints_.counts();
    write();
    profile::CheckpointCounts after = checkpoints_.counts();
    comm::agree_on_root(world_, 0, [&] {
      if (after.written != before.written + 1)
        base::fail(base::ExitCode::environment, "no checkpoint was written: {}",
                   checkpoints_.failure().empty() ? said_ : checkpoints_.failure());
    });
    after.bytes -= before.bytes;
    after.durable_s -= before.durable_s;
    after.own_bytes -= before.own_bytes;
    after.own_s -= before.own_s;
    return after;
  }
  Transfer transfer(const profile::CheckpointCounts& c) const {
    return transfer(c.durable_s, c.bytes, c.own_bytes, c.own_s);
  }

  Transfer save() {
    world_.barrier();
    const auto counts = written([&] { checkpoints_.write_now(done_, 0); });
    last_bytes_ = counts.bytes;
    return transfer(counts);
  }

  void save_while_training(CheckpointRun& run) {
    train();  // takes on what its phase has of the save before
    world_.barrier();
    const double stalled_before = stalled();
    const auto counts = written([&] {
      const std::int64_t written = checkpoints_.counts().written;
      checkpoints_.between_steps(done_, 0);
      for (; checkpoints_.counts().written == written && checkpoints_.counts().failed == 0; ++run.steps) {
        train();
        checkpoints_.between_steps(++done_, 0);
      }
    });
    run.async = transfer(counts);
    run.held_up_s = slowest(checkpoints_.counts().after_last_s + stalled() - stalled_before);
    settle();
  }

  /// Seconds of all steps so far in which this rank was held up.
  double stalled() {
    const auto phase = static_cast<std::size_t>(profile::Phase::checkpoint_stall);
    const profile::StepRecord& steps = assembly_.timer().steps();
    return steps.skipped_sum().phase[phase] + steps.sum().phase[phase];
  }

  Transfer plain() {
    const comm::HostWaits::Unlimited files(world_.waits());
    world_.barrier();
    double seconds = 0;
    comm::agree(world_, [&] {
      const std::string path = fmt::format("{}/plain.{}", folder_.path(), world_.rank());
      const std::vector<std::byte> buffer(io::kShardBlock, std::byte{0x5a});
      const auto began = Clock::now();
      io::RawFile file = io::RawFile::create(path, io::RawFile::Content::other);
      for (std::uint64_t at = 0; at < own_bytes_; at += buffer.size())
        file.write(std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), own_bytes_ - at)), at);
      file.sync();
      file.close();
      seconds = seconds_since(began);
      std::error_code error;
      fs::remove(path, error);
      if (error)
        base::fail(base::ExitCode::environment, "cannot remove '{}': {}; choose another --dir", path, error.message());
    });
    return transfer(slowest(seconds), sum(own_bytes_), own_bytes_, seconds);
  }

  Transfer load() {
    const auto saved = hashes();
    clear();
    const std::string folder = checkpoint_folder_.directory().folder_of(done_);
    const auto read = [&](const std::function<void()>& action) {
      const comm::HostWaits::Unlimited files(world_.waits());
      comm::agree(world_, action);
    };
    read([&] {
      if (settings_.evict) evict(folder);
    });
    std::string text;
    double seconds = 0;
    const auto began = Clock::now();
    comm::agree_on_root(world_, 0, [&] { text = checkpoint::read_manifest_text(folder); });
    world_.broadcast(text, 0);
    read([&] {
      checkpoint::Reader reader(folder, checkpoint::parse_manifest(text, folder + "/manifest.json"),
                                train::likely_ranks(assembly_.setup(), assembly_.setup().mesh));
      reader.require(tensors_);
      reader.restore(assembly_.exec(), tensors_);
      reader.verify_rest(world_.rank(), world_.size());
      seconds = seconds_since(began);
    });
    const Transfer result = transfer(slowest(seconds), sum(loaded_bytes_), loaded_bytes_, seconds);
    comm::agree(world_, [&] {
      if (const auto now = hashes(); now != saved) {
        const auto at = std::mismatch(now.begin(), now.end(), saved.begin()).first - now.begin();
        base::fail(base::ExitCode::verification, "{} was loaded with other values than were saved to {}",
                   tensors_[static_cast<std::size_t>(at)].label(), folder);
      }
    });
    return result;
  }

  /// The hashes of the bytes of this rank's parts, one for each tensor.
  std::vector<std::uint64_t> hashes() const {
    std::vector<std::uint64_t> all;
    std::vector<std::byte> copy;
    for (const auto& t : tensors_) {
      std::uint64_t sum = 0;
      for (const auto& part : t.parts) {
        std::span<const std::byte> bytes(part.local.data, part.local.bytes());
        if (!t.in_host_memory) bytes = tensor::read_on_host(assembly_.exec(), part.local, copy);
        sum = 31 * sum + io::digest64(bytes);
      }
      all.push_back(sum);
    }
    return all;
  }

  /// Zeroes the state, so that every value has to be loaded.
  void clear() {
    for (const auto& t : tensors_) {
      for (const auto& part : t.parts) {
        if (t.in_host_memory)
          std::memset(part.local.data, 0, part.local.bytes());
        else
          kernels::fill_zero(assembly_.exec(), part.local);
      }
    }
    tensor::finish(assembly_.exec());
  }

  /// Has this rank's kernel forget the pages of all files, which were fsynced.
  static void evict(const std::string& folder) {
    std::error_code ignored;  // pages of files that cannot be listed stay
    for (const std::string& name : base::names_in(folder, ignored)) {
      const int file = ::open((fs::path(folder) / name).c_str(), O_RDONLY | O_CLOEXEC);
      if (file < 0) continue;
      ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
      ::close(file);
    }
  }

  train::Assembly& assembly_;
  const CheckpointSettings& settings_;
  const Communicator& world_;
  std::string said_;
  Folder folder_;
  std::vector<checkpoint::StateTensor> tensors_;
  train::CheckpointFolder checkpoint_folder_;
  Checkpoints checkpoints_;
  std::uint64_t own_bytes_ = 0, loaded_bytes_ = 0, last_bytes_ = 0;
  std::int64_t step_ = 0;  ///< of the next step that is trained
  std::int64_t done_ = 0;  ///< under which number a checkpoint is written
};

/// One row of the table: a figure of every run.
struct Row {
  std::string name, unit;
  std::vector<double> values;
};

std::vector<Row> rows_of(const CheckpointBench& bench) {
  std::vector<Row> rows;
  const auto add = [&](std::string name, std::string unit, const std::function<double(const CheckpointRun&)>& figure) {
    Row& row = rows.emplace_back(Row{std::move(name), std::move(unit), {}});
    for (const CheckpointRun& run : bench.runs) row.values.push_back(figure(run));
  };
  const auto transfer = [&](const std::string& name, Transfer CheckpointRun::*of) {
    add(name, "s", [of](const CheckpointRun& r) { return (r.*of).seconds; });
    add(name, "GB/s", [of](const CheckpointRun& r) { return 1e-9 * (r.*of).bytes_per_s; });
    add(name + ", slowest rank", "GB/s", [of](const CheckpointRun& r) { return 1e-9 * (r.*of).slowest_bytes_per_s; });
  };
  transfer("save", &CheckpointRun::save);
  transfer("plain write and fsync", &CheckpointRun::plain);
  transfer("load", &CheckpointRun::load);
  transfer("save while training", &CheckpointRun::async);
  add("held up meanwhile", "s", [](const CheckpointRun& r) { return r.held_up_s; });
  add("save / plain write", "", [](const CheckpointRun& r) { return r.save.bytes_per_s / r.plain.bytes_per_s; });
  return rows;
}

}  // namespace

deck::Config checkpoint_bench_deck(deck::Config config) {
  config = deck::without_files(std::move(config));
  config.run.steps = kSteps;
  config.checkpoint.every = kEvery;
  config.checkpoint.keep = 1;
  config.checkpoint.async = true;
  return config;
}

CheckpointBench bench_checkpoint(train::Assembly& assembly, const CheckpointSettings& settings) {
  return Bench(assembly, settings)();
}

std::string to_text(const CheckpointBench& bench) {
  std::string text = fmt::format(
      "checkpoint of {} bytes ({:.2f} GB), {} ranks, {} runs\n{:<36}{:>6}{:>12}{:>12}{:>12}\n", bench.bytes,
      1e-9 * static_cast<double>(bench.bytes), bench.ranks, bench.runs.size(), "", "unit", "min", "mean", "max");
  for (const Row& row : rows_of(bench)) {
    const auto [least, most] = std::minmax_element(row.values.begin(), row.values.end());
    text += fmt::format("{:<36}{:>6}{:>12.4f}{:>12.4f}{:>12.4f}\n", row.name, row.unit, *least,
                        base::mean_of(row.values), *most);
  }
  return text;
}

std::string to_json(const CheckpointBench& bench) {
  nlohmann::ordered_json out{{"bytes", bench.bytes}, {"ranks", bench.ranks}};
  const auto of = [](const Transfer& t) {
    return nlohmann::ordered_json{
        {"s", t.seconds}, {"bytes_per_s", t.bytes_per_s}, {"slowest_bytes_per_s", t.slowest_bytes_per_s}};
  };
  out["runs"] = nlohmann::ordered_json::array();
  for (const CheckpointRun& r : bench.runs)
    out["runs"].push_back({{"save", of(r.save)},
                           {"plain", of(r.plain)},
                           {"load", of(r.load)},
                           {"async", of(r.async)},
                           {"held_up_s", r.held_up_s},
                           {"steps", r.steps}});
  return out.dump(2);
}

}  // namespace shard8::bench
