// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/plain_file.hpp"
#include "base/text.hpp"
#include "deck/checks.hpp"
#include "deck/choices.hpp"
#include "deck/layout.hpp"

namespace shard8::deck {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;  // a path that cannot be examined counts as missing
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Whether the path is a link to nowhere.
bool is_dangling(const fs::path& path) {
  std::error_code ignored;
  return fs::is_symlink(path, ignored) && fs::status(path, ignored).type() == fs::file_type::not_found;
}

// What a link names, as a deck's error can show it.
std::string target_of(const fs::path& link) {
  std::error_code ignored;
  return base::quotable(fs::read_symlink(link, ignored).string());
}

class FileChecker {
 public:
  FileChecker(const Checker& check, const fs::path& deck) : check_(check), folder_(deck.parent_path()) {}

  // Whether a folder is found under this name.
  bool names_folder(const std::string& name) const {
    const fs::path here = name;
    return is_folder(here) || (here.is_relative() && !is_there(here) && is_folder(folder_ / here));
  }

  // Whether nothing is found under this name.
  bool is_missing(const std::string& name) const {
    const fs::path here = name;
    return !is_there(here) && (here.is_absolute() || !is_there(folder_ / here));
  }

  // Whether the name is that of a link to nowhere, which may have led to a folder.
  bool names_dangling(const std::string& name) const {
    const fs::path here = name;
    return is_dangling(here) || (here.is_relative() && !is_there(here) && is_dangling(folder_ / here));
  }

  // Whether checkpoint.restart names a folder that is gone and has been used; sets `name` to the path that was.
  bool was_used(std::string& name, const std::string& output, const UsedRestart& used) const {
    const fs::path here = name;
    const fs::path beside = folder_ / here;
    if (!used || is_there(here) || (here.is_relative() && is_there(beside))) return false;
    for (const fs::path& path : {here, beside}) {
      if (!used(output, path.string())) continue;
      name = path.string();
      return true;
    }
    return false;
  }

  // Looks for the file `name`, or with `folder_too` also for a folder, and sets `name` to the path that was found.
  // `inside`, ":/dataset", is what follows the file's name in the deck.
  void find(std::string_view path, std::string& name, const std::string& inside = {}, bool folder_too = false) {
    const fs::path here = name;
    const fs::path beside = folder_ / here;
    const bool two_places = here.is_relative() && !folder_.empty();
    const fs::path found = is_there(here) || !two_places ? here : beside;
    const fs::path link = is_dangling(here) || !two_places ? here : beside;
    if (!is_there(found) && is_dangling(link)) {
      check_.fail({path}, fmt::format("{}: '{}' is a link to '{}', which does not exist", path, name, target_of(link)),
                  "copy or download the file itself, or mend the link");
    } else if (!is_there(found)) {
      check_.fail({path}, fmt::format("{}: '{}' does not exist", path, name),
                  two_places ? fmt::format("nor does '{}'", beside.string()) : "");
    } else if (is_folder(found) && !folder_too) {
      check_.fail({path}, fmt::format("{}: '{}' is a folder", path, name), "expected a file");
    }
    found_.emplace_back(path, found);
    name = found.string() + inside;
  }

  // Looks for the file in `name`, "file.h5:/object". `wanted` is the hint of the error if `name` has another form.
  void find_object(std::string_view path, std::string& name, const char* wanted) {
    const auto colon = name.rfind(":/");
    if (colon == std::string::npos || colon == 0 || colon + 2 == name.size()) {
      check_.fail({path}, check_.shown(path) + " names no object in an HDF5 file", wanted);
      return;
    }
    std::string file = name.substr(0, colon);
    find(path, file, name.substr(colon));
    name = file;
  }

  /// The files that were found, by key.
  const std::vector<std::pair<std::string_view, fs::path>>& found() const { return found_; }

 private:
  const Checker& check_;
  const fs::path folder_;
  std::vector<std::pair<std::string_view, fs::path>> found_;
};

void find_inputs(const Checker& check, FileChecker& files, Reading& reading, const UsedRestart& used) {
  RunConfig& run = reading.config.run;
  if (run.skeleton != Skeleton::none) {  // a skeleton reads no other file
    if (!run.skeleton_times.empty()) files.find("run.skeleton_times", run.skeleton_times, {}, true);
    return;
  }
  ModelConfig& model = reading.config.model;
  DataConfig& data = reading.config.data;
  VerifyConfig& verify = reading.config.verify;
  if (!model.init_file.empty()) {
    const bool object = model.init_file.find(":/") != std::string::npos;
    const bool index =
        model.init_file.ends_with(".safetensors") || model.init_file.ends_with(".safetensors.index.json");
    const bool hdf5 = model.init_file.ends_with(".h5") || model.init_file.ends_with(".hdf5");
    const bool folder = files.names_folder(model.init_file) || files.names_dangling(model.init_file);
    if (index || (!object && (folder || (!hdf5 && files.is_missing(model.init_file))))) {
      files.find("model.init_file", model.init_file, {}, true);
    } else {
      files.find_object(
          "model.init_file", model.init_file,
          "expected 'file.h5:/group', 'file.safetensors', 'model.safetensors.index.json' or its folder, or a "
          "checkpoint's folder");
    }
  }
  if (!verify.gold.empty()) files.find("verify.gold", verify.gold);
  CheckpointConfig& checkpoint = reading.config.checkpoint;
  if (check.sound({"checkpoint.restart"}) && checkpoint.restarts_from_path()) {
    const std::string given = checkpoint.restart;
    if (!files.was_used(checkpoint.restart, reading.config.output.dir, used))
      files.find("checkpoint.restart", checkpoint.restart, {}, true);
    if (is_there(checkpoint.restart) && !is_folder(checkpoint.restart)) {
      check.fail({"checkpoint.restart"}, fmt::format("checkpoint.restart: '{}' is not a folder", given),
                 "expected auto, none, or the folder of a checkpoint");
    }
  }
  if (!check.sound({"data.kind", "data.path"}) || data.kind == DataKind::synthetic) return;
  const auto find_data = [&](std::string_view key, std::string& path) {
    if (data.kind == DataKind::bytes)
      files.find(key, path, {}, true);
    else
      files.find_object(key, path, "expected 'file.h5:/dataset'");
  };
  if (data.path.empty())
    check.fail({"data.path", "data.kind"}, fmt::format("data.kind = {} needs data.path", to_string(data.kind)));
  else
    find_data("data.path", data.path);
  if (!data.validation_path.empty()) find_data("data.validation_path", data.validation_path);
}

// True if both paths lead to one file. False if either does not exist.
bool same(const fs::path& one, const fs::path& other) {
  std::error_code ignored;
  return fs::equivalent(one, other, ignored);
}

// The folder in which a file would be created, with links resolved.
fs::path folder_of(const fs::path& file) {
  std::error_code error;
  const fs::path end = fs::canonical(file, error);
  return error ? file.parent_path() : end.parent_path();
}

// True if both names lead to one folder, whether or not it is there.
bool same_folder(const fs::path& one, const fs::path& other) {
  const auto plain = [](const fs::path& path) {
    std::error_code ignored;  // a link in a circle: what is written there fails
    const fs::path whole = fs::absolute(path / "", ignored).lexically_normal();
    const fs::path end = fs::weakly_canonical(whole, ignored);
    return (ignored ? whole : end) / "";
  };
  return same(one, other) || plain(one) == plain(other);
}

// The first name below `folder` on the way to `path`; empty if the path does not lie below it.
std::string name_below(const fs::path& folder, const fs::path& path) {
  std::error_code error;
  const fs::path top = fs::canonical(folder, error);
  if (error) return {};
  const fs::path end = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) return {};
  const auto [above, below] = std::mismatch(top.begin(), top.end(), end.begin(), end.end());
  return above != top.end() || below == end.end() ? std::string() : below->string();
}

bool is_data(std::string_view key) { return key == "data.path" || key == "data.validation_path"; }

// The folder of checkpoints, empty if there is none. The default folder counts only if it is there.
fs::path checkpoints_of(const Config& config) {
  const auto usual = default_checkpoint_folder(config);
  if (!usual) return config.checkpoint.dir;
  return is_folder(*usual) ? *usual : fs::path();
}

// A run must not write to a file that it reads.
void check_outputs(const Checker& check, const FileChecker& files, const Config& config, const fs::path& deck) {
  if (!check.sound({"output.dir"})) return;
  const OutputConfig& output = config.output;
  const std::int64_t ranks = check.sound({"mesh.shard"}) ? config.mesh.ranks() : 1;
  for (const WrittenFile& written : written_files(output)) {
    if (written.has_key() && !check.sound({written.key})) continue;
    const std::string_view key = written.has_key() ? written.key : "output.dir";
    const std::string shown = written.has_key() ? check.shown(key) : written.name;
    if (written.has_key() && is_reserved(written.is_trace() ? base::rank_file_name(written.name, 0) : written.name))
      check.fail({key}, fmt::format("{} is a name that every run uses in output.dir", shown), "change the name");
    const auto rank = written.is_trace() ? std::nullopt : base::rank_of_file_name(written.name, output.trace);
    if (!output.trace.empty() && written.has_key() && rank && *rank < ranks)
      check.fail({key, "output.trace"},
                 fmt::format("{} is the file of rank {} of {}", shown, *rank, check.shown("output.trace")),
                 "change the name");
    const auto fail = [&](std::string_view input, const fs::path& file, const std::string& what) {
      check.fail({key, "output.dir", input},
                 fmt::format("{} in {}: '{}' {}", shown, check.shown("output.dir"), file.string(), what),
                 "a run replaces its output files: change the name or output.dir");
    };
    const fs::path file = fs::path(output.dir) / written.name;
    if (same(file, deck)) fail("output.dir", file, "is the deck");
    std::vector<fs::path> there;  // of a file that is not there no input can be the same one
    for (const fs::path& one : {file, fs::path(base::temporary_of(file.string()))})
      if (!written.is_trace() && is_there(one)) there.push_back(one);
    for (const auto& [input, path] : files.found()) {
      const std::string is_input = fmt::format("is the file of {}", input);
      if (written.is_trace()) {
        // The rank is found by the file's name: looking for a file of each rank would take many calls.
        const auto of = base::rank_of_file_name(path.filename().string(), written.name);
        if (of && *of < ranks && same_folder(output.dir, fs::path(path).replace_filename("")))
          fail(input, fs::path(output.dir) / path.filename(), is_input);
        continue;
      }
      for (const fs::path& one : there)
        if (same(one, path)) fail(input, one, is_input);
      if (written.has_key() && is_data(input) && is_folder(path) && same(folder_of(file), path))
        fail(input, file, fmt::format("would be read as text, since {} is its folder", input));
    }
  }
}

// Nothing that a run makes may lie below a folder of text: its next start would refuse the folder.
void check_below_data(const Checker& check, const FileChecker& files, const Config& config) {
  const auto is_below = [&](std::string_view key, const fs::path& folder, std::string_view input,
                            const fs::path& path) {
    const std::string name = name_below(path, folder);
    if (name.empty() || name.starts_with('.')) return false;  // the reader leaves such names out
    check.fail({key, input},
               fmt::format("{}: '{}' lies in the folder of {}", check.shown(key), folder.string(), check.shown(input)),
               "a folder of text is read without its subfolders and may have none: another folder");
    return true;
  };
  if (!check.sound({"output.dir", "checkpoint.dir"})) return;
  const fs::path checkpoints = checkpoints_of(config);
  for (const auto& [input, path] : files.found()) {
    if (!is_data(input) || !is_folder(path)) continue;
    if (is_below("output.dir", config.output.dir, input, path)) continue;
    // Where both are one folder, each output file is refused.
    if (!checkpoints.empty() && !same(config.output.dir, path)) is_below("checkpoint.dir", checkpoints, input, path);
  }
}

// The folder of checkpoints must not be one that the run reads from or puts other files of the same names in.
void check_checkpoint_folder(const Checker& check, const FileChecker& files, const Config& config) {
  if (!check.sound({"checkpoint.dir", "output.dir"})) return;
  const fs::path dir = checkpoints_of(config);
  if (dir.empty()) return;
  if (is_there(dir) && !is_folder(dir)) {
    check.fail({"checkpoint.dir"}, fmt::format("{} is not a folder", check.shown("checkpoint.dir")));
  }
  for (const auto& [input, path] : files.found()) {
    if (is_data(input) && is_folder(path) && same(dir, path)) {
      check.fail({"checkpoint.dir", "output.dir", input},
                 fmt::format("{} is the folder of {}",
                             config.checkpoint.dir.empty() ? dir.string() : check.shown("checkpoint.dir"), input),
                 "what is written there would be read as text: another folder");
    }
    for (const char* const name : {"latest", "latest.tmp", "lock"})
      if (same(dir / name, path))
        check.fail({"checkpoint.dir", "output.dir", input},
                   fmt::format("'{}' is the file of {}, and checkpoints use its name", (dir / name).string(), input),
                   "change checkpoint.dir, or move the file");
  }
  if (!same_folder(dir, config.output.dir)) return;
  for (const WrittenFile& file : written_files(config.output)) {
    if (!file.has_key() || is_reserved(file.name) || !is_name_of_checkpoints(file.name)) continue;
    check.fail({file.key, "checkpoint.dir"},
               fmt::format("{} is a name that checkpoints use, and {} is output.dir", check.shown(file.key),
                           check.shown("checkpoint.dir")),
               "change the name or checkpoint.dir");
  }
}

}  // namespace

void check_files(Diagnostics& errors, Reading& reading, const std::string& deck, const UsedRestart& used) {
  const Checker check(errors, reading);
  FileChecker files(check, deck);
  find_inputs(check, files, reading, used);
  check_outputs(check, files, reading.config, deck);
  check_below_data(check, files, reading.config);
  check_checkpoint_folder(check, files, reading.config);
}

}  // namespace shard8::deck
