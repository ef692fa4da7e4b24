// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_formats.hpp"

#include <fmt/format.h>

#include <array>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_storage.hpp"

namespace shard8::io {

namespace {

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
      auto shape = h5_dataset_shape(h5_open_dataset(at.id(), name, where).id(), where);
      h5_require_allocated(h5_open_dataset(at.id(), name, where).id(), where);
      add(std::move(name), std::move(shape));
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
    h5_require_numbers(data.id(), where);

    const auto rank = shape(name).size();
    const std::array<hsize_t, 2> first = {static_cast<hsize_t>(box.row0), static_cast<hsize_t>(box.col0)};
    const std::array<hsize_t, 2> count = {static_cast<hsize_t>(box.rows), static_cast<hsize_t>(box.cols)};
    const H5Handle from(SHARD8_H5(where, H5Dget_space(data.id())), H5Sclose);
    if (rank > 0) {
      SHARD8_H5(where, H5Sselect_hyperslab(from.id(), H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr));
    }
    const std::array<hsize_t, 2> memory = {count[0], static_cast<hsize_t>(row_stride)};
    const std::array<hsize_t, 2> origin = {0, 0};
    const H5Handle to(SHARD8_H5(where, H5Screate_simple(2, memory.data(), nullptr)), H5Sclose);
    SHARD8_H5(where, H5Sselect_hyperslab(to.id(), H5S_SELECT_SET, origin.data(), nullptr, count.data(), nullptr));
    SHARD8_H5(where, H5Dread(data.id(), H5T_NATIVE_FLOAT, to.id(), from.id(), H5P_DEFAULT, out));
  }

  IoThread& io_;
  H5Handle file_;
  H5Handle group_;
};

}  // namespace

std::unique_ptr<TensorFile> open_hdf5_tensors(IoThread& io, const std::string& spec) {
  return std::make_unique<Hdf5TensorFile>(io, spec);
}

}  // namespace shard8::io
