// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/refusals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "comm/agree.hpp"

namespace shard8::app {

using base::ExitCode;

namespace {

constexpr std::array kRefusals = {
    Refusal{Stage::deck, ExitCode::deck, true,
            "a deck that cannot be read, or with keys, values or files that are wrong"},
    Refusal{Stage::ranks, ExitCode::environment, false,
            "another number of ranks than the mesh has, or ranks that do not know of each other, or too little shared "
            "memory for MPI"},
    Refusal{Stage::device, ExitCode::environment, true,
            "a device or a library that this program was not built for or that is not there, or threads that are not"},
    // Only a run knows the machine: check warns.
    Refusal{Stage::memory, ExitCode::environment, false, "a node whose memory cannot hold the training of its ranks"},
    Refusal{Stage::output, ExitCode::environment, true, "files in output.dir that cannot be written"},
    Refusal{Stage::output_lock, ExitCode::checkpoint, true, "another run writes to output.dir"},
    Refusal{Stage::gold, ExitCode::deck, true, "a gold file that cannot be read"},
    Refusal{Stage::data, ExitCode::deck, true, "data that cannot be used"},
    Refusal{Stage::initial_weights, ExitCode::deck, true,
            "initial weights that cannot be used, or belong to another model"},
    Refusal{Stage::initial_weights, ExitCode::checkpoint, true, "a checkpoint of initial weights that cannot be used"},
    Refusal{Stage::checkpoint_dir, ExitCode::environment, true, "a checkpoint.dir that cannot be written"},
    Refusal{Stage::checkpoint_lock, ExitCode::checkpoint, true, "another run writes to checkpoint.dir"},
    Refusal{Stage::checkpoint_lock, ExitCode::environment, false, "a checkpoint.dir that ranks do not share"},
    Refusal{Stage::start, ExitCode::checkpoint, true,
            "no checkpoint that can be used, or one of another model, deck or input"},
    Refusal{Stage::start, ExitCode::deck, true, "folders that hold the files of another training"},
    Refusal{Stage::start, ExitCode::environment, true, "files of earlier legs that cannot be read"},
    Refusal{Stage::overlap, ExitCode::environment, false, "too little memory to time exchanges"},
    Refusal{Stage::set_up, ExitCode::environment, false, "too little memory, or a device that cannot compute this"},
    Refusal{Stage::set_up, ExitCode::deck, false, "initial weights whose values cannot be read"},
    Refusal{Stage::set_up, ExitCode::checkpoint, false, "initial weights of a checkpoint whose values cannot be read"},
    Refusal{Stage::restore, ExitCode::checkpoint, true, "a checkpoint without the tensors of this deck"},
    Refusal{Stage::restore, ExitCode::environment, false, "too little memory for copies of the state"},
    Refusal{Stage::first_files, ExitCode::environment, false, "files that can no longer be written, or a full disk"},
    Refusal{Stage::signal, ExitCode::failed, false, "a signal before the first step"},
};

bool is_registered(Stage stage, ExitCode code) {
  return std::any_of(kRefusals.begin(), kRefusals.end(),
                     [&](const Refusal& r) { return r.stage == stage && r.code == code; });
}

/// The code of what cannot be read in a stage that is about one input; nothing for other stages.
std::optional<ExitCode> code_of_input(Stage stage) {
  switch (stage) {
    case Stage::gold:
    case Stage::data:
    case Stage::initial_weights:
      return ExitCode::deck;
    default:
      return std::nullopt;
  }
}

struct Judged {
  ExitCode code;
  std::string text;
};

Judged judge(Stage stage, const base::Error& error) {
  if (is_registered(stage, error.code())) return {error.code(), error.what()};
  if (error.code() == ExitCode::failed)
    if (const auto code = code_of_input(stage)) return {*code, error.what()};
  return {error.code(), fmt::format("{}\n({}: {} with code {})", error.what(), kNotRegistered, name_of(stage),
                                    base::to_int(error.code()))};
}

}  // namespace

std::string_view name_of(Stage stage) {
  switch (stage) {
    case Stage::deck:
      return "deck";
    case Stage::ranks:
      return "ranks";
    case Stage::device:
      return "device";
    case Stage::memory:
      return "memory";
    case Stage::output:
      return "output";
    case Stage::output_lock:
      return "output lock";
    case Stage::gold:
      return "gold";
    case Stage::data:
      return "data";
    case Stage::initial_weights:
      return "initial weights";
    case Stage::checkpoint_dir:
      return "checkpoint.dir";
    case Stage::checkpoint_lock:
      return "checkpoint lock";
    case Stage::start:
      return "start";
    case Stage::overlap:
      return "overlap";
    case Stage::set_up:
      return "set-up";
    case Stage::restore:
      return "restore";
    case Stage::first_files:
      return "first files";
    case Stage::signal:
      break;
  }
  return "signal";
}

std::span<const Refusal> refusals() { return kRefusals; }

void at_stage(Stage stage, const std::function<void()>& action) {
  try {
    action();
  } catch (const comm::AgreedError& error) {
    const Judged judged = judge(stage, error);
    throw comm::AgreedError(judged.code, judged.text, error.ranks());
  } catch (const base::Error& error) {
    const Judged judged = judge(stage, error);
    throw base::Error(judged.code, judged.text);
  }
}

}  // namespace shard8::app
