// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/step_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest.hpp"
#include "io/durable_file.hpp"

namespace shard8::checkpoint {

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void cannot_write(const std::string& path, const std::string& operation, int error) {
  base::fail(base::ExitCode::environment,
             "'{}': cannot {}: {}; set checkpoint.dir to a folder that can be written to and has room", path, operation,
             reason(error));
}

bool is_numbered(const std::string& name, std::string_view before, std::string_view after) {
  if (!name.starts_with(before) || !name.ends_with(after) || name.size() <= before.size() + after.size()) return false;
  const auto digits = std::string_view(name).substr(before.size(), name.size() - before.size() - after.size());
  return digits.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

Kind kind_of(const std::string& path, bool follow) {
  struct stat status = {};
  const int result = follow ? ::stat(path.c_str(), &status) : ::lstat(path.c_str(), &status);
  if (result == 0) return S_ISDIR(status.st_mode) ? Kind::folder : Kind::other;
  if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return Kind::none;
  base::fail(base::ExitCode::checkpoint, "'{}': cannot examine it: {}; checkpoint.dir must be readable", path,
             reason(errno));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(folder, error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    base::fail(base::ExitCode::checkpoint, "'{}': cannot list the folder: {}; checkpoint.dir must be a readable folder",
               folder, error.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_file_of_checkpoint(const std::string& name) {
  return name == kManifestFile || name == io::temporary_of(std::string(kManifestFile)) ||
         is_numbered(name, "shard_r", ".h5") || is_numbered(name, "node_n", ".h5");
}

void make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0) cannot_write(path, "make the folder", errno);
}

void rename_to(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) cannot_write(from, "rename it to '" + to + "'", errno);
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) cannot_write(path, "remove it", errno);
}

void remove_step_folder(const std::string& path) {
  if (kind_of(path, false) == Kind::other && kind_of(path, true) == Kind::folder) return remove_file(path);  // a link
  auto names = names_in(path);
  // Without its manifest, a folder that is only half removed is not taken for a checkpoint.
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name == kManifestFile; });
  std::string foreign;
  for (const std::string& name : names) {
    const std::string file = path + "/" + name;
    if (is_file_of_checkpoint(name) && kind_of(file, false) != Kind::folder) {
      remove_file(file);
    } else if (foreign.empty()) {
      foreign = name;
    }
  }
  if (!foreign.empty()) {
    base::fail(base::ExitCode::environment,
               "'{}': holds '{}', which is no file of a checkpoint: the folder stays; move that elsewhere and remove "
               "the folder",
               path, base::quotable(foreign));
  }
  if (::rmdir(path.c_str()) != 0 && errno != ENOENT) cannot_write(path, "remove the folder", errno);
}

}  // namespace shard8::checkpoint
