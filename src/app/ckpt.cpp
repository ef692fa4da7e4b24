// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "app/commands.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/inspect.hpp"
#include "checkpoint/masters.hpp"
#include "model/huggingface_config.hpp"
#include "train/saved_config.hpp"
#include "train/stored_weights.hpp"

namespace shard8::app {

namespace {

using base::ExitCode;
using checkpoint::Checkpoint;

void warn(const std::string& text) { base::print_coloured(fmt::format("shard8: warning: {}\n", text), stderr); }

int list(const std::string& path) {
  fmt::print("{}", checkpoint::list_text(checkpoint::directory_at(path)));
  return 0;
}

int show(const CkptArguments& arguments) {
  const Checkpoint found = checkpoint::open_checkpoint(arguments.paths.front(), warn);
  const auto tensors = checkpoint::summarise(found, !arguments.no_hashes);
  fmt::print("{}", arguments.json ? checkpoint::show_json(found, tensors, arguments.boxes)
                                  : checkpoint::show_text(found, tensors, arguments.boxes));
  return 0;
}

/// Everything that is wrong with one checkpoint.
std::vector<std::string> problems_of(const Checkpoint& found) {
  auto problems = checkpoint::problems_of_files(found);
  if (!problems.empty()) return problems;  // values that cannot be read are not compared
  try {
    return train::problems_of_values(found, checkpoint::Masters(found), train::saved_config(found));
  } catch (const base::Error& error) {
    return {error.what()};
  }
}

/// The checkpoints that a path names: itself, or all in a folder. Those that cannot be opened are problems.
std::vector<std::string> folders_of(const std::string& path) {
  if (checkpoint::is_checkpoint(path)) return {path};
  const checkpoint::Directory directory = checkpoint::directory_at(path);
  std::vector<std::string> folders;
  for (const std::int64_t step : directory.steps()) folders.push_back(directory.folder_of(step));
  return folders;
}

bool is_good(const std::string& folder) {
  std::vector<std::string> problems;
  try {
    const Checkpoint found = checkpoint::open_checkpoint(folder, warn);
    problems = problems_of(found);
    if (problems.empty()) {
      fmt::print("{}: good: step {}, {} tensors in {}\n", folder, found.manifest.step, found.manifest.tensors.size(),
                 base::count(static_cast<std::int64_t>(found.manifest.files.size()), "file", "files"));
      return true;
    }
  } catch (const base::Error& error) {
    problems = {error.what()};
  }
  fmt::print("{}: not good: {} problem{}\n", folder, problems.size(), problems.size() == 1 ? "" : "s");
  std::fflush(stdout);
  for (const std::string& text : problems) fmt::print(stderr, "shard8: {}\n", text);
  return false;
}

int verify(const std::vector<std::string>& paths) {
  bool good = true;
  for (const std::string& path : paths)
    for (const std::string& folder : folders_of(path)) good = is_good(folder) && good;
  return base::to_int(good ? ExitCode::ok : ExitCode::checkpoint);
}

int export_weights(const CkptArguments& arguments) {
  const Checkpoint found = checkpoint::open_checkpoint(arguments.paths.front(), warn);
  checkpoint::ExportOptions options;
  options.dtype = arguments.dtype == "bf16" ? tensor::DType::bf16 : tensor::DType::fp32;
  options.replace = arguments.force;
  const std::string config = model::huggingface_config(train::saved_config(found).model, options.dtype);
  const auto exported = checkpoint::export_weights(checkpoint::Masters(found), arguments.to, config, options);
  fmt::print("{}: {} tensors of step {}, {:.1f} MB in {}:", arguments.to, exported.tensors, found.manifest.step,
             1e-6 * static_cast<double>(exported.bytes), arguments.dtype);
  for (const std::string& name : exported.files) fmt::print(" {}", name);
  fmt::print("\n");
  return 0;
}

}  // namespace

int ckpt_command(const CkptArguments& arguments) {
  if (arguments.action == "list") return list(arguments.paths.front());
  if (arguments.action == "show") return show(arguments);
  if (arguments.action == "verify") return verify(arguments.paths);
  return export_weights(arguments);
}

}  // namespace shard8::app
