// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/token_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "io/hdf5.hpp"

namespace shard8::io {

namespace {

/// The number of elements in the ranges, which must lie inside the shape.
std::int64_t require_inside(const std::string& spec, std::span<const std::int64_t> shape,
                            std::span<const Range> ranges) {
  SHARD8_REQUIRE(ranges.size() == shape.size(), "'{}': {} ranges for {} dimensions", spec, ranges.size(), shape.size());
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto& [start, count, stride] = ranges[d];
    const bool inside = start >= 0 && count >= 0 && stride >= 1 &&
                        (count == 0 || (start < shape[d] && count - 1 <= (shape[d] - 1 - start) / stride));
    if (!inside) {
      base::fail(base::ExitCode::failed,
                 "'{}': {} indices from {} in steps of {} are needed along dimension {}, which has "
                 "{} (shape ({}))",
                 spec, count, start, stride, d, shape[d], fmt::join(shape, ", "));
    }
    elements *= count;
  }
  return elements;
}

/// TokenFile::fill_value().
std::optional<std::int32_t> fill_value_of(hid_t dataset, const std::string& where) {
  const H5Handle plan(SHARD8_H5(where, H5Dget_create_plist(dataset)), H5Pclose);
  H5D_fill_value_t status = H5D_FILL_VALUE_ERROR;
  SHARD8_H5(where, H5Pfill_value_defined(plan.id(), &status));
  if (status == H5D_FILL_VALUE_UNDEFINED) return std::nullopt;
  std::int64_t value = 0;
  SHARD8_H5(where, H5Pget_fill_value(plan.id(), H5T_NATIVE_INT64, &value));
  if (value != static_cast<std::int32_t>(value)) return std::nullopt;
  return static_cast<std::int32_t>(value);
}

/// The names of the datasets in a file's root, for a message.
std::string datasets_in(const std::string& path) {
  const auto file = h5_open_file(path);
  const H5Handle root(SHARD8_H5(path, H5Gopen2(file.id(), "/", H5P_DEFAULT)), H5Gclose);
  return list_names(h5_children(root.id(), path, H5O_TYPE_DATASET));
}

}  // namespace

struct TokenFile::Handles {
  H5Handle file;
  H5Handle data;
};

TokenFile::TokenFile(IoThread& io, std::string spec) : io_(io), spec_(std::move(spec)) {
  io_.call([this] { open(); });
}

TokenFile::~TokenFile() {
  io_.call([this] { handles_.reset(); });
}

void TokenFile::open() {
  const auto [path, object] = h5_split(spec_);
  if (object.size() < 2) {
    base::fail(base::ExitCode::deck, "'{}': names no dataset; needed is file.h5:/dataset, and in its root are ({})",
               path, datasets_in(path));
  }
  auto file = h5_open_file(path);
  auto data = h5_open_object(file.id(), path, object, H5O_TYPE_DATASET);
  const auto where = fmt::format("'{}'", spec_);
  if (h5_require_numbers(data.id(), where) != H5T_INTEGER) {
    base::fail(base::ExitCode::failed, "'{}': is of a floating-point type; tokens must be integers, of any width",
               spec_);
  }
  shape_ = h5_dataset_shape(data.id(), where);
  h5_require_filters(data.id(), where);
  h5_require_allocated(data.id(), where);
  fill_value_ = fill_value_of(data.id(), where);
  const H5Handle type(SHARD8_H5(where, H5Dget_type(data.id())), H5Tclose);
  const auto bytes = H5Tget_size(type.id());
  narrow_ = bytes < 4 || (bytes == 4 && SHARD8_H5(where, H5Tget_sign(type.id())) == H5T_SGN_2);
  handles_ = std::make_unique<Handles>(Handles{std::move(file), std::move(data)});
}

std::int64_t TokenFile::elements() const {
  std::int64_t product = 1;
  for (const auto size : shape_) product *= size;
  return product;
}

void TokenFile::read(std::span<std::int32_t> out, std::span<const Range> ranges) const {
  const auto elements = require_inside(spec_, shape_, ranges);
  SHARD8_REQUIRE(static_cast<std::int64_t>(out.size()) >= elements, "'{}': {} elements to read into a buffer of {}",
                 spec_, elements, out.size());
  if (elements == 0) return;
  const auto target = out.first(static_cast<std::size_t>(elements));
  io_.call([&] { read_here(target, ranges); });
}

void TokenFile::read_here(std::span<std::int32_t> out, std::span<const Range> ranges) const {
  const auto where = fmt::format("'{}'", spec_);
  std::vector<hsize_t> start, stride, count;
  for (const auto& range : ranges) {
    start.push_back(static_cast<hsize_t>(range.start));
    stride.push_back(static_cast<hsize_t>(range.stride));
    count.push_back(static_cast<hsize_t>(range.count));
  }
  const hid_t data = handles_->data.id();
  const H5Handle from(SHARD8_H5(where, H5Dget_space(data)), H5Sclose);
  if (!ranges.empty()) {
    SHARD8_H5(where,
              H5Sselect_hyperslab(from.id(), H5S_SELECT_SET, start.data(), stride.data(), count.data(), nullptr));
  }
  const hsize_t elements = out.size();
  const H5Handle to(SHARD8_H5(where, H5Screate_simple(1, &elements, nullptr)), H5Sclose);
  if (narrow_) {
    SHARD8_H5(where, H5Dread(data, H5T_NATIVE_INT32, to.id(), from.id(), H5P_DEFAULT, out.data()));
    return;
  }
  // HDF5 clips a value that does not fit without an error, so wide values are read and compared.
  std::vector<std::int64_t> wide(out.size());
  SHARD8_H5(where, H5Dread(data, H5T_NATIVE_INT64, to.id(), from.id(), H5P_DEFAULT, wide.data()));
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (wide[i] != static_cast<std::int32_t>(wide[i])) {
      base::fail(base::ExitCode::failed,
                 "'{}': holds the token {}; tokens are from 0 to {} and smaller than model.vocab", spec_, wide[i],
                 std::numeric_limits<std::int32_t>::max());
    }
    out[i] = static_cast<std::int32_t>(wide[i]);
  }
}

void TokenFile::read_flat(std::span<std::int32_t> out, std::int64_t first) const {
  const auto count = static_cast<std::int64_t>(out.size());
  SHARD8_REQUIRE(first >= 0 && first <= elements() && count <= elements() - first, "'{}': {} elements from {} of {}",
                 spec_, count, first, elements());
  for_each_box(shape_, first, count, [&](std::span<const Range> ranges, std::int64_t elements) {
    read(out.first(static_cast<std::size_t>(elements)), ranges);
    out = out.subspan(static_cast<std::size_t>(elements));
  });
}

}  // namespace shard8::io
