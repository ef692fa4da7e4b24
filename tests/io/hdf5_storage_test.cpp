// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Values that HDF5 would make up. What the checks say is held against what HDF5 reads: a file that passes has no fill
// value, which is -7 in these files.
#include "io/hdf5_storage.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "io/hdf5_virtual.hpp"
#include "io/tensor_file.hpp"
#include "io/token_file.hpp"
#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"

using namespace shard8;
using io::H5Handle;

namespace {

namespace fs = std::filesystem;

constexpr std::int32_t kFill = -7;
constexpr auto kDeck = base::ExitCode::deck;

struct Plan {
  H5Handle handle{H5Pcreate(H5P_DATASET_CREATE), H5Pclose};

  Plan() { H5Pset_fill_value(handle.id(), H5T_NATIVE_INT32, &kFill); }
  hid_t id() const { return handle.id(); }
};

H5Handle space_of(const std::vector<hsize_t>& shape, const std::vector<hsize_t>& most = {}) {
  return {SHARD8_H5("space", H5Screate_simple(static_cast<int>(shape.size()), shape.data(),
                                              most.empty() ? nullptr : most.data())),
          H5Sclose};
}

/// The elements [start, start + count) of an array.
H5Handle box_of(const std::vector<hsize_t>& shape, const std::vector<hsize_t>& start,
                const std::vector<hsize_t>& count) {
  H5Handle space = space_of(shape);
  SHARD8_H5("box", H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr));
  return space;
}

H5Handle create(hid_t file, const std::string& name, const H5Handle& space, const Plan& plan) {
  return {
      SHARD8_H5(name, H5Dcreate2(file, name.c_str(), H5T_STD_I32LE, space.id(), H5P_DEFAULT, plan.id(), H5P_DEFAULT)),
      H5Dclose};
}

/// Writes 1, 2, 3, ... to a box.
void write_box(const H5Handle& data, const H5Handle& box) {
  const auto count = static_cast<hsize_t>(H5Sget_select_npoints(box.id()));
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), 1);
  const H5Handle memory = space_of({count});
  SHARD8_H5("write", H5Dwrite(data.id(), H5T_NATIVE_INT32, memory.id(), box.id(), H5P_DEFAULT, values.data()));
}

/// A file with one plain dataset `t` of 1, 2, 3, ...
void write_plain(const std::string& path, hsize_t count, const std::string& name = "t") {
  test::H5Writer writer(path);
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
void write_virtual(const std::string& path, hsize_t count, const std::vector<Source>& sources,
                   const std::string& name = "v") {
  const H5Handle file(SHARD8_H5(path, H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)), H5Fclose);
  const Plan plan;
  for (const auto& s : sources) {
    const H5Handle target = box_of({count}, {s.start}, {s.count});
    const H5Handle source = s.size == 0 ? space_of({s.count}) : box_of({s.size}, {s.from}, {s.count});
    SHARD8_H5(path, H5Pset_virtual(plan.id(), target.id(), s.file.c_str(), s.dataset.c_str(), source.id()));
  }
  create(file.id(), name, space_of({count}), plan);
}

std::vector<std::int32_t> tokens_of(io::IoThread& io, const std::string& spec) {
  const io::TokenFile file(io, spec);
  std::vector<std::int32_t> out(static_cast<std::size_t>(file.elements()));
  file.read_flat(out, 0);
  return out;
}

/// Expects that a dataset passes and that HDF5 makes up none of its values.
void expect_whole(io::IoThread& io, const std::string& spec, std::size_t count) {
  SCOPED_TRACE(spec);
  try {
    const auto tokens = tokens_of(io, spec);
    EXPECT_EQ(tokens.size(), count);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), kFill), 0);
  } catch (const base::Error& error) {
    ADD_FAILURE() << error.what();
  }
}

void expect_refused(io::IoThread& io, const std::string& spec, const std::vector<std::string>& parts) {
  SCOPED_TRACE(spec);
  test::expect_error([&] { tokens_of(io, spec); }, kDeck, parts);
}

/// Sets an environment variable for a scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

/// Makes a folder the working directory for a scope.
class Inside {
 public:
  explicit Inside(const std::string& folder) : before_(fs::current_path()) { fs::current_path(folder); }
  ~Inside() { fs::current_path(before_); }

 private:
  fs::path before_;
};

}  // namespace

TEST(Hdf5Storage, ContiguousAndCompact) {
  const test::TempFolder folder;
  io::IoThread io;
  {
    const test::H5Writer writer(folder / "w.h5");
    create(writer.id(), "never", space_of({9}), Plan());
    create(writer.id(), "never3", space_of({2, 2, 3}), Plan());
    create(writer.id(), "nothing", space_of({0}), Plan());
    const auto written = create(writer.id(), "written", space_of({9}), Plan());
    write_box(written, box_of({9}, {0}, {9}));
    const Plan compact;
    H5Pset_layout(compact.id(), H5D_COMPACT);
    create(writer.id(), "compact", space_of({9}), compact);
    const H5Handle none(H5Screate(H5S_NULL), H5Sclose);
    create(writer.id(), "null", none, Plan());
  }
  const auto path = folder / "w.h5:/";
  expect_refused(io, path + "never", {"w.h5:/never': its values were never written", "fill value", "again"});
  expect_refused(io, path + "never3", {"never3'"});
  expect_whole(io, path + "written", 9);
  EXPECT_EQ(io::TokenFile(io, path + "nothing").elements(), 0);
  io::TokenFile compact(io, path + "compact");  // its bytes are in the file, whoever wrote them
  EXPECT_EQ(compact.fill_value(), kFill);
  io::TokenFile null(io, path + "null");
  test::expect_error([&] { io::open_tensor_file(io, folder / "w.h5"); }, kDeck,
                     {"w.h5': tensor 'never': its values were never written"});
}

TEST(Hdf5Storage, Chunks) {
  const test::TempFolder folder;
  io::IoThread io;
  {
    const test::H5Writer writer(folder / "w.h5");
    for (const int filters : {0, 1, 2}) {
      const auto name = [&](const char* kind) { return fmt::format("{}{}", kind, filters); };
      const auto chunked = [&](const std::vector<hsize_t>& chunk) {
        Plan plan;
        H5Pset_chunk(plan.id(), static_cast<int>(chunk.size()), chunk.data());
        if (filters > 0) H5Pset_fletcher32(plan.id());
        if (filters > 1) H5Pset_deflate(plan.id(), 6);
        return plan;
      };
      // 10 x 10 in chunks of 4 x 3: 3 x 4 chunks, those at the ends partly outside.
      const auto whole = create(writer.id(), name("whole"), space_of({10, 10}), chunked({4, 3}));
      write_box(whole, box_of({10, 10}, {0, 0}, {10, 10}));
      const auto hole = create(writer.id(), name("hole"), space_of({10, 10}), chunked({4, 3}));
      write_box(hole, box_of({10, 10}, {0, 0}, {8, 9}));
      write_box(hole, box_of({10, 10}, {8, 0}, {2, 10}));
      const auto stopped = create(writer.id(), name("stopped"), space_of({100}), chunked({7}));
      write_box(stopped, box_of({100}, {0}, {71}));
      create(writer.id(), name("never"), space_of({100}), chunked({7}));
      create(writer.id(), name("nothing"), space_of({0}, {H5S_UNLIMITED}), chunked({7}));
      const auto grown = create(writer.id(), name("grown"), space_of({14}, {H5S_UNLIMITED}), chunked({7}));
      write_box(grown, box_of({14}, {0}, {14}));
      const hsize_t more = 15, less = 13;
      const auto shrunk = create(writer.id(), name("shrunk"), space_of({21}, {H5S_UNLIMITED}), chunked({7}));
      write_box(shrunk, box_of({21}, {0}, {21}));
      SHARD8_H5("grown", H5Dset_extent(grown.id(), &more));
      SHARD8_H5("shrunk", H5Dset_extent(shrunk.id(), &less));
      const auto appended = create(writer.id(), name("appended"), space_of({7}, {H5S_UNLIMITED}), chunked({7}));
      write_box(appended, box_of({7}, {0}, {7}));
      SHARD8_H5("appended", H5Dset_extent(appended.id(), &more));
      write_box(appended, box_of({15}, {7}, {8}));
    }
  }
  for (const char* filters : {"0", "1", "2"}) {
    const auto at = [&](const char* kind) { return folder / "w.h5:/" + kind + filters; };
    expect_refused(io, at("stopped"), {"stopped", "4 of its 15 chunks", "at element (77)"});
    expect_refused(io, at("never"), {"15 of its 15 chunks", "at element (0)"});
    expect_refused(io, at("grown"), {"1 of its 3 chunks", "at element (14)"});
    expect_whole(io, at("shrunk"), 13);
    expect_whole(io, at("appended"), 15);
    EXPECT_EQ(io::TokenFile(io, at("nothing")).elements(), 0);
    io::TokenFile whole(io, at("whole"));
    expect_refused(io, at("hole"), {"2 of its 12 chunks were never written", "at element (0, 9)"});
  }
}

// Early allocation, and the index that HDF5 needs for it, count as written: the bytes are there.
TEST(Hdf5Storage, ChunksOfOtherIndices) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto write = [&](bool latest) {
    const H5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    if (latest) H5Pset_libver_bounds(access.id(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const auto path = folder / (latest ? "new.h5" : "old.h5");
    const H5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id()), H5Fclose);
    const hsize_t chunk = 5, all = 52;
    const std::vector<std::pair<std::string, std::vector<hsize_t>>> kinds = {
        {"fixed", {52}}, {"limited", {500}}, {"unlimited", {H5S_UNLIMITED}}};
    for (const auto& [name, most] : kinds) {
      for (const bool hole : {false, true}) {
        Plan plan;
        H5Pset_chunk(plan.id(), 1, &chunk);
        const auto data = create(file.id(), name + (hole ? "_hole" : ""), space_of({all}, most), plan);
        write_box(data, box_of({52}, {0}, {hole ? 20u : 52u}));
        if (hole) write_box(data, box_of({52}, {25}, {27}));
      }
    }
    Plan early;
    H5Pset_chunk(early.id(), 1, &chunk);
    H5Pset_alloc_time(early.id(), H5D_ALLOC_TIME_EARLY);
    create(file.id(), "early", space_of({52}), early);
    Plan single;
    H5Pset_chunk(single.id(), 1, &all);
    write_box(create(file.id(), "single", space_of({52}), single), box_of({52}, {0}, {52}));
    create(file.id(), "single_hole", space_of({52}), single);
  };
  for (const bool latest : {false, true}) {
    write(latest);
    const auto path = folder / (latest ? "new.h5:/" : "old.h5:/");
    for (const std::string name : {"fixed", "limited", "unlimited"}) {
      expect_whole(io, path + name, 52);
      expect_refused(io, path + name + "_hole", {"1 of its 11 chunks", "at element (20)"});
    }
    EXPECT_EQ(tokens_of(io, path + "early"), std::vector<std::int32_t>(52, kFill));
    expect_whole(io, path + "single", 52);
    expect_refused(io, path + "single_hole", {"1 of its 1 chunks"});
  }
}

TEST(Hdf5Storage, ExternalFiles) {
  const test::TempFolder folder;
  const test::TempFolder elsewhere;
  io::IoThread io;
  const std::vector<std::int32_t> values = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::string raw(reinterpret_cast<const char*>(values.data()), 32);
  const auto write = [&](const std::vector<std::tuple<std::string, off_t, hsize_t>>& parts) {
    const test::H5Writer writer(folder / "w.h5");
    const Plan plan;
    for (const auto& [name, offset, size] : parts)
      SHARD8_H5(name, H5Pset_external(plan.id(), name.c_str(), offset, size));
    create(writer.id(), "t", space_of({8}), plan);
  };
  const auto spec = folder / "w.h5:/t";
  write({{folder / "a.raw", 2, 12}, {folder / "b.raw", 0, H5F_UNLIMITED}});
  expect_refused(io, spec, {"w.h5:/t'", "a.raw', which is missing", "HDF5_EXTFILE_PREFIX"});
  test::write_bytes(folder / "a.raw", "xx" + raw.substr(0, 12));
  expect_refused(io, spec, {"b.raw', which is missing"});
  test::write_bytes(folder / "b.raw", raw.substr(12, 19));
  expect_refused(io, spec, {"b.raw', of which 20 bytes are needed, but it has 19"});
  test::write_bytes(folder / "b.raw", raw.substr(12));
  EXPECT_EQ(tokens_of(io, spec), values);
  test::write_bytes(folder / "a.raw", "xx" + raw.substr(0, 11));
  expect_refused(io, spec, {"a.raw', of which 14 bytes are needed, but it has 13"});
  write({{"c.raw", 0, 32}});
  {
    const Inside inside(elsewhere.path());
    expect_refused(io, spec, {"'c.raw', which is missing"});
    test::write_bytes(elsewhere / "c.raw", raw);
    EXPECT_EQ(tokens_of(io, spec), values);
  }
  expect_refused(io, spec, {"'c.raw', which is missing"});
}

TEST(Hdf5Storage, TheCaseOfAMissingSource) {
  io::IoThread io;
  const std::string path = SHARD8_SOURCE_DIR "/tests/cases/virtual_dataset/vds.h5:/t";
  expect_refused(io, path,
                 {"vds.h5:/t': is a virtual dataset whose source file 'gone.h5' is missing", "HDF5_VDS_PREFIX"});
}

TEST(Hdf5Storage, SourcesOfVirtualDatasets) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto spec = folder / "v.h5:/v";
  const std::vector<Source> both = {{"a.h5", 0, 10}, {"b.h5", 10, 5}};
  write_virtual(folder / "v.h5", 15, both);
  write_plain(folder / "a.h5", 10);
  expect_refused(io, spec, {"v.h5:/v'", "source file 'b.h5' is missing"});
  write_plain(folder / "b.h5", 5);
  expect_whole(io, spec, 15);
  write_plain(folder / "b.h5", 4);
  expect_refused(io, spec, {"needs 5 elements of 't' in 'b.h5', but that has shape (4)"});
  write_plain(folder / "b.h5", 5, "other");
  expect_refused(io, spec, {"source that cannot be read", "b.h5': has no dataset 't'", "datasets (other)"});
  test::write_bytes(folder / "b.h5", "text");
  expect_refused(io, spec, {"source that cannot be read", "b.h5': not an HDF5 file"});
  fs::remove(folder / "b.h5");
  fs::create_directory(folder / "b.h5");
  expect_refused(io, spec, {"source file 'b.h5' is not a regular file"});
  fs::remove(folder / "b.h5");
  ASSERT_EQ(::mkfifo((folder / "b.h5").c_str(), 0600), 0);
  expect_refused(io, spec, {"source file 'b.h5' is not a regular file"});  // and HDF5 does not wait for its writer
  fs::remove(folder / "b.h5");
  {
    const test::H5Writer writer(folder / "b.h5");
    create(writer.id(), "t", space_of({5}), Plan());
  }
  expect_refused(io, spec, {"source that cannot be read", "b.h5:t': its values were never written"});

  // Parts of sources, one of them twice; elements that nothing is mapped to.
  write_plain(folder / "b.h5", 9);
  write_virtual(folder / "v.h5", 15, {{"a.h5", 0, 5, 5, 10}, {"b.h5", 5, 7, 2, 9}, {"a.h5", 12, 3, 0, 10}});
  expect_whole(io, spec, 15);
  write_plain(folder / "b.h5", 8);
  expect_refused(io, spec, {"needs elements up to (8) of 't' in 'b.h5', but that has shape (8)"});
  write_plain(folder / "b.h5", 9);
  write_virtual(folder / "v.h5", 15, {{"a.h5", 0, 5, 5, 10}, {"a.h5", 7, 3, 0, 10}, {"b.h5", 9, 6, 0, 9}});
  expect_refused(io, spec, {"maps 13 of its 15 elements", "from (5) on"});
  write_virtual(folder / "v.h5", 15, {{"a.h5", 0, 10}});
  expect_refused(io, spec, {"maps 10 of its 15 elements", "from (10) on"});

  // Weights are checked like tokens.
  fs::remove(folder / "a.h5");
  test::expect_error([&] { io::open_tensor_file(io, folder / "v.h5"); }, kDeck,
                     {"v.h5': tensor 'v': is a virtual dataset", "'a.h5' is missing"});
}

TEST(Hdf5Storage, SourcesOfSources) {
  const test::TempFolder folder;
  io::IoThread io;
  write_plain(folder / "a.h5", 10);
  write_virtual(folder / "w.h5", 10, {{"a.h5", 0, 10}}, "t");
  write_virtual(folder / "v.h5", 20, {{"w.h5", 0, 10}, {"a.h5", 10, 10}});
  expect_whole(io, folder / "v.h5:/v", 20);
  fs::remove(folder / "a.h5");
  expect_refused(io, folder / "v.h5:/v", {"v.h5:/v'", "w.h5:t': is a virtual dataset whose source file 'a.h5'"});
  // The same file, and circles.
  {
    const H5Handle file(H5Fcreate((folder / "s.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
    write_box(create(file.id(), "t", space_of({4}), Plan()), box_of({4}, {0}, {4}));
    const std::vector<std::array<std::string, 3>> list = {
        {"v", ".", "t"}, {"self", ".", "self"}, {"one", ".", "two"}, {"two", "s.h5", "one"}, {"x", ".", "/gone"}};
    for (const auto& [name, source, dataset] : list) {
      const Plan plan;
      const H5Handle all = space_of({4});
      SHARD8_H5(name, H5Pset_virtual(plan.id(), all.id(), source.c_str(), dataset.c_str(), all.id()));
      create(file.id(), name, all, plan);
    }
  }
  expect_whole(io, folder / "s.h5:/v", 4);
  expect_refused(io, folder / "s.h5:/self", {"with itself as a source"});
  expect_refused(io, folder / "s.h5:/one", {"with itself as a source"});
  expect_refused(io, folder / "s.h5:/x", {"has no dataset '/gone'"});
}

// A source is found where HDF5 finds it: each place in turn has the file, and the values come from there.
TEST(Hdf5Storage, PlacesOfSources) {
  const test::TempFolder folder;
  io::IoThread io;
  for (const auto* name : {"main", "real", "here", "one", "two"}) fs::create_directory(folder / name);
  const auto spec = folder / "main/v.h5:/v";
  const auto with_prefix = [&](const std::string& value, const auto& action) {
    const Variable prefix("HDF5_VDS_PREFIX", value);
    action();
  };
  const Inside here(folder / "here");
  for (const bool absolute : {false, true}) {
    fs::remove(folder / "main/v.h5");
    write_virtual(folder / "real/v.h5", 6, {{absolute ? folder / "nowhere/a.h5" : "a.h5", 0, 6}});
    fs::create_symlink(folder / "real/v.h5", folder / "main/v.h5");
    expect_refused(io, spec, {"a.h5' is missing"});
    for (const auto* place : {"main", "real", "here"}) {
      write_plain(folder / place + "/a.h5", 6);
      expect_whole(io, spec, 6);
      fs::remove(folder / place + "/a.h5");
    }
    write_plain(folder / "two/a.h5", 6);
    expect_refused(io, spec, {"a.h5' is missing"});
    with_prefix(folder / "one:" + (folder / "two"), [&] { expect_whole(io, spec, 6); });
    fs::remove(folder / "two/a.h5");
    with_prefix(folder / "one:" + (folder / "two"), [&] { expect_refused(io, spec, {"a.h5' is missing"}); });
  }
  write_virtual(folder / "main/v%.h5", 6, {{"a%%20.h5", 0, 6}});
  write_plain(folder / "main/a%20.h5", 6);
  expect_whole(io, folder / "main/v%.h5:/v", 6);
}

TEST(Hdf5Storage, MappingsWithoutAFixedSizeAreRefused) {
  const test::TempFolder folder;
  io::IoThread io;
  write_plain(folder / "a0.h5", 4);
  {
    const H5Handle file(H5Fcreate((folder / "v.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
    const hsize_t zero = 0, four = 4, one = 1, no_end = H5S_UNLIMITED;
    const H5Handle target = space_of({4}, {H5S_UNLIMITED}), source = space_of({4}, {H5S_UNLIMITED});
    {
      const Plan plan;
      SHARD8_H5("u", H5Sselect_hyperslab(target.id(), H5S_SELECT_SET, &zero, nullptr, &no_end, nullptr));
      SHARD8_H5("u", H5Sselect_hyperslab(source.id(), H5S_SELECT_SET, &zero, nullptr, &no_end, nullptr));
      SHARD8_H5("u", H5Pset_virtual(plan.id(), target.id(), "a0.h5", "t", source.id()));
      create(file.id(), "unlimited", target, plan);
    }
    const Plan plan;
    SHARD8_H5("p", H5Sselect_hyperslab(target.id(), H5S_SELECT_SET, &zero, &four, &no_end, &four));
    SHARD8_H5("p", H5Sselect_hyperslab(source.id(), H5S_SELECT_SET, &zero, nullptr, &one, &four));
    SHARD8_H5("p", H5Pset_virtual(plan.id(), target.id(), "a%b.h5", "t", space_of({4}).id()));
    create(file.id(), "printf", target, plan);
  }
  for (const auto* name : {"unlimited", "printf"})
    expect_refused(io, folder / "v.h5:/" + name, {name, "mapping 0 (of 'a", "no fixed size"});
}

// Two-dimensional mappings: columns of sources side by side, every second row, and a corner that nothing covers.
TEST(Hdf5Storage, MappingsOfMatrices) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto write_source = [&](const std::string& path, hsize_t rows, hsize_t cols) {
    test::H5Writer writer(path);
    writer.dataset("t", H5T_STD_I32LE, {rows, cols}, std::vector<std::int32_t>(rows * cols, 3));
    writer.close();
  };
  write_source(folder / "a.h5", 6, 4);
  write_source(folder / "b.h5", 6, 3);
  write_source(folder / "c.h5", 3, 7);
  const auto write = [&](bool rows, bool corner) {
    const H5Handle file(H5Fcreate((folder / "v.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
    const Plan plan;
    const auto map = [&](const H5Handle& target, const char* name, const H5Handle& source) {
      SHARD8_H5(name, H5Pset_virtual(plan.id(), target.id(), name, "t", source.id()));
    };
    if (rows) {
      for (const hsize_t first : {0u, 1u}) {
        const H5Handle target = space_of({6, 7});
        const hsize_t start[] = {first, 0}, stride[] = {2, 1}, count[] = {3, 7};
        SHARD8_H5("rows", H5Sselect_hyperslab(target.id(), H5S_SELECT_SET, start, stride, count, nullptr));
        map(target, "c.h5", space_of({3, 7}));
      }
    } else {
      map(box_of({6, 7}, {0, 0}, {6, 4}), "a.h5", space_of({6, 4}));
      const hsize_t least = corner ? 5 : 6;
      map(box_of({6, 7}, {0, 4}, {least, 3}), "b.h5", box_of({6, 3}, {0, 0}, {least, 3}));
    }
    create(file.id(), "v", space_of({6, 7}), plan);
  };
  const auto check = [&] {
    const io::TokenFile file(io, folder / "v.h5:/v");
    std::vector<std::int32_t> out(42);
    file.read_flat(out, 0);
    EXPECT_EQ(out, std::vector<std::int32_t>(42, 3));
  };
  write(true, false);
  check();
  write(false, false);
  check();
  write(false, true);
  expect_refused(io, folder / "v.h5:/v", {"maps 39 of its 42 elements", "from (5, 4) on"});
}

TEST(Hdf5Storage, ManyMappings) {
  const test::TempFolder folder;
  io::IoThread io;
  constexpr hsize_t kSources = 2000;
  write_plain(folder / "a.h5", 3 * kSources);
  std::vector<Source> sources;
  for (hsize_t i = 0; i < kSources; ++i) sources.push_back({"a.h5", 3 * i, 3, 3 * (kSources - 1 - i), 3 * kSources});
  write_virtual(folder / "v.h5", 3 * kSources, sources);
  const auto begin = std::chrono::steady_clock::now();
  io::TokenFile(io, folder / "v.h5:/v");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  sources.erase(sources.begin() + 1234);
  write_virtual(folder / "v.h5", 3 * kSources, sources);
  expect_refused(io, folder / "v.h5:/v", {"maps 5997 of its 6000 elements", "from (3702) on"});
}

TEST(Hdf5Storage, Filters) {
  const test::TempFolder folder;
  io::IoThread io;
  constexpr H5Z_filter_t kFilter = 32'123;
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS,
                               kFilter,
                               1,
                               1,
                               "oddzip",
                               nullptr,
                               nullptr,
                               [](unsigned, size_t, const unsigned*, size_t bytes, size_t*, void**) { return bytes; }};
  SHARD8_H5("filter", H5Zregister(&filter));
  const auto write = [&](const std::string& name, hid_t file) {
    const Plan plan;
    const hsize_t chunk = 4;
    H5Pset_chunk(plan.id(), 1, &chunk);
    SHARD8_H5("filter", H5Pset_filter(plan.id(), kFilter, H5Z_FLAG_MANDATORY, 0, nullptr));
    write_box(create(file, name, space_of({10}), plan), box_of({10}, {0}, {10}));
  };
  {
    const test::H5Writer writer(folder / "w.h5");
    write("t", writer.id());
  }
  write_virtual(folder / "v.h5", 10, {{"w.h5", 0, 10}});
  expect_whole(io, folder / "w.h5:/t", 10);
  expect_whole(io, folder / "v.h5:/v", 10);
  io.call([] { SHARD8_H5("filter", H5Zunregister(kFilter)); });
  const std::vector<std::string> parts = {"w.h5:", "HDF5 filter 32123 ('oddzip'), which this HDF5 lacks",
                                          "HDF5_PLUGIN_PATH"};
  expect_refused(io, folder / "w.h5:/t", parts);
  expect_refused(io, folder / "v.h5:/v", parts);
}
