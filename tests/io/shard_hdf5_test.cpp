// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Shard files as HDF5 sees them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <functional>

#include "io/hdf5.hpp"
#include "io/shard_file.hpp"
#include "tests/io/files.hpp"
#include "tests/io/shards.hpp"

using namespace shard8;
using test::shard_box;
using test::write_shard;

namespace {

const std::string kWhere = "shard file";

std::string text_of(hid_t data_type, const std::function<herr_t(hid_t, void*)>& read) {
  const io::H5Handle type(SHARD8_H5(kWhere, data_type), H5Tclose);
  std::string text(H5Tget_size(type.id()), '\0');
  SHARD8_H5(kWhere, read(type.id(), text.data()));
  return text;
}

std::string text_attribute(hid_t object, const char* name) {
  const io::H5Handle attribute(SHARD8_H5(kWhere, H5Aopen(object, name, H5P_DEFAULT)), H5Aclose);
  return text_of(H5Aget_type(attribute.id()),
                 [&](hid_t type, void* out) { return H5Aread(attribute.id(), type, out); });
}

std::vector<std::int64_t> numbers_attribute(hid_t object, const char* name) {
  const io::H5Handle attribute(SHARD8_H5(kWhere, H5Aopen(object, name, H5P_DEFAULT)), H5Aclose);
  const io::H5Handle space(SHARD8_H5(kWhere, H5Aget_space(attribute.id())), H5Sclose);
  std::vector<std::int64_t> out(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.id())));
  SHARD8_H5(kWhere, H5Aread(attribute.id(), H5T_NATIVE_INT64, out.data()));
  return out;
}

hid_t type_in_memory(const std::string& dtype) {
  if (dtype == "fp32") return H5T_NATIVE_FLOAT;
  if (dtype == "bf16") return H5T_NATIVE_UINT16;
  if (dtype == "i32") return H5T_NATIVE_INT32;
  if (dtype == "i16") return H5T_NATIVE_INT16;
  return H5T_NATIVE_UINT8;
}

/// Compares the dataset of a box with what was written.
void expect_dataset(hid_t file, const io::ShardBox& box, const test::Bytes& values) {
  const io::H5Handle tensors(SHARD8_H5(kWhere, H5Gopen2(file, "tensors", H5P_DEFAULT)), H5Gclose);
  const io::H5Handle tensor(SHARD8_H5(kWhere, H5Gopen2(tensors.id(), box.name.c_str(), H5P_DEFAULT)), H5Gclose);
  const std::string place = box.content + fmt::format("/r{}_c{}", box.box.row0, box.box.col0);
  const io::H5Handle data(SHARD8_H5(kWhere, H5Dopen2(tensor.id(), place.c_str(), H5P_DEFAULT)), H5Dclose);
  const auto extents = box.shape.size() == 1 ? std::vector{box.box.rows} : std::vector{box.box.rows, box.box.cols};
  EXPECT_EQ(io::h5_dataset_shape(data.id(), kWhere), extents);
  test::Bytes read(values.size());
  SHARD8_H5(kWhere, H5Dread(data.id(), type_in_memory(box.dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, read.data()));
  EXPECT_EQ(read, values) << box.label();
  EXPECT_EQ(text_attribute(data.id(), "dtype"), box.dtype);
  EXPECT_EQ(numbers_attribute(data.id(), "shape"), box.shape);
  EXPECT_EQ(numbers_attribute(data.id(), "row0"), std::vector{box.box.row0});
  EXPECT_EQ(numbers_attribute(data.id(), "col0"), std::vector{box.box.col0});
}

}  // namespace

TEST(ShardHdf5, ReadsEveryBox) {
  const test::TempFolder folder;
  io::IoThread io;
  std::vector<io::ShardBox> boxes;
  for (const auto& dtype : io::shard_dtypes()) {
    const std::string name(dtype.name);
    boxes.push_back(shard_box("model.layers.0." + name, "master", name, {900}, {100, 700, 0, 1}));
    boxes.push_back(shard_box("model.layers.0." + name, "other", name, {900, 700}, {100, 700, 0, 500}));
    boxes.push_back(shard_box("model.layers.0." + name, "other", name, {900, 700}, {100, 700, 500, 200}));
  }
  const auto shard = write_shard(io, folder / "a.h5", boxes);
  const std::string bytes = test::read_bytes(folder / "a.h5");
  io.call([&] {
    const auto file = io::h5_open_file(folder / "a.h5");
    for (std::size_t i = 0; i < boxes.size(); ++i) expect_dataset(file.id(), boxes[i], shard.values[i]);
    EXPECT_EQ(text_attribute(file.id(), "format"), "shard8 shard");
    EXPECT_EQ(text_attribute(file.id(), "run_id"), "run-1");
    EXPECT_EQ(numbers_attribute(file.id(), "step"), std::vector<std::int64_t>{1200});
    EXPECT_EQ(numbers_attribute(file.id(), "format_version"), std::vector<std::int64_t>{io::kShardFormatVersion});
    const auto index = io::h5_open_dataset(file.id(), "index", kWhere);
    EXPECT_EQ(
        text_of(H5Dget_type(index.id()),
                [&](hid_t type, void* out) { return H5Dread(index.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out); }),
        bytes.substr(shard.summary.index_offset, shard.summary.index_bytes));
  });
  EXPECT_EQ(test::read_bytes(folder / "a.h5"), bytes) << "reading changed the file";
}

TEST(ShardHdf5, NamesMayBeOddButPlain) {
  const test::TempFolder folder;
  io::IoThread io;
  std::vector<io::ShardBox> boxes;
  for (const std::string name :
       {"...", " ", "a b", "größe.weight", "重み", "%s%n", "r0_c0", "index", "tensors", "\"", "\\", "a:b", "*", "-x"}) {
    boxes.push_back(shard_box(name, name, "fp32", {3, 2}, {0, 3, 0, 2}));
  }
  boxes.push_back(shard_box(std::string(1024, 'n'), "fp32", {5}));
  const auto shard = write_shard(io, folder / "a.h5", boxes);
  const io::ShardReader reader(folder / "a.h5", shard.summary);
  reader.verify_all();
  io.call([&] {
    const auto file = io::h5_open_file(folder / "a.h5");
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      EXPECT_EQ(reader.boxes()[i].name, boxes[i].name);
      expect_dataset(file.id(), boxes[i], shard.values[i]);
    }
  });
}

// A model of 80 layers: HDF5's structures stay small, within the bound that lay_out_shard() assumes.
TEST(ShardHdf5, ManyTensors) {
  const test::TempFolder folder;
  io::IoThread io;
  std::vector<io::ShardBox> boxes;
  std::uint64_t data = 0;
  for (int i = 0; i < 720; ++i) {
    for (const std::string content : {"master", "exp_avg", "exp_avg_sq", "fp8_rowwise"}) {
      boxes.push_back(shard_box(fmt::format("model.layers.{}.self_attn.q_proj.weight", i), content, "fp32", {64, 64},
                                {0, 16, 0, 64}));
      data += boxes.back().bytes();
    }
  }
  const auto shard = write_shard(io, folder / "a.h5", boxes);
  EXPECT_LT(shard.summary.length - data - shard.summary.index_bytes, boxes.size() * 8 * 1024);
  RecordProperty("bytes_of_structures_for_a_box",
                 static_cast<int>((shard.summary.length - data - shard.summary.index_bytes) / boxes.size()));
  io::ShardReader(folder / "a.h5", shard.summary).verify_all();
}
