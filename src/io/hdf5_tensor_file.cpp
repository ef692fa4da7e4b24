// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/box.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_storage.hpp"
#include "io/hdf5_stored_values.hpp"
#include "io/tensor_formats.hpp"

namespace shard8::io {

namespace {

// Bits are read in blocks of rows of at most this many values, before they are decoded. Chosen.
constexpr std::int64_t kBlock = std::int64_t{1} << 20;

class Hdf5TensorFile final : public TensorFile {
 public:
  Hdf5TensorFile(IoThread& io, const std::string& spec) : TensorFile(spec), io_(io) {
    io_.call([this] { open(); });
  }

  ~Hdf5TensorFile() override {
    io_.call([this] {
      group_ = H5Handle();
      file_ = H5Handle();
    });
  }

 private:
  void open() {
    auto [path, group] = h5_split(spec());
    if (group.empty()) group = "/";
    auto file = h5_open_file(path);
    auto at = h5_open_object(file.id(), path, group, H5O_TYPE_GROUP);
    for (auto& name : h5_children(at.id(), spec(), H5O_TYPE_DATASET)) {
      const auto where = fmt::format("'{}': tensor '{}'", spec(), base::quotable(name));
      const auto data = h5_open_dataset(at.id(), name, where);
      auto shape = h5_dataset_shape(data.id(), where);
      auto values = stored_values(data.id(), where);
      if (values.unreadable.empty()) h5_require_allocated(data.id(), where);
      if (values.bits) bits_.emplace(name, *values.bits);
      add(std::move(name), std::move(shape), std::move(values.unreadable));
    }
    // Stored last: if something above throws, its handles are closed here, on the I/O thread.
    file_ = std::move(file);
    group_ = std::move(at);
  }

  void read_checked(const std::string& name, const Box& box, float* out, std::int64_t row_stride) const override {
    io_.call([&] { read_here(name, box, out, row_stride); });
  }

  void read_here(const std::string& name, const Box& box, float* out, std::int64_t row_stride) const {
    const auto where = fmt::format("'{}': tensor '{}'", spec(), base::quotable(name));
    const auto data = h5_open_dataset(group_.id(), name, where);
    const auto bits = bits_.find(name);
    if (bits == bits_.end()) return read_values(data.id(), where, box, H5T_NATIVE_FLOAT, out, row_stride);

    const H5Handle type(SHARD8_H5(where, H5Dget_type(data.id())), H5Tclose);
    const H5Handle native(SHARD8_H5(where, H5Tget_native_type(type.id(), H5T_DIR_DEFAULT)), H5Tclose);
    const std::int64_t rows_at_once = std::clamp<std::int64_t>(kBlock / box.cols, 1, box.rows);
    std::vector<std::byte> buffer(static_cast<std::size_t>(rows_at_once * box.cols * bytes_of(bits->second)));
    for (std::int64_t first = 0; first < box.rows; first += rows_at_once) {
      const Box rows = clip_rows(box, box.row0 + first, rows_at_once);
      read_values(data.id(), where, rows, native.id(), buffer.data(), rows.cols);
      for (std::int64_t r = 0; r < rows.rows; ++r) {
        const std::byte* const row = buffer.data() + r * rows.cols * bytes_of(bits->second);
        decode_floats(out + (first + r) * row_stride, row, rows.cols, bits->second);
      }
    }
  }

  /// Reads a box as values of an HDF5 type in memory, into rows of `row_stride` such values.
  static void read_values(hid_t data, const std::string& where, const Box& box, hid_t type, void* out,
                          std::int64_t row_stride) {
    const std::array<hsize_t, 2> first = {static_cast<hsize_t>(box.row0), static_cast<hsize_t>(box.col0)};
    const std::array<hsize_t, 2> count = {static_cast<hsize_t>(box.rows), static_cast<hsize_t>(box.cols)};
    const H5Handle from(SHARD8_H5(where, H5Dget_space(data)), H5Sclose);
    const int rank = SHARD8_H5(where, H5Sget_simple_extent_ndims(from.id()));
    if (rank > 0) {
      SHARD8_H5(where, H5Sselect_hyperslab(from.id(), H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr));
    }
    const std::array<hsize_t, 2> memory = {count[0], static_cast<hsize_t>(row_stride)};
    const std::array<hsize_t, 2> origin = {0, 0};
    const H5Handle to(SHARD8_H5(where, H5Screate_simple(2, memory.data(), nullptr)), H5Sclose);
    SHARD8_H5(where, H5Sselect_hyperslab(to.id(), H5S_SELECT_SET, origin.data(), nullptr, count.data(), nullptr));
    SHARD8_H5(where, H5Dread(data, type, to.id(), from.id(), H5P_DEFAULT, out));
  }

  IoThread& io_;
  H5Handle file_;
  H5Handle group_;
  std::map<std::string, StoredFloat> bits_;  ///< tensors that are stored as bits of this type
};

}  // namespace

std::unique_ptr<TensorFile> open_hdf5_tensors(IoThread& io, const std::string& spec) {
  return std::make_unique<Hdf5TensorFile>(io, spec);
}

}  // namespace shard8::io
