// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/directory.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <set>
#include <span>
#include <system_error>

#include "base/error.hpp"
#include "base/plain_file.hpp"
#include "base/text.hpp"
#include "io/file.hpp"

namespace shard8::checkpoint {

namespace {

constexpr std::string_view kStep = "step_", kTemporary = ".tmp", kOld = ".old", kLatest = "latest";
constexpr std::size_t kDigits = 8;
constexpr std::int64_t kMostSteps = 2147483647;  // as in decks

/// The step of "step_N" + `ending`.
std::optional<std::int64_t> step_with(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  name.remove_suffix(ending.size());
  return step_of(name);
}

/// What is wrong with a shard file, as the end of a message; empty if it has the right length, or any if there is none.
std::string problem_of_file(const std::string& path, std::optional<std::uint64_t> length) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0)
    return errno == ENOENT ? "is missing" : "cannot examine it: " + std::generic_category().message(errno);
  if (!S_ISREG(status.st_mode)) return "is no regular file";
  if (length && static_cast<std::uint64_t>(status.st_size) != *length)
    return fmt::format("has {} bytes; its manifest says {}", status.st_size, *length);
  return {};
}

void check_lengths(const std::string& folder, const Manifest& manifest) {
  for (const ShardSummary& shard : manifest.files) {
    const std::string path = folder + "/" + shard.file;
    const std::string wrong = problem_of_file(path, shard.length);
    if (!wrong.empty()) {
      base::fail(base::ExitCode::checkpoint, "'{}': {}; restart from another checkpoint, or copy this one again", path,
                 wrong);
    }
  }
}

/// Runs a task. An error becomes a line of `trouble`.
template <class Task>
bool tried(Directory::Done& done, Task&& task) {
  try {
    task();
    return true;
  } catch (const base::Error& error) {
    done.trouble.emplace_back(error.what());
    return false;
  }
}

bool is_usable(const std::string& folder, std::int64_t step) {
  try {
    const Manifest manifest = read_manifest(folder);
    check_lengths(folder, manifest);
    return manifest.step == step;
  } catch (const base::Error&) {
    return false;
  }
}

}  // namespace

std::string step_name(std::int64_t step) { return fmt::format("{}{:08d}", kStep, step); }

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStep) || name.size() < kStep.size() + kDigits) return std::nullopt;
  const std::string_view digits = name.substr(kStep.size());
  std::int64_t step = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (status != std::errc() || step < 0 || step > kMostSteps || step_name(step) != name) return std::nullopt;
  return step;
}

std::string rank_file(std::int64_t rank) { return fmt::format("shard_r{:04d}.h5", rank); }
std::string node_file(std::int64_t node) { return fmt::format("node_n{:04d}.h5", node); }

std::vector<std::int64_t> Directory::steps() const {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(path_)) {
    const auto step = step_of(name);
    if (step && kind_of(path_ + "/" + name, true) == Kind::folder) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

bool Directory::has(std::int64_t step) const { return kind_of(folder_of(step), true) == Kind::folder; }

std::optional<std::int64_t> Directory::latest() const {
  constexpr std::int64_t kLongest = 64;  // chosen: a name and a line end
  try {
    const io::InputFile file(fmt::format("{}/{}", path_, kLatest));
    if (file.size() > kLongest) return std::nullopt;
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(std::as_writable_bytes(std::span(text)), 0);
    if (text.ends_with('\n')) text.pop_back();
    return step_of(text);
  } catch (const base::Error&) {
    return std::nullopt;
  }
}

Manifest Directory::open(std::int64_t step) const {
  const std::string folder = folder_of(step);
  Manifest manifest = read_manifest(folder);
  if (manifest.step != step) {
    base::fail(base::ExitCode::checkpoint,
               "'{}': its manifest is of step {}: the folder was renamed; give it the name '{}' or remove it", folder,
               manifest.step, step_name(manifest.step));
  }
  check_lengths(folder, manifest);
  return manifest;
}

Directory::Scan Directory::scan() const {
  Scan scan;
  const auto all = steps();
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    try {
      const Manifest manifest = open(*step);
      scan.usable.push_back({*step, manifest.serial, manifest.run, manifest.parent});
    } catch (const base::Error& error) {
      if (has(*step)) scan.unusable.push_back({*step, error.what()});  // else a run has removed it meanwhile
    }
  }
  std::stable_sort(scan.usable.begin(), scan.usable.end(),
                   [](const Usable& a, const Usable& b) { return a.serial > b.serial; });
  return scan;
}

std::vector<std::string> Directory::remains() const {
  std::vector<std::string> found;
  for (const std::string& name : names_in(path_)) {
    const bool ours = step_with(name, kTemporary) || step_with(name, kOld) ||
                      (step_of(name) && kind_of(path_ + "/" + name, true) == Kind::folder);
    if (ours || name == io::temporary_of(std::string(kLatest))) continue;
    if (name == kLatest || name.starts_with(kStep) || is_file_of_checkpoint(name)) found.push_back(name);
  }
  return found;
}

std::vector<std::string> Directory::move_aside(const std::string& to,
                                               const std::function<bool(std::string_view)>& whether) const {
  struct Found {
    std::int64_t serial = 0;
    std::string name;
  };
  std::vector<Found> going;
  bool stays = false, latest_goes = false;
  for (const std::int64_t step : steps()) {
    Found found{0, step_name(step)};
    std::string run;
    try {
      const Manifest manifest = read_manifest(folder_of(step));
      found.serial = manifest.serial;
      run = manifest.run;
    } catch (const base::Error&) {
      run.clear();
    }
    if (whether(run)) {
      going.push_back(std::move(found));
      latest_goes = latest_goes || latest() == step;
    } else {
      stays = true;
    }
  }
  // The newest one goes last: a start that is killed meanwhile finds it where it was.
  std::stable_sort(going.begin(), going.end(), [](const Found& a, const Found& b) { return a.serial < b.serial; });
  if ((latest_goes || !stays) && kind_of(path_ + "/" + std::string(kLatest), false) != Kind::none)
    going.insert(going.begin(), {0, std::string(kLatest)});
  std::vector<std::string> moved;
  for (const Found& found : going) {
    if (kind_of(to, true) == Kind::none) make_folder(to);
    rename_to(path_ + "/" + found.name, to + "/" + found.name);
    moved.push_back(found.name);
  }
  if (!moved.empty()) {
    io::sync_folder(to);
    io::sync_folder(path_);
  }
  return moved;
}

std::int64_t Directory::next_serial() const {
  std::int64_t largest = 0;
  for (const std::int64_t step : steps()) {
    try {
      largest = std::max(largest, read_manifest(folder_of(step)).serial);
    } catch (const base::Error&) {
      continue;  // what cannot be read is never newer than what can
    }
  }
  return largest + 1;
}

void Directory::make() const {
  if (const auto end = base::end_of_broken_link(path_))
    base::fail(base::ExitCode::environment,
               "'{}': is a link to '{}', which is not there; make that folder, or set checkpoint.dir to another one",
               path_, *end);
  std::error_code error = base::make_folders(path_);
  if (!error && !std::filesystem::is_directory(path_, error)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) {
    base::fail(base::ExitCode::environment,
               "cannot make folder '{}': {}; set checkpoint.dir to a folder that can be written to and has room", path_,
               error.message());
  }
  io::sync_folder(std::filesystem::path(path_).parent_path().string());
}

Directory::Done Directory::recover(bool removes) const {
  Done done;
  const auto move = [&](const std::string& from, const std::string& to) {
    return tried(done, [&] {
      rename_to(path_ + "/" + from, path_ + "/" + to);
      io::sync_folder(path_);
      done.renamed.push_back(from + " to " + to);
    });
  };
  const auto remove = [&](const std::string& name) {
    if (!removes) return;
    tried(done, [&] {
      remove_step_folder(path_ + "/" + name);
      done.removed.push_back(name);
    });
  };
  const auto names = names_in(path_);
  const auto is_folder = [&](const std::string& name) { return kind_of(path_ + "/" + name, true) == Kind::folder; };
  for (const std::string& old : names) {
    const auto step = step_with(old, kOld);
    if (!step || !is_folder(old)) continue;
    const std::string name = step_name(*step), temporary = name + std::string(kTemporary);
    if (!is_folder(name)) {
      if (is_usable(path_ + "/" + temporary, *step)) {
        if (!move(temporary, name)) continue;
      } else if (is_usable(path_ + "/" + old, *step)) {
        move(old, name);
        continue;
      }
    } else if (!is_usable(path_ + "/" + name, *step) && is_usable(path_ + "/" + old, *step)) {
      done.trouble.push_back(
          fmt::format("'{0}/{1}' is unusable, '{0}/{2}' is not: neither is touched; rename the one "
                      "that you need to '{1}'",
                      path_, name, old));
      continue;
    }
    remove(old);
  }
  for (const std::string& name : names) {
    if (step_with(name, kTemporary) && is_folder(name)) remove(name);
  }
  const std::string temporary = io::temporary_of(std::string(kLatest));
  if (removes && std::binary_search(names.begin(), names.end(), temporary) &&
      kind_of(path_ + "/" + temporary, false) == Kind::other) {
    if (tried(done, [&] { remove_file(path_ + "/" + temporary); })) done.removed.push_back(temporary);
  }
  return done;
}

std::string Directory::begin(std::int64_t step) const {
  const std::string name = folder_of(step);
  for (const std::string& path : {name, name + std::string(kTemporary), name + std::string(kOld)}) {
    if (kind_of(path, true) != Kind::other) continue;
    base::fail(base::ExitCode::environment,
               "'{}': is no folder, and a checkpoint needs this name; move it elsewhere, or set checkpoint.dir to "
               "another folder",
               path);
  }
  std::string folder = name + std::string(kTemporary);
  if (kind_of(folder, true) == Kind::folder) remove_step_folder(folder);
  make_folder(folder);
  return folder;
}

void Directory::require_file(std::int64_t step, const std::string& name, std::optional<std::uint64_t> length) const {
  const std::string path = fmt::format("{}{}/{}", folder_of(step), kTemporary, name);
  const std::string wrong = problem_of_file(path, length);
  if (wrong.empty()) return;
  base::fail(base::ExitCode::environment,
             "checkpoint.dir is not shared: a rank wrote '{}', and for this rank it {}; set checkpoint.dir to a folder "
             "that all nodes see",
             path, wrong);
}

Directory::Done Directory::commit(std::int64_t step) const {
  const std::string name = folder_of(step);
  const std::string temporary = name + std::string(kTemporary), old = name + std::string(kOld);
  Done done;
  io::sync_folder(temporary);
  const bool replaces = kind_of(name, false) != Kind::none;
  if (replaces) {
    if (kind_of(old, true) == Kind::folder) remove_step_folder(old);
    rename_to(name, old);
  }
  try {
    rename_to(temporary, name);
  } catch (const base::Error&) {
    if (replaces) rename_to(old, name);
    throw;
  }
  io::sync_folder(path_);
  tried(done, [&] { set_latest(step); });
  if (replaces && tried(done, [&] { remove_step_folder(old); })) done.removed.push_back(step_name(step) + ".old");
  return done;
}

void Directory::set_latest(std::int64_t step) const {
  io::write_durably(fmt::format("{}/{}", path_, kLatest), step_name(step) + "\n");
}

void Directory::abandon(std::int64_t step) const noexcept {
  try {
    remove_step_folder(folder_of(step) + std::string(kTemporary));
  } catch (const std::exception&) {
    return;  // recover() and begin() remove what is left
  }
}

Directory::Done Directory::retain(std::int64_t keep, std::string_view run) const {
  SHARD8_REQUIRE(keep >= 1, "keep = {}", keep);
  Done done;
  const auto kept = latest();
  std::int64_t newer = 0;
  for (const Usable& one : scan().usable) {
    if (one.run != run || newer++ < keep || one.step == kept) continue;
    const std::string name = folder_of(one.step), old = name + std::string(kOld);
    if (kind_of(name, false) != Kind::folder) continue;  // a link to a folder elsewhere is its maker's
    tried(done, [&] {
      if (kind_of(old, true) == Kind::folder) remove_step_folder(old);
      rename_to(name, old);
      io::sync_folder(path_);
      done.removed.push_back(step_name(one.step));
      remove_step_folder(old);
    });
  }
  return done;
}

}  // namespace shard8::checkpoint
