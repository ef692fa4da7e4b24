// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/io/files.hpp"
#include "tests/restart/program.hpp"

namespace shard8::test {

/// A run of two ranks that stopped after 4 of 8 steps, with the checkpoints of steps 2 and 4, and the metrics of the
/// whole run. Each test damages a copy.
class Faulty : public testing::Test {
 protected:
  static constexpr int kSteps = 8;

  static void SetUpTestSuite();
  static void TearDownTestSuite();
  /// Makes the copy that the functions below use.
  void SetUp() override;

  std::filesystem::path folder() const { return folder_->path(); }
  std::filesystem::path checkpoints() const { return folder() / "out/checkpoints"; }
  std::filesystem::path older() const { return checkpoints() / "step_00000002"; }
  std::filesystem::path newest() const { return checkpoints() / "step_00000004"; }

  ProgramOptions program(std::vector<std::string> arguments = {}) const;
  ProgramEnd run(std::vector<std::string> arguments = {}) const { return run_program(program(std::move(arguments))); }

  /// The newest checkpoint is damaged in `what`, a file of it. A run that names this checkpoint ends with code 4. A run
  /// with `auto` goes on from the checkpoint before it, and trains as the whole run did. When that one is gone, `auto`
  /// ends with code 4. Each run says the file and all of `texts`, the one that names the checkpoint `named` if there
  /// are any. No file is changed.
  void expect_fallback(const std::string& what, const std::vector<std::string>& texts,
                       const std::vector<std::string>& named = {}) const;

  /// The run ended well, with the metrics of the whole run.
  static void expect_whole(const ProgramEnd& end, const std::filesystem::path& folder);
  static void expect_says(const ProgramEnd& end, const std::vector<std::string>& texts);

 private:
  static TempFolder* original_;
  static std::vector<std::string> metrics_;
  std::unique_ptr<TempFolder> folder_;
};

/// Changes one byte.
void flip(const std::filesystem::path& path, std::uint64_t offset);

}  // namespace shard8::test
