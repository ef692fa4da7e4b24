// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace shard8::io {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 4096;  // chosen, as PATH_MAX of Linux

std::uint64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::uint64_t elements = 1;
  for (const auto size : shape) elements *= static_cast<std::uint64_t>(size);
  return elements;
}

[[noreturn]] void fail_unwritten(const std::string& where, const std::string& what) {
  base::fail(base::ExitCode::deck,
             "{}: {}, and HDF5 would give the fill value in their place: was the file written to its end? write it "
             "again, or give another one",
             where, what);
}

void require_chunks(hid_t dataset, hid_t plan, const std::vector<std::int64_t>& shape, const std::string& where) {
  std::vector<hsize_t> chunk(shape.size());
  SHARD8_H5(where, H5Pget_chunk(plan, static_cast<int>(chunk.size()), chunk.data()));
  hsize_t needed = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) needed *= (static_cast<hsize_t>(shape[d]) - 1) / chunk[d] + 1;
  // H5Dget_space_status() compares bytes: of compressed chunks and of chunks at the edge it tells nothing.
  hsize_t written = 0;
  const H5Handle space(SHARD8_H5(where, H5Dget_space(dataset)), H5Sclose);
  SHARD8_H5(where, H5Dget_num_chunks(dataset, space.id(), &written));
  if (written >= needed) return;
  std::vector<hsize_t> at(shape.size());
  for (hsize_t bytes = 1; bytes > 0;) {  // row by row, to the first chunk that was not written
    if (H5Dget_chunk_storage_size(dataset, at.data(), &bytes) < 0) {
      H5Eclear2(H5E_DEFAULT);
      break;
    }
    if (bytes == 0) break;
    std::size_t d = shape.size();
    while (d-- > 0) {
      at[d] += chunk[d];
      if (at[d] < static_cast<hsize_t>(shape[d])) break;
      at[d] = 0;
    }
    if (d == static_cast<std::size_t>(-1)) break;  // all of them are there
  }
  fail_unwritten(where, fmt::format("{} of its {} chunks were never written, the first of them at element ({})",
                                    needed - written, needed, fmt::join(at, ", ")));
}

/// The path of an external file of raw data. Source: H5D__build_file_prefix() of HDF5 1.10.
std::string raw_path(const std::string& container, const std::string& name) {
  const char* const value = std::getenv("HDF5_EXTFILE_PREFIX");
  std::string prefix = value == nullptr ? "" : value;
  constexpr std::string_view kOrigin = "${ORIGIN}";
  if (prefix == ".") prefix.clear();
  if (prefix.starts_with(kOrigin)) {
    std::error_code error;
    const fs::path whole = fs::absolute(container, error);
    const fs::path folder = (error ? fs::path(container) : whole).parent_path();  // there may be no working directory
    prefix = folder.string() + "/" + prefix.substr(kOrigin.size());
  }
  return (fs::path(prefix) / name).string();  // an absolute name takes the place of the prefix
}

/// Checks the files that hold the bytes of a contiguous dataset. HDF5 reads zeros beyond the end of such a file.
void require_external(hid_t dataset, hid_t plan, int files, std::uint64_t elements, const std::string& where) {
  const H5Handle type(SHARD8_H5(where, H5Dget_type(dataset)), H5Tclose);
  std::uint64_t left = elements * H5Tget_size(type.id());
  const std::string container = h5_file_name(dataset, where);
  for (int i = 0; i < files && left > 0; ++i) {
    std::string name(kLongestName, '\0');
    off_t offset = 0;
    hsize_t size = 0;
    SHARD8_H5(where, H5Pget_external(plan, static_cast<unsigned>(i), name.size() - 1, name.data(), &offset, &size));
    name.resize(std::min(name.find('\0'), name.size()));
    const std::string path = raw_path(container, name);
    const std::uint64_t needed = static_cast<std::uint64_t>(offset) + std::min<std::uint64_t>(size, left);
    std::error_code status;
    if (!fs::is_regular_file(path, status)) {
      base::fail(base::ExitCode::deck,
                 "{}: its values are in the external file '{}', which is missing or no file: put it back, or set "
                 "HDF5_EXTFILE_PREFIX to its folder",
                 where, base::quotable(path));
    }
    const std::uint64_t found = fs::file_size(path, status);
    if (status || found < needed) {
      base::fail(base::ExitCode::deck,
                 "{}: its values are in the external file '{}', of which {} bytes are needed, but it has {}: copy it "
                 "again",
                 where, base::quotable(path), needed, status ? 0 : found);
    }
    left -= std::min<std::uint64_t>(size, left);
  }
  if (left > 0) fail_unwritten(where, fmt::format("its external files have no room for its last {} bytes", left));
}

}  // namespace

std::string h5_file_name(hid_t object, const std::string& where) {
  const auto size = SHARD8_H5(where, H5Fget_name(object, nullptr, 0));
  std::string name(static_cast<std::size_t>(size), '\0');
  SHARD8_H5(where, H5Fget_name(object, name.data(), name.size() + 1));
  return name;
}

std::string h5_missing_filter(hid_t dataset, const std::string& where) {
  const H5Handle plan(SHARD8_H5(where, H5Dget_create_plist(dataset)), H5Pclose);
  const int filters = SHARD8_H5(where, H5Pget_nfilters(plan.id()));
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    std::array<char, 64> name{};
    const auto filter = SHARD8_H5(where, H5Pget_filter2(plan.id(), static_cast<unsigned>(i), &flags, &values, nullptr,
                                                        name.size() - 1, name.data(), &config));
    if (H5Zfilter_avail(filter) > 0) continue;
    H5Eclear2(H5E_DEFAULT);  // the search for a plugin
    return fmt::format(
        "is packed with the HDF5 filter {} ('{}'), which this HDF5 lacks; name the folder of its plugin in "
        "HDF5_PLUGIN_PATH, or give a copy without it (h5repack -f NONE)",
        static_cast<int>(filter), base::quotable(name.data()));
  }
  return {};
}

void h5_require_filters(hid_t dataset, const std::string& where) {
  const std::string missing = h5_missing_filter(dataset, where);
  if (!missing.empty()) base::fail(base::ExitCode::deck, "{}: {}", where, missing);
}

void h5_require_allocated(hid_t dataset, const std::string& where) {
  const H5Handle type(SHARD8_H5(where, H5Dget_type(dataset)), H5Tclose);
  const H5T_class_t kind = H5Tget_class(type.id());
  if (kind == H5T_INTEGER || kind == H5T_FLOAT) StorageCheck().require_allocated(dataset, where);
}

void StorageCheck::require_allocated(hid_t dataset, const std::string& where) {
  const H5Handle space(SHARD8_H5(where, H5Dget_space(dataset)), H5Sclose);
  if (SHARD8_H5(where, H5Sget_simple_extent_type(space.id())) == H5S_NULL) return;
  const auto shape = h5_dataset_shape(dataset, where);
  const std::uint64_t elements = elements_of(shape);
  if (elements == 0) return;
  const H5Handle plan(SHARD8_H5(where, H5Dget_create_plist(dataset)), H5Pclose);
  switch (SHARD8_H5(where, H5Pget_layout(plan.id()))) {
    case H5D_VIRTUAL:
      return require_virtual(dataset, plan.id(), where);
    case H5D_CHUNKED:
      return require_chunks(dataset, plan.id(), shape, where);
    default:
      break;
  }
  const int files = SHARD8_H5(where, H5Pget_external_count(plan.id()));
  if (files > 0) return require_external(dataset, plan.id(), files, elements, where);
  H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
  SHARD8_H5(where, H5Dget_space_status(dataset, &status));
  if (status != H5D_SPACE_STATUS_ALLOCATED) fail_unwritten(where, "its values were never written");
}

}  // namespace shard8::io
