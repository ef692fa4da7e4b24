// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5_object.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"

namespace shard8::io {

namespace {

const char* type_name(H5O_type_t type) { return type == H5O_TYPE_GROUP ? "group" : "dataset"; }

H5O_type_t type_of(hid_t at, const std::string& name, const std::string& where) {
  H5O_info_t info;
  SHARD8_H5(where, H5Oget_info_by_name(at, name.c_str(), &info, H5P_DEFAULT));
  return info.type;
}

/// Whether "/a/b/c" leads to an object: each part before the last must be a group.
bool exists(hid_t file, const std::string& path, const std::string& object) {
  for (auto slash = object.find('/', 1);; slash = object.find('/', slash + 1)) {
    const auto part = object.substr(0, slash);
    if (SHARD8_H5(path, H5Lexists(file, part.c_str(), H5P_DEFAULT)) == 0) return false;
    if (SHARD8_H5(path, H5Oexists_by_name(file, part.c_str(), H5P_DEFAULT)) == 0) return false;
    if (slash == std::string::npos) return true;
    if (type_of(file, part, path) != H5O_TYPE_GROUP) return false;
  }
}

herr_t append_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

}  // namespace

void h5_require_object(hid_t file, const std::string& path, const std::string& object, H5O_type_t type) {
  if (object == "/" ? type == H5O_TYPE_GROUP : exists(file, path, object) && type_of(file, object, path) == type) {
    return;
  }
  const H5Handle root(SHARD8_H5(path, H5Gopen2(file, "/", H5P_DEFAULT)), H5Gclose);
  base::fail(base::ExitCode::deck, "'{}': has no {} '{}'; in its root are the groups ({}) and the datasets ({})", path,
             type_name(type), object, fmt::join(h5_children(root.id(), path, H5O_TYPE_GROUP), ", "),
             fmt::join(h5_children(root.id(), path, H5O_TYPE_DATASET), ", "));
}

std::vector<std::string> h5_children(hid_t group, const std::string& where, H5O_type_t type) {
  std::vector<std::string> links;
  SHARD8_H5(where, H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, append_name, &links));
  std::vector<std::string> out;
  for (auto& name : links) {
    const bool leads = SHARD8_H5(where, H5Oexists_by_name(group, name.c_str(), H5P_DEFAULT)) > 0;
    if (leads && type_of(group, name, where) == type) out.push_back(std::move(name));
  }
  return out;
}

H5Handle h5_open_dataset(hid_t group, const std::string& name, const std::string& where) {
  return {SHARD8_H5(where, H5Dopen2(group, name.c_str(), H5P_DEFAULT)), H5Dclose};
}

std::vector<std::int64_t> h5_dataset_shape(hid_t dataset, const std::string& where) {
  const H5Handle space(SHARD8_H5(where, H5Dget_space(dataset)), H5Sclose);
  const int rank = SHARD8_H5(where, H5Sget_simple_extent_ndims(space.id()));
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  SHARD8_H5(where, H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr));
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
