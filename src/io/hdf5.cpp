// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/file.hpp"

namespace shard8::io {
namespace {

herr_t append_line(unsigned depth, const H5E_error2_t* error, void* text) {
  auto& lines = *static_cast<std::string*>(text);
  if (depth > 0) lines += "; ";
  lines += error->func_name;
  lines += ": ";
  lines += error->desc;
  return 0;
}

/// Takes the error stack as one line, innermost call first, and clears the stack.
std::string take_error_stack() {
  std::string text;
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, append_line, &text) < 0 || text.empty()) {
    text = "(nothing)";
  }
  H5Eclear2(H5E_DEFAULT);
  return base::printable(base::shortened(text, 2000));  // HDF5's text may hold names of any length and bytes
}

// Chosen, as PATH_MAX of Linux: HDF5 itself sets no limit.
constexpr std::size_t kLongestObjectName = 4096;

const char* type_name(H5O_type_t type) { return type == H5O_TYPE_GROUP ? "group" : "dataset"; }

/// Refuses external links to anything but a regular file: HDF5 would open a FIFO and wait for its writer.
herr_t refuse_special_files(const char* parent, const char*, const char* child, const char*, unsigned*, hid_t, void*) {
  namespace fs = std::filesystem;
  const fs::path target(child);
  const fs::path folder = fs::path(parent).parent_path();
  for (const auto& candidate : {target, folder / target, folder / target.filename()}) {
    std::error_code status;
    if (fs::exists(candidate, status) && !fs::is_regular_file(candidate, status)) return -1;
  }
  return 0;
}

/// The access properties with which links are followed.
H5Handle link_access() {
  H5Handle access(SHARD8_H5("HDF5", H5Pcreate(H5P_LINK_ACCESS)), H5Pclose);
  SHARD8_H5("HDF5", H5Pset_elink_cb(access.id(), refuse_special_files, nullptr));
  return access;
}

/// Whether the link is soft or external. Such a link may lead to no object or in a circle; the file is valid then.
bool may_lead_nowhere(hid_t group, const char* name, const std::string& where) {
  H5L_info_t link;
  SHARD8_H5(where, H5Lget_info(group, name, &link, H5P_DEFAULT));
  return link.type != H5L_TYPE_HARD;
}

/// The object behind a link of a group; an id below 0 if the link leads to no object.
H5Handle open_behind(hid_t group, const std::string& name, const std::string& where, hid_t access) {
  H5Handle object(H5Oopen(group, name.c_str(), access), H5Oclose);
  if (object.id() < 0) {
    if (!may_lead_nowhere(group, name.c_str(), where)) h5_fail("H5Oopen(group, name, access)", where);
    H5Eclear2(H5E_DEFAULT);
  }
  return object;
}

/// The parts of "/a/b//c" between the slashes; as in HDF5, "." is the group itself.
std::vector<std::string> parts_of(std::string_view object) {
  std::vector<std::string> parts;
  while (!object.empty()) {
    const auto end = std::min(object.find('/'), object.size());
    const auto part = object.substr(0, end);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    object.remove_prefix(std::min(end + 1, object.size()));
  }
  return parts;
}

/// What to do about an error, by the words of HDF5 1.10's stack, with what separates it from them. Empty: not known.
std::string advice_for(std::string_view stack) {
  const auto says = [&](std::string_view words) { return stack.find(words) != std::string_view::npos; };
  // HDF5 locks files even for reading, by flock(), or fcntl() where there is none.
  if (says("unable to lock file") &&
      (says(fmt::format("errno = {},", EAGAIN)) || says(fmt::format("errno = {},", EACCES))))
    return "; another process writes the file now: start when that process has closed it, or give a copy of the file";
  if (says("unable to lock file")) return "; on a file system without locks set HDF5_USE_FILE_LOCKING=FALSE";
  if (says("file is already open for write"))
    return "; another process writes the file now, or ended without closing it: start when the file is closed; if no "
           "process has it open, `h5clear -s` mends it";
  if (says("truncated file")) return "; the file is not whole: it is still written, or was not copied to its end";
  return {};
}

bool has_type(const H5Handle& object, H5O_type_t type) {
  const H5I_type_t found = H5Iget_type(object.id());
  return type == H5O_TYPE_GROUP ? found == H5I_GROUP : found == H5I_DATASET;
}

herr_t append_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

}  // namespace

void H5Handle::close(const std::string& where) {
  const hid_t id = std::exchange(id_, -1);
  if (id >= 0 && close_(id) < 0) h5_fail("close", where);
}

void h5_open_library() {
  H5dont_atexit();  // exit() on another thread would end the library while the I/O thread reads
  h5_check(H5open(), "H5open()", "HDF5");
}

void h5_silence() { h5_check(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "H5Eset_auto2(...)", "HDF5"); }

void h5_fail(const char* expression, const std::string& where) {
  const std::string stack = take_error_stack();
  base::fail(base::ExitCode::failed, "{}: {} failed; HDF5 says: {}{}", where, expression, stack, advice_for(stack));
}

H5Handle h5_open_file(const std::string& path) {
  require_content(path);
  std::error_code status;
  if (!std::filesystem::is_regular_file(path, status)) {
    base::fail(base::ExitCode::deck, "'{}': {}; an HDF5 file is needed here, written as file.h5:/object", path,
               std::filesystem::exists(path, status) ? "not a regular file" : "no such file");
  }
  const htri_t known = H5Fis_hdf5(path.c_str());
  if (known == 0) {
    base::fail(base::ExitCode::failed,
               "'{}': not an HDF5 file (its signature is missing); check the path, or copy the "
               "file again",
               path);
  }
  h5_check(known, "H5Fis_hdf5(path)", path);
  return {SHARD8_H5(path, H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)), H5Fclose};
}

H5Spec h5_split(const std::string& spec) {
  const auto colon = spec.rfind(":/");
  if (colon == std::string::npos) return {spec, ""};
  return {spec.substr(0, colon), spec.substr(colon + 1)};
}

H5Handle h5_open_object(hid_t file, const std::string& path, const std::string& object, H5O_type_t type) {
  if (object.size() > kLongestObjectName) {
    base::fail(base::ExitCode::deck, "'{}': the name '{}' has {} bytes; at most {} are allowed", path,
               base::quotable(object), object.size(), kLongestObjectName);
  }
  const H5Handle access = link_access();
  H5Handle at(SHARD8_H5(path, H5Oopen(file, "/", H5P_DEFAULT)), H5Oclose);
  bool found = true;
  for (const auto& part : parts_of(object)) {
    found = has_type(at, H5O_TYPE_GROUP) && part.find('\0') == std::string::npos &&
            SHARD8_H5(path, H5Lexists(at.id(), part.c_str(), H5P_DEFAULT)) > 0;
    if (!found) break;
    at = open_behind(at.id(), part, path, access.id());
    if (at.id() < 0) {
      base::fail(base::ExitCode::deck, "'{}': the link '{}' in '{}' leads to no object; make it point to a {}", path,
                 base::quotable(part), base::quotable(object), type_name(type));
    }
  }
  if (found && has_type(at, type)) return at;
  const H5Handle root(SHARD8_H5(path, H5Gopen2(file, "/", H5P_DEFAULT)), H5Gclose);
  base::fail(base::ExitCode::deck, "'{}': has no {} '{}'; in its root are the groups ({}) and the datasets ({})", path,
             type_name(type), base::quotable(object), list_names(h5_children(root.id(), path, H5O_TYPE_GROUP)),
             list_names(h5_children(root.id(), path, H5O_TYPE_DATASET)));
}

std::vector<std::string> h5_children(hid_t group, const std::string& where, H5O_type_t type) {
  std::vector<std::string> links;
  SHARD8_H5(where, H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, append_name, &links));
  const H5Handle access = link_access();
  std::vector<std::string> out;
  for (auto& name : links) {
    const H5Handle object = open_behind(group, name, where, access.id());
    if (object.id() >= 0 && has_type(object, type)) out.push_back(std::move(name));
  }
  return out;
}

std::string list_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    text += (i == 0 ? "" : ", ") + base::quotable(names[i]);
  }
  if (names.size() > kMost) text += fmt::format(" and {} more", names.size() - kMost);
  return text;
}

H5Handle h5_open_dataset(hid_t group, const std::string& name, const std::string& where) {
  return {SHARD8_H5(where, H5Dopen2(group, name.c_str(), H5P_DEFAULT)), H5Dclose};
}

std::vector<std::int64_t> h5_dataset_shape(hid_t dataset, const std::string& where) {
  const H5Handle space(SHARD8_H5(where, H5Dget_space(dataset)), H5Sclose);
  const int rank = SHARD8_H5(where, H5Sget_simple_extent_ndims(space.id()));
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  SHARD8_H5(where, H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr));
  std::int64_t elements = 1;
  bool fits = true;
  for (const auto size : sizes) fits &= size <= INT64_MAX && !__builtin_mul_overflow(elements, size, &elements);
  if (!fits) {
    base::fail(base::ExitCode::failed, "{}: shape ({}) has more than 2^63 - 1 elements", where, fmt::join(sizes, ", "));
  }
  return {sizes.begin(), sizes.end()};
}

H5T_class_t h5_require_numbers(hid_t dataset, const std::string& where) {
  const H5Handle type(SHARD8_H5(where, H5Dget_type(dataset)), H5Tclose);
  const H5T_class_t kind = H5Tget_class(type.id());
  if (kind == H5T_NO_CLASS) h5_fail("H5Tget_class(type)", where);
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) {
    base::fail(base::ExitCode::failed, "{}: is neither of an integer nor of a floating-point type (HDF5 class {})",
               where, static_cast<int>(kind));
  }
  return kind;
}

}  // namespace shard8::io
