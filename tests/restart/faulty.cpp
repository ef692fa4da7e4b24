// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/restart/faulty.hpp"

#include <fmt/format.h>

#include <fstream>

#include "tests/restart/program.hpp"

namespace shard8::test {

namespace fs = std::filesystem;

TempFolder* Faulty::original_ = nullptr;
std::vector<std::string> Faulty::metrics_;

namespace {

constexpr const char* kDeck = R"(
model:      {arch: llama, hidden: 32, ffn: 64, layers: 1, heads: 2, vocab: 64, seq: 16}
mesh:       {shard: 2}
precision:  {compute: fp32}
optimizer:  {lr: 0.003}
data:       {kind: synthetic, batch: 4}
run:        {steps: 8, log_every: 1000}
checkpoint: {every: 2, async: false}
)";

}  // namespace

void Faulty::SetUpTestSuite() {
  original_ = new TempFolder;
  write_bytes(*original_ / "deck.yaml", kDeck);
  const auto whole = run_program({.folder = original_->path(), .ranks = 2, .arguments = {"output.dir=whole"}});
  ASSERT_EQ(whole.code, 0) << whole.output;
  metrics_ = metrics_of(*original_ / "whole/metrics.jsonl");
  ASSERT_EQ(metrics_.size(), static_cast<std::size_t>(kSteps));
  fs::remove_all(*original_ / "whole");
  const auto first = run_program({.folder = original_->path(), .ranks = 2, .arguments = {"run.stop_after=4"}});
  ASSERT_EQ(first.code, 75) << first.output;
}

void Faulty::TearDownTestSuite() {
  delete original_;
  original_ = nullptr;
}

void Faulty::SetUp() {
  ASSERT_TRUE(original_ != nullptr && !HasFailure());
  folder_ = std::make_unique<TempFolder>();
  fs::copy(original_->path(), folder_->path(), fs::copy_options::recursive);
}

ProgramOptions Faulty::program(std::vector<std::string> arguments) const {
  return {.folder = folder(), .ranks = 2, .arguments = std::move(arguments)};
}

void Faulty::expect_says(const ProgramEnd& end, const std::vector<std::string>& texts) {
  for (const std::string& text : texts)
    EXPECT_NE(end.output.find(text), std::string::npos) << "does not say: " << text << "\n" << end.output;
}

void Faulty::expect_whole(const ProgramEnd& end, const fs::path& folder) {
  EXPECT_EQ(end.code, 0) << end.output;
  EXPECT_EQ(difference_of_lines(metrics_of(folder / "out/metrics.jsonl"), metrics_), "") << end.output;
}

void Faulty::expect_fallback(const std::string& what, const std::vector<std::string>& texts,
                             const std::vector<std::string>& named) const {
  const std::string file = "out/checkpoints/step_00000004/" + what;
  const auto before = digests_of(checkpoints());

  const auto with_name = run({"checkpoint.restart=out/checkpoints/step_00000004"});
  EXPECT_EQ(with_name.code, 4) << with_name.output;
  expect_says(with_name, {file});
  expect_says(with_name, named.empty() ? texts : named);
  EXPECT_EQ(digests_of(checkpoints()), before);

  const auto automatic = run({"checkpoint.every=0"});
  expect_whole(automatic, folder());
  expect_says(automatic, {file});
  expect_says(automatic, texts);
  EXPECT_EQ(restarted_from(automatic.output), "out/checkpoints/step_00000002") << automatic.output;
  EXPECT_EQ(digests_of(checkpoints()), before);

  fs::rename(older(), folder() / "elsewhere");
  const auto none = run();
  EXPECT_EQ(none.code, 4) << none.output;
  expect_says(none, {file});
  expect_says(none, texts);
  fs::rename(folder() / "elsewhere", older());
  EXPECT_EQ(digests_of(checkpoints()), before);
}

void flip(const fs::path& path, std::uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 0x10));
}

}  // namespace shard8::test
