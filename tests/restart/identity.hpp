// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Whose training a run is: docs/checkpoint.md, "Identity". Runs of the program, one rank each.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "tests/io/files.hpp"
#include "tests/restart/program.hpp"

namespace shard8 {

namespace fs = std::filesystem;
using nlohmann::json;

inline constexpr const char* kDeck = R"(
model:      {arch: llama, hidden: 32, ffn: 64, layers: 1, heads: 2, vocab: 256, seq: 16}
precision:  {compute: fp32}
optimizer:  {lr: 0.003}
data:       {kind: bytes, path: text.txt, batch: 4}
run:        {steps: 10, log_every: 1000}
checkpoint: {every: 2, keep: 5}
)";

class Identity : public testing::Test {
 protected:
  void SetUp() override {
    test::write_bytes(folder_ / "deck.yaml", kDeck);
    std::string text;
    for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + i * i % 23);
    test::write_bytes(folder_ / "text.txt", text);
  }
  test::ProgramEnd run(std::vector<std::string> arguments, std::function<void()> prepare = {}) const {
    return test::run_program(
        {.folder = folder_.path(), .arguments = std::move(arguments), .prepare = std::move(prepare)});
  }
  void expect_ends(int code, std::vector<std::string> arguments, const std::vector<std::string>& texts = {},
                   std::function<void()> prepare = {}) const {
    const auto end = run(std::move(arguments), std::move(prepare));
    ASSERT_EQ(end.code, code) << end.output;
    for (const std::string& text : texts)
      EXPECT_NE(end.output.find(text), std::string::npos) << "does not say: " << text << "\n" << end.output;
  }
  /// The run ends with this code, says these texts and changes no file.
  void expect_refused(int code, std::vector<std::string> arguments, const std::vector<std::string>& texts) const {
    const auto before = test::digests_of(folder_.path());
    expect_ends(code, std::move(arguments), texts);
    auto after = test::digests_of(folder_.path());
    const auto is_log = [](const auto& one) { return fs::path(one.first).filename() == "output"; };
    std::erase_if(after, is_log);
    auto wanted = before;
    std::erase_if(wanted, is_log);
    EXPECT_EQ(after, wanted);
  }
  fs::path at(const std::string& name) const { return fs::path(folder_.path()) / name; }
  checkpoint::Manifest manifest(const std::string& name) const { return checkpoint::read_manifest(at(name).string()); }
  json summary(const std::string& name) const { return json::parse(test::read_bytes(at(name))); }
  std::set<std::string> names(const std::string& folder) const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(at(folder))) found.insert(entry.path().filename().string());
    return found;
  }
  /// The ids in metrics.jsonl, one for each line.
  std::vector<std::string> owners(const std::string& metrics) const {
    std::vector<std::string> ids;
    std::istringstream lines(test::read_bytes(at(metrics)));
    for (std::string line; std::getline(lines, line);) ids.push_back(json::parse(line)["run"]);
    return ids;
  }

  const test::TempFolder folder_;
};

inline std::vector<std::string> with(std::vector<std::string> some, const std::vector<std::string>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

}  // namespace shard8
