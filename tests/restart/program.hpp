// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace shard8::test {

/// What a run of the program is started with. The environment variables SHARD8_PROGRAM and SHARD8_MPIEXEC (a command)
/// name the program and the launcher.
struct ProgramOptions {
  std::filesystem::path folder;          ///< working directory, where the deck is
  std::string deck = "deck.yaml";        ///< in `folder`
  int ranks = 1;                         ///< under the launcher; 0: without it
  std::vector<std::string> arguments;    ///< after the deck
  std::function<void()> prepare = {};    ///< called in the process that becomes the launcher, before it does
  std::vector<std::string> before = {};  ///< a command that starts the program, with its arguments
  std::string command = "run";           ///< of the program
};

/// How a run ended.
struct ProgramEnd {
  int code = -1;       ///< the exit code; 128 + the signal that ended it
  std::string output;  ///< standard output and standard error
};

/// A run of the program in the background. The destructor kills what is left of it.
class ProgramRun {
 public:
  /// Standard output and standard error go to FOLDER/output.
  explicit ProgramRun(ProgramOptions options);
  ~ProgramRun();
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  /// The processes of the ranks that live, ascending. They are found by their command line.
  std::vector<pid_t> ranks() const;
  /// Sends SIGSTOP to ranks, and returns when each has stopped or ended: a rank still ends the call of the kernel in
  /// which the signal meets it, so a file may come after the signal was sent.
  void stop_ranks(const std::vector<pid_t>& ranks) const;
  bool ended();
  /// Waits until the launcher and all ranks have ended. Throws std::runtime_error, and kills them, if that takes longer
  /// than the limit.
  ProgramEnd wait(std::chrono::seconds limit = std::chrono::seconds(60));
  /// What it has printed so far.
  std::string output() const;

 private:
  std::string what_processes_do() const;
  ProgramOptions options_;
  std::filesystem::path deck_;
  pid_t launcher_ = 0;
  bool ended_ = false;
  int code_ = -1;
};

/// Runs the program to its end.
ProgramEnd run_program(ProgramOptions options);

}  // namespace shard8::test
