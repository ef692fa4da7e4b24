// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// What makes decks easy to use: short runs, repeated overrides, conversion, the JSON schema. The exact messages of
// errors are in broken/.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "deck/fields.hpp"
#include "deck/load.hpp"
#include "tests/deck/decks.hpp"

namespace shard8::deck {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

std::vector<std::string> decks_of_inputs() {
  std::vector<std::string> decks;
  for (const auto& entry : fs::recursive_directory_iterator("inputs"))
    if (entry.path().parent_path() != "inputs/studies" && entry.path().parent_path() != "inputs/machines" &&
        entry.path().parent_path() != "inputs/stacks" &&
        (entry.path().extension() == ".yaml" || entry.path().extension() == ".nml"))
      decks.push_back(entry.path());
  return decks;
}

TEST(Friendly, every_deck_can_be_run_for_20_steps) {
  const AtRoot at_root;
  for (const std::string& deck : decks_of_inputs()) {
    const Texts overrides{"run.steps=20"};
    const Config c = load(deck, overrides).config;
    EXPECT_EQ(c.run.steps, 20) << deck;
    if (!c.verify.limits_final_loss()) continue;
    EXPECT_EQ(c.verify.min_steps, load(deck).config.run.steps) << deck << ": fewer steps do not reach its limits";
    EXPECT_LT(c.optimizer.warmup, c.optimizer.decay_steps) << deck;
  }
}

TEST(Friendly, a_run_that_ends_within_its_warmup_is_warned_of) {
  const AtRoot at_root;
  const Texts short_run{"run.steps=20"}, long_run{"run.steps=21"};
  const LoadResult deck = load("inputs/quickstart.yaml", short_run);
  EXPECT_EQ(deck.config.optimizer.decay_steps, 21);
  EXPECT_EQ(deck.config.optimizer.warmup, 20);
  EXPECT_EQ(
      deck.warnings,
      Texts{"inputs/quickstart.yaml:29:15: warning: optimizer.warmup = 20 is not less than run.steps = 20\n"
            "   29 |   warmup:     20       # steps\n"
            "      |               ^~  the run ends while the learning rate still rises; to reach optimizer.lr set a "
            "shorter warm-up\n"});
  EXPECT_EQ(load("inputs/quickstart.yaml", long_run).warnings, Texts{});
}

TEST(Friendly, the_last_of_several_overrides_wins) {
  const AtRoot at_root;
  const Texts overrides{"mesh.tensor=bad", "mesh.shard=1", "mesh.tensor=1", "mesh.tensor=4", "mesh.shard=3"};
  const Texts first_three(overrides.begin(), overrides.begin() + 3);
  EXPECT_EQ(load("inputs/bench/llama_8b_2x2_bf16.yaml", first_three).config.mesh.tensor, 1);
  const Config c = load("inputs/bench/llama_8b_2x2_bf16.yaml", overrides).config;
  EXPECT_EQ(c.mesh.tensor, 4);
  EXPECT_EQ(c.mesh.shard, 3);
}

TEST(Friendly, converted_decks_load_to_the_same) {
  const AtRoot at_root;
  const fs::path folder = fs::path(testing::TempDir()) / "shard8_converted";
  fs::create_directories(folder);
  for (const std::string& deck : decks_of_inputs()) {
    if (load(deck).config.data.kind != DataKind::synthetic) continue;  // data are looked for beside the deck
    const Config before = load(deck).config;
    for (const auto& [spelling, end] : {std::pair{Spelling::yaml, ".yaml"}, {Spelling::namelist, ".nml"}}) {
      const std::string path = folder / (std::string("deck") + end);
      std::ofstream(path) << convert(deck, {}, spelling);
      EXPECT_EQ(to_yaml(load(path).config), to_yaml(before)) << deck << " as " << end;
    }
  }
  fs::remove_all(folder);
  const Texts overrides{"run.steps=7", "model.kv_heads=4"};
  const std::string text = convert("inputs/quickstart.yaml", overrides, Spelling::namelist);
  EXPECT_EQ(text.substr(0, 9), "&model\n  ");
  for (const char* part : {"  arch = 'llama'\n", "  kv_heads = 4\n", "&run\n  steps = 7\n", "  path = 'text'\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  EXPECT_EQ(text.find("prefetch"), std::string::npos);  // a default
  // The files that a deck names may be elsewhere.
  const Texts elsewhere{"data.path=/nowhere/text", "verify.gold=nowhere.jsonl", "verify.tolerance=0"};
  EXPECT_NE(convert("inputs/quickstart.yaml", elsewhere, Spelling::namelist).find("  path = '/nowhere/text'\n"),
            std::string::npos);
  const Texts open{"mesh.shard=auto"};
  EXPECT_NE(convert("inputs/quickstart.yaml", open, Spelling::namelist).find("  shard = 'auto'\n"), std::string::npos);
  EXPECT_NE(convert("inputs/quickstart.yaml", open, Spelling::yaml).find("  shard: auto\n"), std::string::npos);
}

// A deck has the batch by one name; the command line may give the other one.
TEST(Friendly, a_converted_deck_has_the_batch_that_counts) {
  const AtRoot at_root;
  const fs::path folder = fs::path(testing::TempDir()) / "shard8_converted_batch";
  fs::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  };
  const std::string batch = write("batch.yaml", kLeastDeck);
  const std::string per_rank = write("per_rank.yaml", convert(batch, Texts{"data.batch_per_rank=3"}, Spelling::yaml));
  using Case = std::array<std::string, 4>;  // deck, override, the key that counts, the other one
  for (const auto& [deck, override, key, other] : {Case{batch, "data.batch_per_rank=3", " batch_per_rank", " batch"},
                                                   Case{per_rank, "data.batch=5", " batch", " batch_per_rank"}}) {
    const Texts overrides{override};
    for (const auto& [spelling, end, equals] :
         {std::tuple{Spelling::yaml, "again.yaml", ": "}, {Spelling::namelist, "again.nml", " = "}}) {
      const std::string text = convert(deck, overrides, spelling);
      EXPECT_NE(text.find(key + equals), std::string::npos) << text;
      EXPECT_EQ(text.find(other + equals), std::string::npos) << text;
      EXPECT_EQ(to_yaml(load(write(end, text)).config), to_yaml(load(deck, overrides).config)) << text;
    }
  }
  // 0 is no batch: data.batch counts.
  EXPECT_NE(convert(batch, Texts{"data.batch_per_rank=0"}, Spelling::yaml).find("  batch: 8\n"), std::string::npos);
  fs::remove_all(folder);
}

TEST(Friendly, the_schema_has_every_key) {
  const auto schema = nlohmann::json::parse(print_table("schema"));
  EXPECT_EQ(schema["required"], (Texts{"model", "optimizer", "data", "run"}));
  for (const Group& group : all_groups()) {
    const auto& keys = schema["properties"][std::string(group.name)]["properties"];
    EXPECT_EQ(keys.size(), group.fields.size()) << group.name;
    for (const Field& field : group.fields) EXPECT_TRUE(keys.contains(field.key)) << field.key;
  }
  const auto& heads = schema["properties"]["model"]["properties"]["heads"];
  EXPECT_EQ(heads["type"], "integer");
  EXPECT_EQ(heads["minimum"], 1);
  const auto& recipe = schema["properties"]["fp8"]["properties"]["recipe"];
  EXPECT_EQ(recipe["enum"], (Texts{"none", "delayed", "current", "block", "mxfp8"}));
  EXPECT_EQ(recipe["default"], "none");
  const auto& shard = schema["properties"]["mesh"]["properties"]["shard"];
  EXPECT_EQ(shard["anyOf"][0]["const"], "auto");
  EXPECT_EQ(shard["anyOf"][1]["minimum"], 1);
  const auto& data = schema["properties"]["data"];
  EXPECT_EQ(data["required"], (Texts{"kind"}));
  EXPECT_EQ(data["anyOf"][1]["required"], (Texts{"batch_per_rank"}));
  EXPECT_EQ(schema["properties"]["optimizer"]["properties"]["beta1"]["exclusiveMaximum"], 1.0);
  EXPECT_EQ(schema["properties"]["optimizer"]["properties"]["clip"]["anyOf"][0]["const"], 0);
}

}  // namespace
}  // namespace shard8::deck
