// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "io/hdf5.hpp"

namespace shard8::test {

/// The HDF5 type of T in memory.
template <class T>
hid_t h5_native() {
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_NATIVE_INT32;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return H5T_NATIVE_UINT64;
}

/// Writes a new HDF5 file with direct calls of the library. Use it only while no I/O thread runs a task.
class H5Writer {
 public:
  explicit H5Writer(const std::string& path)
      : file_(SHARD8_H5(path, H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)), H5Fclose) {}

  void group(const std::string& name) {
    io::H5Handle(SHARD8_H5(name, H5Gcreate2(file_.id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)), H5Gclose)
        .close(name);
  }

  /// Values of type T, stored as `stored`; chunked with Fletcher32 when chunk is not empty.
  template <class T>
  void dataset(const std::string& name, hid_t stored, const std::vector<hsize_t>& shape, const std::vector<T>& values,
               const std::vector<hsize_t>& chunk = {}) {
    io::H5Handle space(shape.empty()
                           ? SHARD8_H5(name, H5Screate(H5S_SCALAR))
                           : SHARD8_H5(name, H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr)),
                       H5Sclose);
    io::H5Handle plan(SHARD8_H5(name, H5Pcreate(H5P_DATASET_CREATE)), H5Pclose);
    if (!chunk.empty()) {
      SHARD8_H5(name, H5Pset_chunk(plan.id(), static_cast<int>(chunk.size()), chunk.data()));
      SHARD8_H5(name, H5Pset_fletcher32(plan.id()));
    }
    io::H5Handle data(
        SHARD8_H5(name, H5Dcreate2(file_.id(), name.c_str(), stored, space.id(), H5P_DEFAULT, plan.id(), H5P_DEFAULT)),
        H5Dclose);
    SHARD8_H5(name, H5Dwrite(data.id(), h5_native<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
    data.close(name);
  }

  hid_t id() const { return file_.id(); }

  void close() { file_.close("test file"); }

 private:
  io::H5Handle file_;
};

}  // namespace shard8::test
