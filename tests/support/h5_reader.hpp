// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "io/hdf5.hpp"

namespace shard8::tests {

/// A dataset of an HDF5 file, row-major: fp32 (float) or bytes (std::uint8_t), of any number of dimensions.
template <class T>
struct H5Array {
  std::vector<std::int64_t> shape;
  std::vector<T> values;
};

/// Reads a dataset. Error(failed) if the dataset is missing or is stored as another type than T.
template <class T>
H5Array<T> h5_read(const std::string& path, const std::string& name) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, std::uint8_t>);
  const hid_t type = std::is_same_v<T, float> ? H5T_NATIVE_FLOAT : H5T_NATIVE_UINT8;
  const std::string where = path + ":" + name;
  const io::H5Handle file = io::h5_open_file(path);
  const io::H5Handle data(SHARD8_H5(where, H5Dopen2(file.id(), name.c_str(), H5P_DEFAULT)), H5Dclose);
  const io::H5Handle stored(SHARD8_H5(where, H5Dget_type(data.id())), H5Tclose);
  if (SHARD8_H5(where, H5Tequal(stored.id(), type)) == 0) io::h5_fail("H5Tequal(stored, wanted)", where);
  const io::H5Handle space(SHARD8_H5(where, H5Dget_space(data.id())), H5Sclose);
  std::vector<hsize_t> extents(static_cast<std::size_t>(SHARD8_H5(where, H5Sget_simple_extent_ndims(space.id()))));
  SHARD8_H5(where, H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr));
  H5Array<T> array;
  array.shape.assign(extents.begin(), extents.end());
  array.values.resize(static_cast<std::size_t>(SHARD8_H5(where, H5Sget_simple_extent_npoints(space.id()))));
  SHARD8_H5(where, H5Dread(data.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.values.data()));
  return array;
}

}  // namespace shard8::tests
