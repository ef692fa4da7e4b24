// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "io/tensor_file.hpp"
#include "tests/io/h5_storage.hpp"

using namespace shard8;
using namespace shard8::test;

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
  {
    const test::H5Writer writer(folder / "weights.h5");
    create(writer.id(), "never", space_of({9}), Plan(), H5T_IEEE_F32LE);
  }
  test::expect_error([&] { io::open_tensor_file(io, folder / "weights.h5"); }, kDeck,
                     {"weights.h5': tensor 'never': its values were never written"});
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
