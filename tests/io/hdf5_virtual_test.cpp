// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5.hpp"

#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "io/tensor_file.hpp"
#include "tests/io/h5_storage.hpp"

using namespace shard8;
using namespace shard8::test;

namespace fs = std::filesystem;

namespace {

/// Sets an environment variable for a scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

}  // namespace

TEST(Hdf5Virtual, TheCaseOfAMissingSource) {
  io::IoThread io;
  const std::string path = SHARD8_SOURCE_DIR "/tests/cases/virtual_dataset/vds.h5:/t";
  expect_refused(io, path,
                 {"vds.h5:/t': is a virtual dataset whose source file 'gone.h5' is missing", "HDF5_VDS_PREFIX"});
}

TEST(Hdf5Virtual, SourcesOfVirtualDatasets) {
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
  write_virtual(folder / "v.h5", 10, {{"a.h5", 0, 10}}, "v", H5T_IEEE_F32LE);
  EXPECT_TRUE(io::open_tensor_file(io, folder / "v.h5")->unreadable("v").empty());
  fs::remove(folder / "a.h5");
  test::expect_error([&] { io::open_tensor_file(io, folder / "v.h5"); }, kDeck,
                     {"v.h5': tensor 'v': is a virtual dataset", "'a.h5' is missing"});
}

TEST(Hdf5Virtual, SourcesOfSources) {
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
TEST(Hdf5Virtual, PlacesOfSources) {
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

TEST(Hdf5Virtual, MappingsWithoutAFixedSizeAreRefused) {
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
TEST(Hdf5Virtual, MappingsOfMatrices) {
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

TEST(Hdf5Virtual, ManyMappings) {
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
