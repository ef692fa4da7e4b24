// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/reader.hpp"

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

/// The lines of metrics.jsonl without the times: step, loss, grad_norm, lr, tokens. A last line that was cut is left
/// out.
std::vector<std::string> metrics_of(const std::filesystem::path& file);

/// The first difference between two lists of lines as text; empty if there is none.
std::string difference_of_lines(const std::vector<std::string>& got, const std::vector<std::string>& wanted);

/// All bytes of a tensor of a checkpoint, row-major.
std::vector<std::byte> bytes_of(checkpoint::Reader& reader, const checkpoint::ManifestTensor& tensor);

/// The tensors of a checkpoint: "NAME, CONTENT" to dtype, shape and a digest of all bytes, in row-major order of the
/// whole tensor. Every byte of every file is checked. Error(checkpoint) if one is damaged.
std::map<std::string, std::string> tensors_of(const std::filesystem::path& checkpoint);

/// The first difference between the tensors of two checkpoints as text; empty if there is none.
std::string difference_of_tensors(const std::map<std::string, std::string>& got,
                                  const std::map<std::string, std::string>& wanted);

/// The checkpoint in a folder of checkpoints from which a run must go on: the last one written, of which every byte is
/// checked; empty if there is no checkpoint. Error(checkpoint) if it is damaged.
std::string newest_checkpoint(const std::filesystem::path& folder);

/// The folder that the header's line `restart    from` names; empty if there is no such line.
std::string restarted_from(const std::string& output);

/// The digests of all files in a folder and below, by path.
std::map<std::string, std::string> digests_of(const std::filesystem::path& folder);

}  // namespace shard8::test
