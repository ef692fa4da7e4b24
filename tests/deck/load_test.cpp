// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/load.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "tests/deck/decks.hpp"
#include "tests/deck/folder.hpp"

namespace shard8::deck {
namespace {

namespace fs = std::filesystem;

std::string message_of(const std::string& text, const std::string& name,
                       const std::vector<std::string>& overrides = {}) {
  try {
    load_text(text, name, overrides);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::deck);
    return error.what();
  }
  return "";
}

TEST(Load, every_kind_of_value) {
  const Config c = load_text(kYamlDeck, "a.yaml").config;
  EXPECT_EQ(c.model.arch, Arch::llama);
  EXPECT_EQ(c.model.hidden, 64);
  EXPECT_EQ(c.model.kv_heads, 2);
  EXPECT_EQ(c.model.norm_eps, 1e-6);
  EXPECT_EQ(c.model.init_seed, 18446744073709551615u);
  EXPECT_EQ(c.mesh.ranks(), 4);
  EXPECT_EQ(c.precision.compute, FloatType::fp32);
  EXPECT_FALSE(c.precision.deterministic);
  EXPECT_EQ(c.fp8.recipe, Recipe::delayed);
  EXPECT_EQ(c.fp8.format, Fp8Format::hybrid);
  EXPECT_EQ(c.fp8.amax_history, 16);
  EXPECT_EQ(c.fp8.amax_algo, AmaxAlgo::most_recent);
  EXPECT_EQ(c.fp8.margin, -1);
  EXPECT_FALSE(c.fp8.power_of_2_scales);
  EXPECT_EQ(c.fp8.weights, Fp8Weights::bf16);
  EXPECT_EQ(c.fp8.first_layers_bf16, 1);
  EXPECT_EQ(c.fp8.last_layers_bf16, 0);
  EXPECT_EQ(c.fsdp.gather, Gather::fp8);
  EXPECT_EQ(c.optimizer.moments, FloatType::bf16);
  EXPECT_EQ(c.optimizer.master, Master::fp32);
  EXPECT_FALSE(c.fsdp.reshard_after_forward);
  EXPECT_EQ(c.fsdp.prefetch, 0);
  EXPECT_EQ(c.optimizer.min_lr, 1e-4);
  EXPECT_EQ(c.optimizer.warmup, 4);
  EXPECT_EQ(c.data.path, "it's a path");
  EXPECT_EQ(c.output.dir, "out # not a comment");
}

TEST(Load, defaults_are_those_of_the_structs) {
  const Config c = load_text(kLeastDeck, "a.yaml").config;
  Config expected;
  expected.model.hidden = 64;
  expected.model.ffn = 192;
  expected.model.layers = 2;
  expected.model.heads = 4;
  expected.model.vocab = 256;
  expected.model.seq = 32;
  expected.optimizer.lr = 1e-3;
  expected.data.batch = 8;
  expected.run.steps = 20;
  // Defaults that depend on other keys.
  expected.model.kv_heads = 4;
  expected.model.head_dim = 16;
  expected.optimizer.decay_steps = 20;
  expected.fsdp.gather = Gather::bf16;
  EXPECT_EQ(to_yaml(c), to_yaml(expected));
}

TEST(Load, defaults_that_depend_on_other_keys) {
  const auto with = [](std::vector<std::string> overrides) {
    return load_text(kLeastDeck, "a.yaml", overrides).config;
  };
  EXPECT_TRUE(with({"model.arch=gpt2"}).model.tie_embeddings);
  EXPECT_FALSE(with({"model.arch=gpt2", "model.tie_embeddings=false"}).model.tie_embeddings);
  EXPECT_TRUE(with({"model.tie_embeddings=true"}).model.tie_embeddings);
  EXPECT_EQ(with({"model.heads=8"}).model.kv_heads, 8);
  EXPECT_EQ(with({"model.heads=8"}).model.head_dim, 8);
  EXPECT_EQ(with({"model.head_dim=0"}).model.head_dim, 16);
  EXPECT_EQ(with({"model.head_dim=24", "model.hidden=66"}).model.head_dim, 24);
  EXPECT_EQ(with({"run.steps=3"}).run.timing_skip, 2);
  EXPECT_EQ(with({"run.steps=1"}).run.timing_skip, 0);
  EXPECT_EQ(with({"run.steps=7"}).optimizer.decay_steps, 7);
  EXPECT_EQ(with({"optimizer.decay_steps=9"}).optimizer.decay_steps, 9);
  EXPECT_EQ(with({"precision.compute=fp32"}).fsdp.gather, Gather::fp32);
  EXPECT_EQ(with({"fsdp.gather=fp32"}).fsdp.gather, Gather::fp32);
}

TEST(Load, the_command_line_wins) {
  const std::vector<std::string> overrides = {"mesh.tensor=1", "output.dir=a b='c'"};
  const LoadResult result = load_text(kYamlDeck, "a.yaml", overrides);
  EXPECT_EQ(result.config.mesh.tensor, 1);
  EXPECT_EQ(result.config.mesh.shard, 2);
  EXPECT_EQ(result.config.output.dir, "a b='c'");
  std::map<std::string, Echo> echo;
  for (const Echo& one : result.echo) echo[one.group + "." + one.key] = one;
  EXPECT_EQ(echo.at("mesh.tensor").origin, Origin::command_line);
  EXPECT_EQ(echo.at("mesh.shard").origin, Origin::deck);
  EXPECT_EQ(echo.at("mesh.replicate").origin, Origin::fallback);
  EXPECT_EQ(std::get<std::int64_t>(echo.at("mesh.tensor").value), 1);
  EXPECT_EQ(std::get<std::uint64_t>(echo.at("data.seed").value), 1234u);
  EXPECT_EQ(std::get<double>(echo.at("optimizer.min_lr").value), 1e-4);
  EXPECT_EQ(std::get<bool>(echo.at("precision.deterministic").value), false);
  EXPECT_EQ(std::get<std::string>(echo.at("precision.compute").value), "fp32");
}

TEST(Load, files_are_found_beside_the_deck) {
  const Folder folder;
  folder.file("text.txt", "some text");
  const std::string deck = folder.file("a.yaml", kLeastDeck);
  const std::vector<std::string> overrides = {"data.kind=bytes", "data.path=text.txt"};
  EXPECT_EQ(load(deck, overrides).config.data.path, (folder.path() / "text.txt").string());

  folder.file("tokens.h5", "");
  const std::vector<std::string> tokens = {"data.kind=tokens", "data.path=tokens.h5:/a/b"};
  EXPECT_EQ(load(deck, tokens).config.data.path, (folder.path() / "tokens.h5:/a/b").string());
}

TEST(Load, files_of_the_working_directory_come_first) {
  const Folder folder;
  folder.file("text.txt", "some text");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  const std::string text = std::string(kLeastDeck) + "verify: {gold: text.txt, tolerance: 0}\n";
  const Config config = load_text(text, "elsewhere/a.yaml").config;
  fs::current_path(before);
  EXPECT_EQ(config.verify.gold, "text.txt");
}

TEST(Load, what_cannot_be_read) {
  const Folder folder;
  const auto message = [](const std::string& path) -> std::string {
    try {
      load(path);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::ExitCode::deck);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("no_such.yaml"), "no_such.yaml: error: cannot read the deck: No such file or directory");
  EXPECT_EQ(message("deck.json"), "deck.json: error: a deck's name ends in .yaml, .yml or .nml, this one in '.json'");
  fs::create_directory(folder.path() / "a.yaml");
  const std::string path = (folder.path() / "a.yaml").string();
  EXPECT_EQ(message(path), path + ": error: this is a folder, a deck is a file");
  EXPECT_EQ(message_of(std::string("mesh:\0", 6), "b.nml"), "b.nml: error: not a text file: byte 6 is zero");
  EXPECT_EQ(message_of(std::string(2 << 20, ' '), "b.yaml"),
            "b.yaml: error: 2097152 bytes are too many for a deck, at most 1048576");
}

TEST(Load, line_ends_and_byte_order_marks_do_not_matter) {
  for (const char* name : {"a.yaml", "a.nml"}) {
    const std::string plain = fs::path(name).extension() == ".nml" ? kNamelistDeck : kYamlDeck;
    std::string dos = "\xef\xbb\xbf";
    for (const char c : plain) dos += c == '\n' ? std::string("\r\n") : std::string(1, c);
    EXPECT_EQ(to_yaml(load_text(dos, name).config), to_yaml(load_text(plain, name).config));
    std::string carriage_returns = plain;
    std::replace(carriage_returns.begin(), carriage_returns.end(), '\n', '\r');
    EXPECT_EQ(to_yaml(load_text(carriage_returns, name).config), to_yaml(load_text(plain, name).config)) << name;
  }
}

TEST(Load, a_carriage_return_ends_a_line) {
  EXPECT_EQ(split_lines("a\rb\r\nc\n\rd\r"), (std::vector<std::string>{"a", "b", "c", "", "d"}));
  const std::string namelist = std::string(kNamelistDeck) + "! a comment\r&moe experts=4, ffn='a\rb' /\n";
  const std::string yaml = std::string(kLeastDeck) + "# a comment\rmoe: {experts: 4, ffn: \"a\rb\"}\n";
  EXPECT_NE(message_of(namelist, "a.nml").find("this text is not closed on its line\n   31 | &moe experts=4, ffn='a\n"),
            std::string::npos)
      << message_of(namelist, "a.nml");
  EXPECT_NE(message_of(yaml, "a.yaml").find("the value of 'ffn' does not end on its line\n    7 | moe: {experts: 4, "),
            std::string::npos)
      << message_of(yaml, "a.yaml");
}

TEST(Load, weights_that_are_not_there) {
  const Folder folder;
  const std::string deck = folder.file("a.yaml", kLeastDeck);
  const auto message = [&](const std::string& file) {
    return message_of(kLeastDeck, deck, {"model.init_file=" + file});
  };
  for (const char* name : {"none", "none/", "none.json", "none.safetensors"})
    EXPECT_NE(message(name).find(std::string("model.init_file: '") + name + "' does not exist"), std::string::npos)
        << message(name);
  folder.file("weights", "");
  for (const char* name : {"none.h5", "none.hdf5", "weights"})
    EXPECT_NE(message(name).find("names no object in an HDF5 file"), std::string::npos) << message(name);
}

TEST(Load, directives_of_yaml) {
  for (const char* version : {"%YAML 1.1\n---\n", "# text\n\n%YAML 1.2 # text\n---\n"})
    EXPECT_EQ(load_text(std::string(version) + kLeastDeck, "a.yaml").config.run.steps, 20) << version;
  EXPECT_EQ(
      message_of(std::string("# text\n%YAML\n%FOO\n---\n") + kLeastDeck + "# %FOO\n", "a.yaml"),
      "a.yaml:2:1: error: a deck is YAML 1.1 or 1.2, and not ''\n    2 | %YAML\n      | ^~~~~  take the line out\n"
      "a.yaml:3:1: error: the directive '%FOO' has no place in a deck\n    3 | %FOO\n      | ^~~~  take the line "
      "out");
  for (const char* end : {"%FOO bar\n", "...\n%FOO\n", "%YAML 1.2\n"}) {
    const std::string message = message_of(std::string(kLeastDeck) + end, "a.yaml");
    EXPECT_NE(message.find("has no place in a deck"), std::string::npos) << message;
  }
}

TEST(Load, tags_and_anchors_are_one_error) {
  const std::string head =
      "run: {steps: 20}\ndata: {kind: synthetic, batch: 8}\noptimizer: {lr: 1e-3}\nmodel:\n  "
      "hidden: 64\n  ffn: 192\n  layers: 2\n  heads: 4\n  vocab: 256\n";
  ASSERT_EQ(message_of(head + "  seq: 32\n", "a.yaml"), "");
  for (const char* tag : {"!", "!!int", "!a", "!<tag:yaml.org,2002:int>", "&a"}) {
    for (const char* value : {" 32", " \"32\"", "\n    32"}) {
      const std::string message = message_of(head + "  seq: " + tag + value + "\n", "a.yaml");
      EXPECT_EQ(message.find("error: "), message.rfind("error: ")) << message;
      EXPECT_TRUE(message.starts_with("a.yaml:10:8: error: ")) << message;
      EXPECT_NE(message.find(tag[0] == '&' ? "anchors and aliases have" : "tags have"), std::string::npos) << message;
    }
    for (const std::string& deck :
         {head + "  " + tag + " seq: 32\n", head + "  seq: 32\n" + tag + " mesh: {shard: 2}\n",
          head + "  seq: 32\nmesh: " + tag + " {shard: 2}\n"}) {
      const std::string message = message_of(deck, "a.yaml");
      EXPECT_NE(message.find("no place in a deck"), std::string::npos) << message;
      EXPECT_EQ(message.find("error: "), message.rfind("error: ")) << message;
    }
  }
}

TEST(Load, no_more_than_fifty_errors_are_shown) {
  std::string text = kLeastDeck;
  text += "mesh:\n";
  for (int i = 0; i < 60; ++i) text += "  wrong_" + std::to_string(i) + ": 1\n";
  const std::string message = message_of(text, "a.yaml");
  EXPECT_NE(message.find("'wrong_49'"), std::string::npos);
  EXPECT_EQ(message.find("'wrong_50'"), std::string::npos);
  EXPECT_NE(message.find("and 10 more errors"), std::string::npos);
}

TEST(Load, long_lines_are_cut_around_the_place) {
  const std::string text =
      std::string(kLeastDeck) + "mesh: {" + std::string(5000, ' ') + "tensr: " + std::string(5000, '2') + "}\n";
  const std::string message = message_of(text, "a.yaml");
  EXPECT_LT(message.size(), 1000u);
  EXPECT_NE(message.find("| ..."), std::string::npos) << message;
  EXPECT_NE(message.find("\n      | " + std::string(203, ' ') + "^~~~~  did you mean 'tensor'?"), std::string::npos)
      << message;
}

TEST(Load, warns_of_chunks_and_splits_that_change_nothing) {
  const auto warnings = [](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"overlap.enable=true", "model.ffn=192", "model.heads=12", "model.hidden=96"});
    return load_text(kLeastDeck, "a.yaml", overrides).warnings;
  };
  EXPECT_TRUE(warnings({"overlap.splits=2", "mesh.tensor=4"}).empty());
  EXPECT_TRUE(warnings({"overlap.splits=2", "mesh.tensor=4", "mesh.device=cuda"}).empty());
  const std::vector<std::pair<std::vector<std::string>, std::string>> without_effect = {
      {{"mesh.tensor=2"}, "mesh.tensor = 2"}, {{"mesh.tensor=4", "mesh.device=host"}, "mesh.device = host"}};
  for (const auto& [given, because] : without_effect) {
    std::vector<std::string> overrides = given;
    overrides.push_back("overlap.splits=1");
    const auto found = warnings(overrides);
    ASSERT_EQ(found.size(), 1U) << because;
    EXPECT_NE(found[0].find("overlap.splits = 1 has no effect"), std::string::npos) << found[0];
    EXPECT_NE(found[0].find("nothing reads it with " + because), std::string::npos) << found[0];
  }
  EXPECT_TRUE(warnings({"overlap.chunks=2", "mesh.tensor=2"}).empty());
  const auto on_hosts = warnings({"overlap.chunks=2", "mesh.tensor=2", "mesh.device=host"});
  ASSERT_EQ(on_hosts.size(), 1U);
  EXPECT_NE(on_hosts[0].find("nothing reads it with mesh.device = host"), std::string::npos) << on_hosts[0];
}

TEST(Load, a_ring_does_not_go_with_devices) {
  std::vector<std::string> given = {"overlap.enable=true", "mesh.tensor=2", "overlap.fc1_fprop=ring",
                                    "overlap.fc2_fprop=ring"};
  EXPECT_TRUE(load_text(kLeastDeck, "a.yaml", given).warnings.empty());
  given.push_back("mesh.device=cuda");
  try {
    load_text(kLeastDeck, "a.yaml", given);
    FAIL() << "no error";
  } catch (const base::Error& e) {
    const std::string message = e.what();
    EXPECT_NE(message.find("overlap.fc1_fprop = ring does not go with mesh.device = cuda"), std::string::npos)
        << message;
    EXPECT_NE(message.find("set overlap.fc1_fprop to direct"), std::string::npos) << message;
    EXPECT_NE(message.find("set overlap.fc2_fprop to pipeline"), std::string::npos) << message;
  }
}

TEST(Load, warns_of_keys_that_nothing_reads) {
  const auto warnings = [](const char* deck, std::vector<std::string> overrides) {
    return load_text(deck, "a.yaml", overrides).warnings;
  };
  EXPECT_EQ(warnings(kYamlDeck, {}).size(), 1u);  // data.path, which synthetic data do not read
  EXPECT_TRUE(warnings(kLeastDeck, {"fp8.recipe=delayed", "fp8.margin=3"}).empty());
  // Overrides on the command line take the effect from these keys of the deck. The warnings show the keys in the deck.
  const auto of_deck = warnings(kYamlDeck, {"fp8.recipe=current"});
  ASSERT_EQ(of_deck.size(), 4u);
  EXPECT_EQ(of_deck[0],
            "a.yaml:20:17: warning: fp8.amax_history = 16 has no effect\n"
            "   20 |   amax_history: 16\n"
            "      |                 ^~  nothing reads it with fp8.recipe = current\n");
  const std::vector<std::pair<std::string, std::string>> keys = {
      {"model.rope_theta=5", "model.arch = gpt2"},     {"fp8.format=hybrid", "fp8.recipe = none"},
      {"fp8.amax_history=7", "fp8.recipe = none"},     {"fp8.amax_algo=most_recent", "fp8.recipe = none"},
      {"fp8.margin=3", "fp8.recipe = none"},           {"fp8.power_of_2_scales=true", "fp8.recipe = none"},
      {"fp8.weights=bf16", "fp8.recipe = none"},       {"fp8.first_layers_bf16=1", "fp8.recipe = none"},
      {"fp8.last_layers_bf16=1", "fp8.recipe = none"}, {"data.path=a", "data.kind = synthetic"},
      {"verify.tolerance=1", "verify.gold = ''"},      {"overlap.splits=1", "overlap.enable = false"},
      {"overlap.chunks=1", "overlap.enable = false"},  {"overlap.min_gflop=1", "overlap.enable = false"}};
  for (const auto& [given, because] : keys) {
    const auto found = warnings(kLeastDeck, {"model.arch=gpt2", given});
    ASSERT_EQ(found.size(), 1u) << given;
    EXPECT_NE(found[0].find("command line:" + given + ": warning: "), std::string::npos) << found[0];
    EXPECT_NE(found[0].find("nothing reads it with " + because), std::string::npos) << found[0];
  }
  // A key that is given its default value causes no warning.
  for (const char* given :
       {"fp8.format=auto", "fp8.amax_algo=max", "fp8.margin=0", "data.path=", "model.init_seed=1234"})
    EXPECT_TRUE(warnings(kLeastDeck, {given}).empty()) << given;
  const Folder folder;
  const std::string init = "model.init_file=" + folder.file("model.safetensors", "");
  for (const char* given : {"model.init_seed=1", "model.init_std=0.1"}) {
    const auto found = warnings(kLeastDeck, {init, given});
    ASSERT_EQ(found.size(), 1u) << given;
    EXPECT_NE(found[0].find("nothing reads it with model.init_file = "), std::string::npos) << found[0];
    EXPECT_TRUE(warnings(kLeastDeck, {given}).empty());
  }
}

// |m| / sqrt(v) of AdamW is bounded if beta1^2 < beta2; with beta1 = beta2 = 0 it is 1.
TEST(Load, betas_without_a_bound_are_warned_of) {
  const auto warnings = [](const char* deck, const std::vector<std::string>& overrides) {
    return load_text(deck, "a.yaml", overrides).warnings;
  };
  for (const std::vector<std::string>& good :
       std::vector<std::vector<std::string>>{{"optimizer.beta1=0", "optimizer.beta2=0"},
                                             {"optimizer.beta1=0.9", "optimizer.beta2=0.811"},
                                             {"optimizer.beta1=0.97"}})
    EXPECT_TRUE(warnings(kLeastDeck, good).empty()) << good.front();
  EXPECT_EQ(warnings(kLeastDeck, {"optimizer.beta2=0"}),
            std::vector<std::string>{
                "command line:optimizer.beta2=0: warning: optimizer.beta2 = 0 is not more than the square of "
                "optimizer.beta1 = 0.9 (the default)\n"
                "      | optimizer.beta2=0\n"
                "      |                 ^  where gradients get smaller, updates grow without a bound; set beta2 above "
                "0.81\n"});
  EXPECT_EQ(warnings(kLeastDeck, {"optimizer.beta1=0.98"}).size(), 1u);
}

TEST(Load, what_a_micro_batch_holds_is_bounded) {
  const std::vector<std::string> long_ones = {"model.seq=2147483647", "data.batch=2147483647"};
  // The same batch may be cut into smaller micro-batches, but not into too many.
  const std::vector<std::string> pieces = {"data.batch=2147483647", "data.micro_batch=1000"};
  EXPECT_EQ(message_of(kLeastDeck, "a.yaml", pieces), "");
  EXPECT_EQ(message_of(kLeastDeck, "a.yaml", {pieces[0], "data.micro_batch=100"})
                .find("command line:data.micro_batch=100: error: micro-batches * model.layers = 21474837 * 2 = "
                      "42949674 layers in a step are too many"),
            0u);
  EXPECT_NE(message_of(kLeastDeck, "a.yaml", long_ones)
                .find("micro-batch * model.seq * model.vocab / mesh.tensor * model.layers = 2147483647 * 2147483647 * "
                      "256 * 2 = about 2.4e+21 elements of activations are too many"),
            std::string::npos);
  // The error is placed at the largest factor.
  EXPECT_EQ(
      message_of(kLeastDeck, "a.yaml", {"model.ffn=2147483647", "data.micro_batch=1000000000", "data.batch=2000000000"})
          .find("command line:model.ffn=2147483647: error: micro-batch * model.seq * model.ffn * model.layers = "
                "1000000000 * 32 * 2147483647 * 2 = about 1.4e+20"),
      0u);
}

}  // namespace
}  // namespace shard8::deck
