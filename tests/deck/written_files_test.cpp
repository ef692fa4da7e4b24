// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "deck/load.hpp"
#include "tests/deck/decks.hpp"
#include "tests/deck/folder.hpp"

namespace shard8::deck {
namespace {

TEST(WrittenFiles, output_files_are_none_that_are_read) {
  const Folder folder;
  folder.file("gold.jsonl", "");
  folder.file("weights.h5", "");
  folder.file("tokens.h5", "");
  fs::create_directories(folder.path() / "text");
  folder.file("text/one", "");
  fs::create_directories(folder.path() / "links");
  fs::create_symlink("../tokens.h5", folder.path() / "links/summary.json");
  const std::string deck = folder.file("a.yaml", kLeastDeck);
  const std::string here = folder.path().string();
  // Overrides and the message. The error is placed at the first override.
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"output.metrics=a.yaml", "output.dir=" + here}, "/a.yaml' is the deck"},
      {{"output.dir=" + here + "/text/..", "verify.gold=gold.jsonl", "verify.tolerance=0"}, ""},
      {{"output.timing=gold.jsonl", "output.dir=" + here + "/text/..", "verify.gold=gold.jsonl", "verify.tolerance=0"},
       "/text/../gold.jsonl' is the file of verify.gold"},
      {{"output.summary=weights.h5", "output.dir=" + here, "model.init_file=weights.h5:/init"},
       "/weights.h5' is the file of model.init_file"},
      {{"output.dir=" + here + "/links", "data.kind=tokens", "data.path=tokens.h5:/tokens"},
       "/links/summary.json' is the file of data.path"},
      {{"output.dir=" + here + "/links", "data.kind=tokens", "data.path=weights.h5:/tokens"}, ""},
      {{"output.metrics=one", "output.dir=" + here + "/text", "data.kind=bytes", "data.path=text/one"},
       "/text/one' is the file of data.path"},
      {{"output.dir=" + here + "/text", "data.kind=bytes", "data.path=text"},
       "/text/metrics.jsonl' would be read as text, since data.path is its folder"},
      {{"output.dir=" + here, "data.kind=bytes", "data.path=text"}, ""},
  };
  for (const auto& [overrides, said] : cases) {
    std::string message;
    try {
      load(deck, overrides);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::ExitCode::deck);
      message = error.what();
    }
    if (said.empty()) {
      EXPECT_EQ(message, "");
      continue;
    }
    EXPECT_NE(message.find(said), std::string::npos) << said << "\n" << message;
    EXPECT_EQ(message.find("command line:" + overrides[0] + ": error: output."), 0u) << message;
    EXPECT_NE(message.find("a run replaces its output files"), std::string::npos) << message;
  }
}

std::string refusal_of(const std::string& deck, const std::vector<std::string>& overrides) {
  try {
    load(deck, overrides);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::deck);
    return error.what();
  }
  return {};
}

/// The names that no key changes, those of traces, temporary ones, and those of checkpoints.
TEST(WrittenFiles, files_of_every_run_are_none_that_are_read) {
  const Folder folder;
  const std::string here = folder.path().string();
  fs::create_directories(folder.path() / "P");
  fs::create_symlink("P", folder.path() / "P1");
  const std::string deck = folder.file("a.yaml", kLeastDeck);
  const auto refusal = [&](const std::string& data, std::vector<std::string> more = {}) {
    folder.file(data, "text");
    more.insert(more.end(), {"output.dir=" + here + "/P1", "data.kind=bytes", "data.path=" + here + "/" + data});
    return refusal_of(deck, more);
  };
  for (const char* const name : {"ranks.csv", "training.json", "overlap.json", "algorithms.txt", "lock",
                                 "metrics.jsonl", "summary.json.tmp", "ranks.csv.tmp"})
    EXPECT_NE(refusal("P/" + std::string(name)).find(std::string(name) + "' is the file of data.path"),
              std::string::npos)
        << name;
  const std::vector<std::string> traced = {"output.trace=tr.json", "mesh.shard=2"};
  EXPECT_NE(refusal("P/tr.rank0001.json", traced).find("tr.rank0001.json' is the file of data.path"),
            std::string::npos);
  EXPECT_EQ(refusal("P/tr.rank0002.json", traced), "");
  EXPECT_EQ(refusal("P/tr.rank0001.json"), "");
  EXPECT_NE(refusal("P/latest", {"checkpoint.dir=" + here + "/P"}).find("latest' is the file of data.path"),
            std::string::npos);
  EXPECT_NE(refusal("text", {"output.trace=tr.json", "output.summary=tr.rank0000.json"}).find("is the file of rank 0"),
            std::string::npos);
  for (const char* const name : {"latest", "step_1.json", "manifest.json"})
    EXPECT_NE(refusal("text", {"checkpoint.dir=" + here + "/P/.", std::string("output.summary=") + name})
                  .find("is a name that checkpoints use"),
              std::string::npos)
        << name;
}

TEST(WrittenFiles, nothing_is_written_below_a_folder_of_text) {
  const Folder folder;
  const std::string here = folder.path().string();
  fs::create_directories(folder.path() / "D");
  fs::create_directories(folder.path() / "E");
  fs::create_symlink("D", folder.path() / "L");
  folder.file("D/one", "text");
  folder.file("E/one", "text");
  const std::string deck = folder.file("a.yaml", kLeastDeck);
  const auto refusal = [&](const std::string& key, const std::string& dir, const std::string& more = "run.steps=8") {
    return refusal_of(deck, {key + "=" + here + dir, "data.kind=bytes", "data.path=" + here + "/D", more});
  };
  for (const char* const key : {"output.dir", "checkpoint.dir"}) {
    for (const char* const dir : {"/D/out", "/D/out/", "/D/a/b", "/L/out", "/E/../D/out", "/D/./out"})
      EXPECT_NE(refusal(key, dir).find("lies in the folder of data.path = " + here + "/D"), std::string::npos) << dir;
    EXPECT_EQ(refusal(key, "/D/.out"), "");
    EXPECT_EQ(refusal(key, "/Dout"), "");
    EXPECT_NE(refusal(key, "/E/out", "data.validation_path=" + here + "/E").find("data.validation_path"),
              std::string::npos);
  }
  // The default folder of checkpoints below output.dir: said once.
  const std::string both = refusal("output.dir", "/D/out", "checkpoint.every=2");
  EXPECT_EQ(both.find("lies in the folder"), both.rfind("lies in the folder")) << both;
}

}  // namespace
}  // namespace shard8::deck
