// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/shard_file.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <span>
#include <system_error>

#include "base/error.hpp"
#include "io/hdf5.hpp"
#include "io/raw_file.hpp"

namespace shard8::io {
namespace {

static_assert(std::endian::native == std::endian::little);  // the types in files are

constexpr hsize_t kAlignedFrom = 64 * 1024, kAlignment = 4096;  // a page of memory, a block of most disks
constexpr hsize_t kMetadataAtOnce = 8 * 1024;                   // chosen: few gaps between data, little room lost

/// A file in memory that only this process sees. Holes of it take no memory.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& where) : where_(where), descriptor_(::memfd_create("shard", MFD_CLOEXEC)) {
    if (descriptor_ < 0) fail("create");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

  std::uint64_t length() const {
    const auto end = ::lseek(descriptor_, 0, SEEK_END);
    if (end < 0) fail("find the length of");
    return static_cast<std::uint64_t>(end);
  }

  void read(std::span<std::byte> out, std::uint64_t offset) const {
    const auto got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got != static_cast<ssize_t>(out.size())) fail("read");
  }

 private:
  [[noreturn]] void fail(const char* operation) const {
    base::fail(base::ExitCode::failed, "{}: cannot {} a file in memory (memfd_create): {}", where_, operation,
               std::generic_category().message(errno));
  }

  std::string where_;
  int descriptor_;
};

hid_t stored_type(const std::string& dtype) {
  if (dtype == "fp32") return H5T_IEEE_F32LE;
  if (dtype == "bf16") return H5T_STD_U16LE;
  if (dtype == "i32") return H5T_STD_I32LE;
  if (dtype == "i16") return H5T_STD_I16LE;
  return H5T_STD_U8LE;
}

/// Writes the objects of one file. `where` is for messages.
class Layout {
 public:
  Layout(hid_t file, const std::string& where)
      : file_(file), where_(where), plan_(H5Pcreate(H5P_LINK_CREATE), H5Pclose) {
    SHARD8_H5(where_, plan_.id());
    SHARD8_H5(where_, H5Pset_char_encoding(plan_.id(), H5T_CSET_UTF8));
  }

  void identity(const ShardIdentity& identity) {
    const H5Handle root(SHARD8_H5(where_, H5Gopen2(file_, "/", H5P_DEFAULT)), H5Gclose);
    text(root.id(), "format", "shard8 shard");
    numbers(root.id(), "format_version", {kShardFormatVersion});
    text(root.id(), "run_id", identity.run_id);
    numbers(root.id(), "step", {identity.step});
    group(root.id(), "tensors").close(where_);
  }

  std::uint64_t box(const ShardBox& box) {
    const H5Handle tensors = group(file_, "tensors");
    const H5Handle tensor = group(tensors.id(), box.name);
    const H5Handle content = group(tensor.id(), box.content);
    const std::array<hsize_t, 2> extents = {static_cast<hsize_t>(box.box.rows), static_cast<hsize_t>(box.box.cols)};
    const H5Handle space(
        SHARD8_H5(where_, H5Screate_simple(static_cast<int>(box.shape.size()), extents.data(), nullptr)), H5Sclose);
    const auto name = fmt::format("r{}_c{}", box.box.row0, box.box.col0);
    H5Handle data = dataset(content.id(), name, stored_type(box.dtype), space.id());
    text(data.id(), "dtype", box.dtype);
    numbers(data.id(), "shape", box.shape);
    numbers(data.id(), "row0", {box.box.row0});
    numbers(data.id(), "col0", {box.box.col0});
    return close_at(data);
  }

  std::uint64_t index(std::size_t bytes) {
    const H5Handle space(SHARD8_H5(where_, H5Screate(H5S_SCALAR)), H5Sclose);
    const H5Handle type = text_type(bytes);
    H5Handle data = dataset(file_, "index", type.id(), space.id());
    return close_at(data);
  }

 private:
  H5Handle group(hid_t parent, const std::string& name) {
    if (SHARD8_H5(where_, H5Lexists(parent, name.c_str(), H5P_DEFAULT)) > 0) {
      return {SHARD8_H5(where_, H5Gopen2(parent, name.c_str(), H5P_DEFAULT)), H5Gclose};
    }
    return {SHARD8_H5(where_, H5Gcreate2(parent, name.c_str(), plan_.id(), H5P_DEFAULT, H5P_DEFAULT)), H5Gclose};
  }

  H5Handle dataset(hid_t group, const std::string& name, hid_t type, hid_t space) {
    const H5Handle plan(SHARD8_H5(where_, H5Pcreate(H5P_DATASET_CREATE)), H5Pclose);
    SHARD8_H5(where_, H5Pset_layout(plan.id(), H5D_CONTIGUOUS));
    SHARD8_H5(where_, H5Pset_alloc_time(plan.id(), H5D_ALLOC_TIME_EARLY));
    SHARD8_H5(where_, H5Pset_fill_time(plan.id(), H5D_FILL_TIME_NEVER));
    SHARD8_H5(where_, H5Pset_obj_track_times(plan.id(), false));  // equal state gives equal files
    return {SHARD8_H5(where_, H5Dcreate2(group, name.c_str(), type, space, plan_.id(), plan.id(), H5P_DEFAULT)),
            H5Dclose};
  }

  std::uint64_t close_at(H5Handle& data) {
    const haddr_t offset = H5Dget_offset(data.id());
    if (offset == HADDR_UNDEF) h5_fail("H5Dget_offset(data)", where_);
    data.close(where_);
    return offset;
  }

  H5Handle text_type(std::size_t bytes) const {
    H5Handle type(SHARD8_H5(where_, H5Tcopy(H5T_C_S1)), H5Tclose);
    SHARD8_H5(where_, H5Tset_size(type.id(), bytes));
    SHARD8_H5(where_, H5Tset_strpad(type.id(), H5T_STR_SPACEPAD));
    SHARD8_H5(where_, H5Tset_cset(type.id(), H5T_CSET_UTF8));
    return type;
  }

  void text(hid_t object, const char* name, const std::string& value) {
    const std::string padded = value.empty() ? " " : value;  // HDF5 has no text of no bytes
    const H5Handle space(SHARD8_H5(where_, H5Screate(H5S_SCALAR)), H5Sclose);
    const H5Handle type = text_type(padded.size());
    attribute(object, name, type.id(), space.id(), type.id(), padded.data());
  }

  void numbers(hid_t object, const char* name, const std::vector<std::int64_t>& values) {
    const hsize_t extent = values.size();
    const H5Handle space(extent == 1 ? SHARD8_H5(where_, H5Screate(H5S_SCALAR))
                                     : SHARD8_H5(where_, H5Screate_simple(1, &extent, nullptr)),
                         H5Sclose);
    attribute(object, name, H5T_STD_I64LE, space.id(), H5T_NATIVE_INT64, values.data());
  }

  void attribute(hid_t object, const char* name, hid_t stored, hid_t space, hid_t in_memory, const void* value) {
    H5Handle attribute(SHARD8_H5(where_, H5Acreate2(object, name, stored, space, H5P_DEFAULT, H5P_DEFAULT)), H5Aclose);
    SHARD8_H5(where_, H5Awrite(attribute.id(), in_memory, value));
    attribute.close(where_);
  }

  hid_t file_;
  std::string where_;
  H5Handle plan_;
};

/// A bound of the file's length. HDF5's structures of a box have at most about 5 KiB and twice its names.
std::uint64_t most_bytes(const ShardIndex& index, std::size_t index_bytes) {
  std::uint64_t bytes = (std::uint64_t{1} << 20) + index_bytes;
  for (const auto& box : index.boxes) {
    bytes += box.bytes() + kAlignment + 8 * 1024 + 4 * (box.name.size() + box.content.size());
  }
  return bytes;
}

ShardLayout lay_out(const std::string& path, ShardIndex& index) {
  const std::string where = "'" + path + "'";
  const std::size_t index_bytes = shard_index_bytes(index.identity, index.boxes);
  if (const auto most = most_bytes(index, index_bytes), limit = longest_file(); most > limit) {
    base::fail(base::ExitCode::failed,
               "{}: may need {} bytes, and this process may write files of {}; raise the limit (ulimit -f)", where,
               most, limit);
  }
  const MemoryFile memory(where);
  const H5Handle access(SHARD8_H5(where, H5Pcreate(H5P_FILE_ACCESS)), H5Pclose);
  SHARD8_H5(where, H5Pset_fapl_stdio(access.id()));  // the default driver needs a path without links
  SHARD8_H5(where, H5Pset_alignment(access.id(), kAlignedFrom, kAlignment));
  SHARD8_H5(where, H5Pset_meta_block_size(access.id(), kMetadataAtOnce));
  SHARD8_H5(where, H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG));
  H5Handle file(SHARD8_H5(where, H5Fcreate(memory.path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id())), H5Fclose);
  ShardLayout layout;
  {
    Layout writer(file.id(), where);
    writer.identity(index.identity);
    for (auto& box : index.boxes) box.offset = writer.box(box);
    layout.index = {writer.index(index_bytes), index_bytes};
  }
  file.close(where);

  layout.length = memory.length();
  const auto problem = problem_of_places(index.boxes, layout.index, layout.length);
  SHARD8_REQUIRE(problem.empty(), "{}: HDF5's layout is not possible: {}", where, problem);
  for (const auto& range : rest_of(index.boxes, layout.index, layout.length)) {
    const auto first = layout.rest.size();
    layout.rest.resize(first + range.bytes);
    memory.read(std::span(layout.rest).subspan(first), range.offset);
  }
  return layout;
}

}  // namespace

ShardLayout lay_out_shard(IoThread& io, const std::string& path, ShardIndex& index) {
  return io.call([&] { return lay_out(path, index); });
}

}  // namespace shard8::io
