// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "io/token_file.hpp"
#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"

// Values that HDF5 would make up. What the checks say is held against what HDF5 reads: a file that passes has no fill
// value, which is -7 in these files.
namespace shard8::test {

using io::H5Handle;

constexpr std::int32_t kFill = -7;
constexpr auto kDeck = base::ExitCode::deck;

struct Plan {
  H5Handle handle{H5Pcreate(H5P_DATASET_CREATE), H5Pclose};

  Plan() { H5Pset_fill_value(handle.id(), H5T_NATIVE_INT32, &kFill); }
  hid_t id() const { return handle.id(); }
};

inline H5Handle space_of(const std::vector<hsize_t>& shape, const std::vector<hsize_t>& most = {}) {
  return {SHARD8_H5("space", H5Screate_simple(static_cast<int>(shape.size()), shape.data(),
                                              most.empty() ? nullptr : most.data())),
          H5Sclose};
}

/// The elements [start, start + count) of an array.
inline H5Handle box_of(const std::vector<hsize_t>& shape, const std::vector<hsize_t>& start,
                       const std::vector<hsize_t>& count) {
  H5Handle space = space_of(shape);
  SHARD8_H5("box", H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr));
  return space;
}

inline H5Handle create(hid_t file, const std::string& name, const H5Handle& space, const Plan& plan,
                       hid_t type = H5T_STD_I32LE) {
  return {SHARD8_H5(name, H5Dcreate2(file, name.c_str(), type, space.id(), H5P_DEFAULT, plan.id(), H5P_DEFAULT)),
          H5Dclose};
}

/// Writes 1, 2, 3, ... to a box.
inline void write_box(const H5Handle& data, const H5Handle& box) {
  const auto count = static_cast<hsize_t>(H5Sget_select_npoints(box.id()));
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), 1);
  const H5Handle memory = space_of({count});
  SHARD8_H5("write", H5Dwrite(data.id(), H5T_NATIVE_INT32, memory.id(), box.id(), H5P_DEFAULT, values.data()));
}

/// A file with one plain dataset `t` of 1, 2, 3, ...
inline void write_plain(const std::string& path, hsize_t count, const std::string& name = "t") {
  H5Writer writer(path);
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), 1);
  writer.dataset(name, H5T_STD_I32LE, {count}, values);
  writer.close();
}

struct Source {
  std::string file;
  hsize_t start, count;  ///< in the virtual dataset
  hsize_t from = 0;      ///< first element in the source
  hsize_t size = 0;      ///< of the source when the mapping is made; 0: all of it is mapped
  std::string dataset = "t";
};

/// A file with a virtual dataset `v` of `count` elements.
inline void write_virtual(const std::string& path, hsize_t count, const std::vector<Source>& sources,
                          const std::string& name = "v", hid_t type = H5T_STD_I32LE) {
  const H5Handle file(SHARD8_H5(path, H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)), H5Fclose);
  const Plan plan;
  for (const auto& s : sources) {
    const H5Handle target = box_of({count}, {s.start}, {s.count});
    const H5Handle source = s.size == 0 ? space_of({s.count}) : box_of({s.size}, {s.from}, {s.count});
    SHARD8_H5(path, H5Pset_virtual(plan.id(), target.id(), s.file.c_str(), s.dataset.c_str(), source.id()));
  }
  create(file.id(), name, space_of({count}), plan, type);
}

inline std::vector<std::int32_t> tokens_of(io::IoThread& io, const std::string& spec) {
  const io::TokenFile file(io, spec);
  std::vector<std::int32_t> out(static_cast<std::size_t>(file.elements()));
  file.read_flat(out, 0);
  return out;
}

/// Expects that a dataset passes and that HDF5 makes up none of its values.
inline void expect_whole(io::IoThread& io, const std::string& spec, std::size_t count) {
  SCOPED_TRACE(spec);
  try {
    const auto tokens = tokens_of(io, spec);
    EXPECT_EQ(tokens.size(), count);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), kFill), 0);
  } catch (const base::Error& error) {
    ADD_FAILURE() << error.what();
  }
}

inline void expect_refused(io::IoThread& io, const std::string& spec, const std::vector<std::string>& parts) {
  SCOPED_TRACE(spec);
  expect_error([&] { tokens_of(io, spec); }, kDeck, parts);
}

/// Makes a folder the working directory for a scope.
class Inside {
 public:
  explicit Inside(const std::string& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~Inside() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

}  // namespace shard8::test
