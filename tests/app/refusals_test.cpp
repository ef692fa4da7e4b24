// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/refusals.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "checkpoint/manifest.hpp"
#include "comm/agree.hpp"
#include "tensor/runtime.hpp"
#include "tests/checkpoint/checkpoints.hpp"
#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"
#include "tests/restart/program.hpp"

// Walks the register of what a run refuses before its first step, and holds `check` to it.

namespace shard8 {
namespace {

namespace fs = std::filesystem;
using app::Stage;
using base::ExitCode;

constexpr const char* kDeck = R"(
model:      {arch: llama, hidden: 32, ffn: 64, layers: 2, heads: 4, kv_heads: 2, vocab: 256, seq: 32}
precision:  {compute: fp32}
optimizer:  {lr: 0.003}
data:       {kind: synthetic, batch: 4}
run:        {steps: 4, log_every: 1000}
)";

const std::vector<std::string> kTokens = {"data.kind=tokens"};

/// A folder in which a run is refused.
struct Scene {
  fs::path folder;
  std::unique_ptr<test::ProgramRun> other = {};  ///< a run that lives meanwhile

  std::string at(const std::string& name) const { return (folder / name).string(); }
  test::ProgramEnd program(const std::string& command, std::vector<std::string> arguments,
                           std::function<void()> prepare = {}) const {
    return test::run_program({.folder = folder,
                              .ranks = command == "run" ? 1 : 0,
                              .arguments = std::move(arguments),
                              .prepare = std::move(prepare),
                              .command = command});
  }
  void trained(std::vector<std::string> arguments) const {
    const auto end = program("run", std::move(arguments));
    ASSERT_TRUE(end.code == 0 || end.code == 75) << end.output;
  }
};

struct Example {
  Stage stage;
  ExitCode code;
  std::vector<std::string> arguments;
  std::function<void(Scene&)> prepare = {};
  std::function<void()> in_process = {};  ///< called in the process that becomes the program
};

fs::path machines() { return fs::path(std::getenv("SHARD8_SOURCES")) / "inputs/machines"; }
fs::path cases() { return fs::path(std::getenv("SHARD8_SOURCES")) / "tests/cases"; }

std::vector<std::string> with(std::vector<std::string> some, const std::vector<std::string>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

/// A file t.h5 with datasets that are no stream of tokens, and one that is.
void write_tokens(Scene& scene) {
  test::H5Writer file(scene.at("t.h5"));
  std::vector<std::int32_t> tokens(400);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i % 256);
  file.dataset("good", H5T_STD_I32LE, {400}, tokens);
  file.dataset("flat", H5T_STD_I32LE, {20, 20}, tokens);
  file.dataset("short", H5T_STD_I32LE, {10}, tokens);
  file.dataset("slabs", H5T_STD_I32LE, {2, 4, 33}, std::vector<std::int32_t>(264, 1));
  tokens[7] = 256;
  file.dataset("outside", H5T_STD_I32LE, {400}, tokens);
  file.dataset("real", H5T_IEEE_F32LE, {400}, std::vector<float>(400, 1.0F));
  file.dataset("wide", H5T_STD_I64LE, {400}, std::vector<std::int64_t>(400, std::int64_t{1} << 40));
  file.close();
}

/// A run that holds output.dir `other` and checkpoint.dir `ck`.
void let_another_run(Scene& scene) {
  fs::create_directory(scene.folder / "elsewhere");
  fs::copy_file(scene.folder / "deck.yaml", scene.folder / "elsewhere/deck.yaml");
  scene.other = std::make_unique<test::ProgramRun>(
      test::ProgramOptions{.folder = scene.folder / "elsewhere",
                           .arguments = {"run.steps=1000000", "output.dir=" + scene.at("other"),
                                         "checkpoint.dir=" + scene.at("ck"), "checkpoint.every=1000000"}});
  while (!fs::exists(scene.folder / "other/metrics.jsonl") && !scene.other->ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void edit_manifest(const Scene& scene, const std::string& checkpoint, const std::string& from, const std::string& to) {
  const std::string path = scene.at(checkpoint + "/manifest.json");
  std::string text = test::read_bytes(path);
  const auto at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  test::write_bytes(path, test::with_digest(text.replace(at, from.size(), to)));
}

/// A pool of two threads that gets one. On devices only what the variable says can be wrong.
void fewer_threads() {
  ::setenv("OMP_NUM_THREADS", tensor::kDevice ? "-1" : "2", 1);
  ::setenv("OMP_THREAD_LIMIT", "1", 1);
}

/// A start which moves the checkpoint in `out` aside.
const std::vector<std::string> kReplaces = {"checkpoint.every=1", "checkpoint.restart=none", "output.replace=true"};
void train_two_steps(Scene& scene) { scene.trained({"checkpoint.every=1", "run.stop_after=2"}); }

std::vector<Example> examples() {
  using enum Stage;
  const auto tokens = [](const std::string& dataset) {
    return std::vector<std::string>{"data.kind=tokens", "data.path=t.h5:/" + dataset};
  };
  const auto weights = [](const std::string& name) {
    return std::vector<std::string>{"model.init_file=" + (cases() / name).string()};
  };
  const auto skeleton = [](const std::vector<std::string>& more) { return with({"run.skeleton=communication"}, more); };
  return {
      {deck, ExitCode::deck, {"model.hidden=33"}},
      {ranks, ExitCode::environment, {"mesh.shard=2"}},
      {device, ExitCode::environment, {}, {}, [] { ::setenv("OMP_NUM_THREADS", "many", 1); }},
      {device, ExitCode::environment, {}, {}, fewer_threads},
      {device, ExitCode::environment, {}, {}, [] { ::setenv("OMP_NUM_THREADS", "100000", 1); }},
      {device, ExitCode::environment, {tensor::kDevice ? "mesh.device=host" : "mesh.backend=nccl"}},
      {device, ExitCode::environment, {tensor::kDevice ? "mesh.backend=mpi" : "mesh.backend=nccl"}},
      {memory, ExitCode::environment, {"model.hidden=65536", "model.ffn=262144", "model.layers=128"}},  // 128 TB
      {output, ExitCode::environment, {"output.dir=deck.yaml/x"}},
      {output, ExitCode::environment, {"output.dir=/proc/nothing"}},
      {output, ExitCode::environment, {}, [](Scene& s) { fs::create_directories(s.folder / "out/summary.json/x"); }},
      {output_lock, ExitCode::checkpoint, {"output.dir=other"}, let_another_run},
      {output_lock, ExitCode::environment, {}, [](Scene& s) { fs::create_directories(s.folder / "out/lock"); }},
      {output_lock,
       ExitCode::environment,
       {},
       [](Scene& s) {
         fs::create_directory(s.folder / "out");
         fs::create_symlink("/nothing/there", s.folder / "out/lock");
       }},
      {checkpoint_lock,
       ExitCode::environment,
       {"checkpoint.every=1", "checkpoint.dir=ck"},
       [](Scene& s) { fs::create_directories(s.folder / "ck/lock"); }},
      {job, ExitCode::environment, {}, {}, [] { ::setenv("SLURM_JOB_END_TIME", "abc", 1); }},
      {job, ExitCode::environment, {}, {}, [] { ::setenv("SLURM_RESTART_COUNT", "-1", 1); }},
      {gold,
       ExitCode::deck,
       {"verify.gold=gold", "verify.tolerance=0"},
       [](Scene& s) { test::write_bytes(s.at("gold"), "{\"step\": 1}\n"); }},
      {gold,
       ExitCode::deck,
       {"verify.gold=gold", "verify.tolerance=0"},
       [](Scene& s) { test::write_bytes(s.at("gold"), ""); }},
      {gold,
       ExitCode::deck,
       {"verify.gold=gold", "verify.tolerance=0"},
       [](Scene& s) { test::write_bytes(s.at("gold"), "{\"step\": 0, \"loss\": 1}\n"); }},
      {data, ExitCode::deck, tokens("nope"), write_tokens},
      {data, ExitCode::deck, tokens("real"), write_tokens},
      {data, ExitCode::deck, tokens("flat"), write_tokens},
      {data, ExitCode::deck, tokens("short"), write_tokens},
      {data, ExitCode::deck, tokens("slabs"), write_tokens},  // two slabs, four steps
      {data, ExitCode::deck, tokens("outside"), write_tokens},
      {data, ExitCode::deck, tokens("wide"), write_tokens},
      {data, ExitCode::deck, with(kTokens, {"data.path=deck.yaml:/tokens"})},
      {data, ExitCode::deck, with(kTokens, {"data.path=" + (cases() / "virtual_dataset/vds.h5").string() + ":/t"})},
      {data,
       ExitCode::deck,
       {"data.kind=bytes", "data.path=folder"},
       [](Scene& s) { fs::create_directories(s.folder / "folder/inner"); }},
      {data,
       ExitCode::deck,
       {"data.kind=bytes", "data.path=text"},
       [](Scene& s) { test::write_bytes(s.at("text"), "too short"); }},
      {initial_weights, ExitCode::deck, weights("fp8_weights/hf_fp8")},
      {initial_weights, ExitCode::deck, weights("biases/hf_bias_noconfig")},
      {initial_weights, ExitCode::deck, weights("lfs_pointer/lfs")},
      {initial_weights, ExitCode::deck,
       with(weights("tied_other_head/hf_tied_other_head"), {"model.tie_embeddings=true"})},
      {initial_weights, ExitCode::deck, {"model.init_file=deck.yaml:/init"}},
      {initial_weights,
       ExitCode::deck,
       {"model.init_file=x.safetensors"},
       [](Scene& s) { test::write_bytes(s.at("x.safetensors"), "not one"); }},
      {initial_weights,
       ExitCode::checkpoint,
       {"model.init_file=first/checkpoints"},
       [](Scene& s) {
         s.trained({"run.stop_after=2", "output.dir=first"});
         fs::remove(s.folder / "first/checkpoints/step_00000002/manifest.json");
       }},
      {deck, ExitCode::deck, skeleton({"run.skeleton_times=nothing.yaml"})},
      {output, ExitCode::environment, skeleton({}), [](Scene& s) { s.trained({}); }},
      {output, ExitCode::environment, skeleton({}),
       [](Scene& s) {
         fs::create_directory(s.folder / "out");
         test::write_bytes(s.at("out/summary.json"), "{\"schema\": 1}");
       }},
      {data, ExitCode::deck, skeleton({"run.skeleton_times=empty"}),
       [](Scene& s) { fs::create_directory(s.folder / "empty"); }},
      {data, ExitCode::deck, skeleton({"run.skeleton_times=first"}),
       [](Scene& s) {
         s.trained({"run.skeleton=communication", "output.dir=first"});
       }},
      {data, ExitCode::deck, skeleton({"run.skeleton_times=projected.json"}),
       [](Scene& s) {
         s.trained({"output.dir=first"});
         std::string text = test::read_bytes(s.at("first/summary.json"));
         test::write_bytes(s.at("projected.json"), text.insert(1, "\"projected\": {},"));
       }},
      {data, ExitCode::deck, skeleton({"run.skeleton_times=cut.json"}),
       [](Scene& s) { test::write_bytes(s.at("cut.json"), "{\"phases\": [{}"); }},
      {data, ExitCode::deck, skeleton({"run.skeleton_times=unmeasured"}),
       [](Scene& s) {
         s.trained({"output.dir=first"});
         fs::create_directory(s.folder / "unmeasured");
         test::write_bytes(s.at("unmeasured/summary.json"), "{\"phases\": [], \"deck\": {}}");
       }},
      // The file has no products in FP32.
      {data, ExitCode::deck, skeleton({"run.skeleton_times=" + (machines() / "h100-sxm.yaml").string()})},
      {checkpoint_dir, ExitCode::environment, {"checkpoint.every=1", "checkpoint.dir=deck.yaml/x"}},
      {checkpoint_dir,
       ExitCode::environment,
       {"checkpoint.every=1", "checkpoint.dir=link"},
       [](Scene& s) { fs::create_symlink("nowhere", s.folder / "link"); }},
      {checkpoint_lock, ExitCode::checkpoint, {"checkpoint.every=1", "checkpoint.dir=ck"}, let_another_run},
      {start,
       ExitCode::checkpoint,
       {"checkpoint.every=1"},
       [](Scene& s) {
         fs::create_directories(s.folder / "out/checkpoints");
         test::write_bytes(s.at("out/checkpoints/latest"), "step_00000008\n");
       }},
      {start, ExitCode::checkpoint, {"optimizer.lr=1"}, [](Scene& s) { s.trained({"run.stop_after=2"}); }},
      {start, ExitCode::checkpoint, {"model.layers=1"}, [](Scene& s) { s.trained({"run.stop_after=2"}); }},
      {start,
       ExitCode::checkpoint,
       {"checkpoint.restart=out"},
       [](Scene& s) {
         s.trained({"run.stop_after=2"});
         fs::remove(s.folder / "out/checkpoints/step_00000002/shard_r0000.h5");
       }},
      {start, ExitCode::deck, {"checkpoint.restart=none"}, [](Scene& s) { s.trained({"run.stop_after=2"}); }},
      {start, ExitCode::deck, {}, [](Scene& s) { s.trained({}); }},
      {start, ExitCode::deck, with(kReplaces, {"model.init_file=out/checkpoints/step_00000002"}), train_two_steps},
      {start, ExitCode::deck, with(kReplaces, {"model.init_file=out"}), train_two_steps},
      {start, ExitCode::deck, with(kReplaces, {"model.init_file=link"}),
       [](Scene& s) {
         train_two_steps(s);
         fs::create_symlink("out/checkpoints/step_00000002", s.folder / "link");
       }},
      {start,
       ExitCode::deck,
       {},
       [](Scene& s) {
         s.trained({"run.stop_after=2"});
         test::write_bytes(s.at("out/training.json"), "{}");
       }},
      {start,
       ExitCode::environment,
       {},
       [](Scene& s) {
         fs::create_directory(s.folder / "out");
         fs::create_symlink("/proc/self/clear_refs", s.folder / "out/metrics.jsonl");  // is written and not read
       }},
      {restore,
       ExitCode::checkpoint,
       {"checkpoint.restart=out/checkpoints/step_00000002"},
       [](Scene& s) {
         s.trained({"run.stop_after=2"});
         edit_manifest(s, "out/checkpoints/step_00000002", "[64,32]", "[65,32]");
       }},
  };
}

/// What takes more than a folder and a command, and the test that has it.
struct Elsewhere {
  Stage stage;
  ExitCode code;
  const char* test;
};
constexpr Elsewhere kElsewhere[] = {
    {Stage::checkpoint_lock, ExitCode::environment, "app.program.checkpoints_not_shared"},
    {Stage::overlap, ExitCode::environment, "app.overlap_auto.memory"},
    {Stage::set_up, ExitCode::environment, "train.assembly, where memory is limited"},
    {Stage::set_up, ExitCode::deck, "a chunk of weights of many gigabytes that the sample of the content misses"},
    {Stage::set_up, ExitCode::checkpoint, "the same in a checkpoint"},
    {Stage::restore, ExitCode::environment, "memory that is gone between two stages"},
    {Stage::first_files, ExitCode::environment, "app.program.lost_output"},
    {Stage::signal, ExitCode::failed, "app.program.unfinished_start"},
};

/// The lines of an output that are no warning and belong to an error: all after the last line that a header has.
std::string error_of(const test::ProgramEnd& end) {
  std::string text = end.output;
  while (text.ends_with('\n')) text.pop_back();
  const auto at = text.rfind("\nshard8: ");
  return at == std::string::npos ? text : text.substr(at + 1);
}

void expect_example(const Example& e, bool found_by_check) {
  const test::TempFolder folder;
  Scene scene{folder.path()};
  test::write_bytes(folder / "deck.yaml", kDeck);
  if (e.prepare) e.prepare(scene);
  if (testing::Test::HasFatalFailure()) return;
  // The other run writes all the time, and to `output` goes what this program prints.
  const auto state = [&] {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(scene.folder)) {
      const fs::path& path = entry.path();
      if (path.filename() == "output" || (scene.other && path.filename() != "deck.yaml")) continue;
      const bool file = entry.is_regular_file() && !entry.is_symlink();
      all[path.string()] = file ? test::read_bytes(path) : entry.is_symlink() ? "a link" : "a folder";
    }
    return all;
  };
  const auto before = state();
  const auto check = scene.program("check", e.arguments, e.in_process);
  EXPECT_EQ(state(), before) << "check changes nothing";
  const auto run = scene.program("run", e.arguments, e.in_process);
  EXPECT_EQ(run.code, base::to_int(e.code)) << run.output;
  EXPECT_EQ(run.output.find(app::kNotRegistered), std::string::npos) << run.output;
  EXPECT_EQ(run.output.find("\nstep "), std::string::npos) << "a step was trained\n" << run.output;
  if (!found_by_check) {
    EXPECT_EQ(check.code, e.in_process ? check.code : 0) << check.output;
    return;
  }
  EXPECT_EQ(check.code, run.code) << check.output << "\n  run says\n" << run.output;
  EXPECT_NE(check.output.find(error_of(run)), std::string::npos) << check.output << "\n  run says\n" << run.output;
  EXPECT_EQ(check.output.find(": good\n"), std::string::npos) << check.output;
}

TEST(Refusals, EachIsShownAndFoundByCheck) {
  const auto all = examples();
  for (const app::Refusal& refusal : app::refusals()) {
    SCOPED_TRACE(fmt::format("{}, code {}: {}", app::name_of(refusal.stage), base::to_int(refusal.code), refusal.what));
    bool shown = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].stage != refusal.stage || all[i].code != refusal.code) continue;
      SCOPED_TRACE(fmt::format("example {}: {}", i, fmt::join(all[i].arguments, " ")));
      expect_example(all[i], refusal.found_by_check);
      shown = true;
    }
    for (const Elsewhere& e : kElsewhere) shown = shown || (e.stage == refusal.stage && e.code == refusal.code);
    EXPECT_TRUE(shown) << "no example shows it";
  }
  for (const Example& e : all) {
    const auto is_it = [&](const app::Refusal& r) { return r.stage == e.stage && r.code == e.code; };
    const auto registered = app::refusals();
    EXPECT_TRUE(std::any_of(registered.begin(), registered.end(), is_it)) << app::name_of(e.stage);
  }
}

TEST(Refusals, AGoodDeckIsGood) {
  const test::TempFolder folder;
  const Scene scene{folder.path()};
  test::write_bytes(folder / "deck.yaml", kDeck);
  const auto check = scene.program("check", {"checkpoint.every=1"});
  EXPECT_EQ(check.code, 0) << check.output;
  EXPECT_NE(check.output.find("start      a new training\n"), std::string::npos) << check.output;
  EXPECT_FALSE(fs::exists(folder.path() + "/out")) << "check makes nothing";
  scene.trained({"run.stop_after=2"});
  const auto again = scene.program("check", {});
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_NE(again.output.find("goes on from out/checkpoints/step_00000002\n"), std::string::npos) << again.output;
}

// A start does not read all data where there are many: it counts a sample. `check` counts the same one.
TEST(Refusals, ASampleOfMuchDataIsRead) {
  const test::TempFolder folder;
  test::write_bytes(folder / "deck.yaml", kDeck);
  test::write_bytes(folder / "text", "");
  fs::resize_file(folder / "text", std::uintmax_t{300} << 30);  // without blocks
  const std::vector<std::string> keys = {"data.kind=bytes", "data.path=text", "verify.unigram_ratio_max=0.9"};
  for (const char* const command : {"check", "run"}) {
    const bool runs = std::string_view(command) == "run";
    test::ProgramRun program({.folder = folder.path(), .ranks = runs ? 1 : 0, .arguments = keys, .command = command});
    const auto end = program.wait(std::chrono::seconds(30));
    EXPECT_EQ(end.code, base::to_int(runs ? ExitCode::verification : ExitCode::ok)) << end.output;
    if (!runs) continue;
    EXPECT_NE(end.output.find("unigram entropy of the data: 0.000000 nats, of 67108864 of 322122547200 tokens"),
              std::string::npos)
        << end.output;
  }
}

TEST(Stages, KeepRegisteredCodesAndTellOfOthers) {
  const auto thrown = [](Stage stage, ExitCode code) -> std::pair<ExitCode, std::string> {
    try {
      app::at_stage(stage, [&] { base::fail(code, "words"); });
    } catch (const base::Error& e) {
      return {e.code(), e.what()};
    }
    return {};
  };
  EXPECT_EQ(thrown(Stage::start, ExitCode::checkpoint), std::pair(ExitCode::checkpoint, std::string("words")));
  EXPECT_EQ(thrown(Stage::data, ExitCode::failed), std::pair(ExitCode::deck, std::string("words")));
  const auto [code, text] = thrown(Stage::start, ExitCode::failed);
  EXPECT_EQ(code, ExitCode::failed);
  EXPECT_NE(text.find(app::kNotRegistered), std::string::npos) << text;
  try {
    app::at_stage(Stage::data, [] { throw comm::AgreedError(ExitCode::failed, "words", 3); });
    ADD_FAILURE();
  } catch (const comm::AgreedError& e) {
    EXPECT_EQ(e.ranks(), 3);
    EXPECT_EQ(e.code(), ExitCode::deck);
  }
}

}  // namespace
}  // namespace shard8
