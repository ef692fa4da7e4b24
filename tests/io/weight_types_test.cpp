// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <limits>

#include "io/tensor_file.hpp"
#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"
#include "tests/io/safetensors_bytes.hpp"

// Which types of values are weights, and files that stand in for others.

using namespace shard8;

namespace {

const std::string kCases = SHARD8_SOURCE_DIR "/tests/cases/";

std::vector<float> read_whole_box(const io::TensorFile& file, const std::string& name, const io::Box& box) {
  std::vector<float> out(static_cast<std::size_t>(box.rows * box.cols));
  file.read_box(name, box, out.data(), box.cols);
  return out;
}

/// Sets an attribute of a dataset to a text of a fixed size, as shard files have it, or of a variable size, as h5py
/// writes it.
void set_text(const test::H5Writer& writer, const std::string& dataset, const std::string& value, bool variable,
              const char* attribute = "dtype") {
  const io::H5Handle data(SHARD8_H5(dataset, H5Dopen2(writer.id(), dataset.c_str(), H5P_DEFAULT)), H5Dclose);
  const io::H5Handle space(SHARD8_H5(dataset, H5Screate(H5S_SCALAR)), H5Sclose);
  const io::H5Handle type(SHARD8_H5(dataset, H5Tcopy(H5T_C_S1)), H5Tclose);
  SHARD8_H5(dataset, H5Tset_size(type.id(), variable ? H5T_VARIABLE : value.size() + 3));
  SHARD8_H5(dataset, H5Tset_strpad(type.id(), variable ? H5T_STR_NULLTERM : H5T_STR_SPACEPAD));
  SHARD8_H5(dataset, H5Tset_cset(type.id(), H5T_CSET_UTF8));
  const io::H5Handle written(
      SHARD8_H5(dataset, H5Acreate2(data.id(), attribute, type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT)), H5Aclose);
  const std::string padded = value + "   ";
  const char* const text = value.c_str();
  SHARD8_H5(dataset, H5Awrite(written.id(), type.id(), variable ? static_cast<const void*>(&text) : padded.data()));
}

/// A dataset "w" (2, 3) of a stored type with an attribute `dtype`.
std::unique_ptr<io::TensorFile> with_dtype(io::IoThread& io, const std::string& path, hid_t stored,
                                           const std::vector<std::int64_t>& values, const std::string& dtype,
                                           bool variable = false) {
  test::H5Writer writer(path);
  writer.dataset("w", stored, {2, 3}, values);
  if (!dtype.empty()) set_text(writer, "w", dtype, variable);
  writer.close();
  return io::open_tensor_file(io, path);
}

template <class T>
std::vector<std::int64_t> wide(const std::vector<T>& bits) {
  return {bits.begin(), bits.end()};
}

const std::vector<float> kValues = {1.0f, -2.5f, 0.0f, 3.0f, 0.15625f, -1024.0f};

}  // namespace

// The attribute of shard files says what integers are.
TEST(Hdf5Dtypes, BitsAreDecoded) {
  const test::TempFolder folder;
  io::IoThread io;
  std::vector<std::uint16_t> bf16;
  std::vector<std::uint32_t> fp32;
  for (const float value : kValues) {
    bf16.push_back(test::bf16_bits(value));
    fp32.push_back(std::bit_cast<std::uint32_t>(value));
  }
  std::vector<std::int64_t> bf16_signed;  // 0xc020 as a number of 16 bits is negative
  for (const std::uint16_t b : bf16) bf16_signed.push_back(static_cast<std::int16_t>(b));
  const std::vector<std::int64_t> fp16 = {0x3c00, 0xc100, 0x0000, 0x4200, 0x3100, 0xe400};
  const auto expect_values = [&](const io::TensorFile& file) {
    EXPECT_TRUE(file.unreadable("w").empty());
    EXPECT_EQ(read_whole_box(file, "w", {0, 2, 0, 3}), kValues);
    EXPECT_EQ(read_whole_box(file, "w", {1, 1, 1, 2}), (std::vector<float>{kValues[4], kValues[5]}));
    std::vector<float> spread(8, -7.0f);
    file.read_box("w", {0, 2, 1, 2}, spread.data(), 4);
    EXPECT_EQ(spread, (std::vector<float>{kValues[1], kValues[2], -7, -7, kValues[4], kValues[5], -7, -7}));
  };
  for (const bool variable : {false, true}) {
    const auto open = [&](hid_t stored, const std::vector<std::int64_t>& values, const std::string& dtype) {
      return with_dtype(io, folder / "w.h5", stored, values, dtype, variable);
    };
    for (const char* name : {"bf16", "bfloat16", "torch.bfloat16", "BF16"})
      expect_values(*open(H5T_STD_U16LE, wide(bf16), name));
    expect_values(*open(H5T_STD_U16BE, wide(bf16), "bf16"));
    expect_values(*open(H5T_STD_I16LE, bf16_signed, "bf16"));
    expect_values(*open(H5T_STD_U16LE, fp16, "fp16"));
    expect_values(*open(H5T_STD_U32LE, wide(fp32), "fp32"));
  }
  const auto bits = io::open_tensor_file(io, kCases + "hdf5_bf16_bits/bf16_uint16.h5:/init");
  const auto floats = io::open_tensor_file(io, kCases + "hdf5_bf16_bits/f32.h5:/init");
  ASSERT_EQ(bits->names(), floats->names());
  for (const auto& name : bits->names()) {
    const auto& shape = bits->shape(name);
    const io::Box all{0, shape[0], 0, shape.size() == 1 ? 1 : shape[1]};
    ASSERT_EQ(read_whole_box(*bits, name, all), read_whole_box(*floats, name, all)) << name;
  }
}

// Large enough for several blocks of rows.
TEST(Hdf5Dtypes, BitsOfManyRows) {
  const test::TempFolder folder;
  io::IoThread io;
  constexpr std::int64_t kRows = 700, kCols = 4000;
  const auto value_at = [](std::int64_t i) { return static_cast<float>(i % 251 - 120); };
  std::vector<std::int64_t> bits;
  for (std::int64_t i = 0; i < kRows * kCols; ++i) bits.push_back(test::bf16_bits(value_at(i)));
  {
    test::H5Writer writer(folder / "w.h5");
    writer.dataset("w", H5T_STD_U16LE, {kRows, kCols}, bits);
    set_text(writer, "w", "bf16", false);
    writer.close();
  }
  const auto values = read_whole_box(*io::open_tensor_file(io, folder / "w.h5"), "w", {0, kRows, 0, kCols});
  for (std::int64_t i = 0; i < kRows * kCols; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], value_at(i)) << i;
}

TEST(Hdf5Dtypes, WhatIsNoWeightIsUnreadable) {
  const test::TempFolder folder;
  io::IoThread io;
  const std::vector<std::int64_t> ones(6, 1);
  struct Case {
    hid_t stored;
    std::string dtype;
    std::string why;
  };
  const std::vector<Case> table = {
      {H5T_STD_U16LE, "", "holds integers of 16 bits, and no attribute 'dtype' says that they are the bits of fp32"},
      {H5T_STD_I64LE, "", "holds integers of 64 bits"},
      {H5T_STD_I16LE, "i16", "has dtype 'i16' by its attribute; allowed for weights are fp32, bf16, fp16 or fp64"},
      {H5T_STD_U8LE, "e4m3", "has dtype 'e4m3' by its attribute: give a copy in bf16"},
      {H5T_STD_U8LE, "torch.float8_e4m3fn", "give a copy in bf16"},
      {H5T_STD_U8LE, "bf16", "holds integers of 8 bits, but its attribute says dtype 'bf16'"},
      {H5T_STD_U16LE, "fp32", "holds integers of 16 bits, but its attribute says dtype 'fp32'"},
      {H5T_IEEE_F32LE, "bf16", "holds floats of 32 bits, but its attribute says dtype 'bf16'"},
      {H5T_IEEE_F32LE, "e4m3", "give a copy in bf16"},
      {H5T_IEEE_F32LE, "whatever", "has dtype 'whatever' by its attribute"}};
  for (const auto& [stored, dtype, why] : table) {
    const auto file = with_dtype(io, folder / "w.h5", stored, ones, dtype);
    EXPECT_NE(file->unreadable("w").find(why), std::string::npos) << file->unreadable("w");
    test::expect_error(
        [&] {
          read_whole_box(*file, "w", {0, 1, 0, 1});
        },
        base::ExitCode::failed, {"w.h5': tensor 'w' ", why});
  }
  const auto good = with_dtype(io, folder / "w.h5", H5T_IEEE_F32LE, ones, "fp32");
  EXPECT_EQ(read_whole_box(*good, "w", {0, 2, 0, 3}), std::vector<float>(6, 1.0f));
  {
    test::H5Writer writer(folder / "number.h5");
    writer.dataset("w", H5T_IEEE_F32LE, {2, 3}, ones);
    const io::H5Handle data(SHARD8_H5("w", H5Dopen2(writer.id(), "w", H5P_DEFAULT)), H5Dclose);
    const io::H5Handle space(SHARD8_H5("w", H5Screate(H5S_SCALAR)), H5Sclose);
    const io::H5Handle number(
        SHARD8_H5("w", H5Acreate2(data.id(), "dtype", H5T_STD_I32LE, space.id(), H5P_DEFAULT, H5P_DEFAULT)), H5Aclose);
  }
  EXPECT_NE(io::open_tensor_file(io, folder / "number.h5")->unreadable("w").find("not one text"), std::string::npos);
}

// A filter that is there while the file is written and not when it is read.
TEST(Hdf5Dtypes, AMissingFilterIsNamed) {
  const test::TempFolder folder;
  io::IoThread io;
  constexpr H5Z_filter_t kFilter = 300;  // of the numbers for tests
  H5Z_class2_t filter{};
  filter.version = H5Z_CLASS_T_VERS;
  filter.id = kFilter;
  filter.encoder_present = filter.decoder_present = 1;
  filter.name = "nothing";
  filter.filter = [](unsigned, std::size_t, const unsigned*, std::size_t bytes, std::size_t*, void**) { return bytes; };
  SHARD8_H5("filter", H5Zregister(&filter));
  {
    test::H5Writer writer(folder / "w.h5");
    const std::vector<hsize_t> shape = {4, 4}, chunk = {2, 4};
    const io::H5Handle space(SHARD8_H5("w", H5Screate_simple(2, shape.data(), nullptr)), H5Sclose);
    const io::H5Handle plan(SHARD8_H5("w", H5Pcreate(H5P_DATASET_CREATE)), H5Pclose);
    SHARD8_H5("w", H5Pset_chunk(plan.id(), 2, chunk.data()));
    SHARD8_H5("w", H5Pset_filter(plan.id(), kFilter, H5Z_FLAG_OPTIONAL, 0, nullptr));
    const io::H5Handle data(
        SHARD8_H5("w", H5Dcreate2(writer.id(), "w", H5T_IEEE_F32LE, space.id(), H5P_DEFAULT, plan.id(), H5P_DEFAULT)),
        H5Dclose);
    const std::vector<float> values(16, 3.0f);
    SHARD8_H5("w", H5Dwrite(data.id(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  }
  EXPECT_EQ(read_whole_box(*io::open_tensor_file(io, folder / "w.h5"), "w", {3, 1, 0, 2}), (std::vector<float>{3, 3}));
  SHARD8_H5("filter", H5Zunregister(kFilter));
  const auto file = io::open_tensor_file(io, folder / "w.h5");
  for (const char* part : {"HDF5 filter 300 ('nothing')", "HDF5_PLUGIN_PATH", "h5repack"})
    EXPECT_NE(file->unreadable("w").find(part), std::string::npos) << file->unreadable("w");
}

TEST(SafetensorsDtypes, AreKnownWhenTheFileIsOpened) {
  io::IoThread io;
  const auto file = io::open_tensor_file(io, kCases + "fp8_weights/hf_fp8");
  EXPECT_EQ(file->unreadable("model.norm.weight"), "");
  const std::string& why = file->unreadable("model.layers.0.mlp.up_proj.weight");
  EXPECT_NE(why.find("has dtype F8_E4M3; allowed for weights are F16, BF16, F32, F64: give a copy in BF16"),
            std::string::npos)
      << why;
  test::expect_error([&] { file->unreadable("nothing"); }, base::ExitCode::failed, {"has no tensor 'nothing'"});
}

// Transformers loads every tensor of the files, and so do we.
TEST(SafetensorsDtypes, TensorsThatAnIndexDoesNotListAreThere) {
  const test::TempFolder folder;
  io::IoThread io;
  test::write_bytes(folder / "a.safetensors", test::safetensors("{" + test::entry("w", "F32", "1", 0, 4) + "," +
                                                                    test::entry("w.bias", "I8", "4", 4, 8) + "}",
                                                                "12345678"));
  test::write_bytes(folder / "model.safetensors.index.json", R"({"weight_map":{"w":"a.safetensors"}})");
  const auto file = io::open_tensor_file(io, folder.path());
  EXPECT_EQ(file->names(), (std::vector<std::string>{"w", "w.bias"}));
  EXPECT_EQ(file->unreadable("w"), "");
  EXPECT_NE(file->unreadable("w.bias").find("has dtype I8"), std::string::npos);
}

TEST(ChosenFile, OfAFileAndAnIndexTheFileIsRead) {
  io::IoThread io;
  const std::string folder = kCases + "file_and_index/both";
  const auto file = io::open_tensor_file(io, folder);
  EXPECT_EQ(file->spec(), folder + "/model.safetensors");
  ASSERT_EQ(file->notes().size(), 1u);
  EXPECT_NE(file->notes()[0].find("model.safetensors is read, and model.safetensors.index.json beside it is not"),
            std::string::npos)
      << file->notes()[0];
  const auto index = io::open_tensor_file(io, folder + "/model.safetensors.index.json");
  EXPECT_TRUE(index->notes().empty());
  EXPECT_EQ(index->spec(), folder + "/model.safetensors.index.json");
  EXPECT_NE(read_whole_box(*file, "model.norm.weight", {0, 32, 0, 1}),
            read_whole_box(*index, "model.norm.weight", {0, 32, 0, 1}));
}

TEST(AbsentContent, SaysWhatToDo) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto expect = [&](const std::string& spec, const std::vector<std::string>& parts) {
    test::expect_error([&] { io::open_tensor_file(io, spec); }, base::ExitCode::deck, parts);
  };
  const std::vector<std::string> lfs = {"is a pointer of Git LFS", "git lfs pull"};
  const std::string pointer = kCases + "lfs_pointer/lfs/model.safetensors";
  expect(kCases + "lfs_pointer/lfs", lfs);
  expect(pointer, lfs);
  for (const char* name : {"w.h5", "model.safetensors.index.json", "part.safetensors"})
    std::filesystem::copy_file(pointer, folder / name);
  expect(folder / "w.h5:/init", lfs);
  expect(folder.path(), lfs);
  test::write_bytes(folder / "other.index.json", R"({"weight_map":{"w":"part.safetensors"}})");
  expect(folder / "other.index.json", {"part.safetensors': is a pointer of Git LFS"});

  std::filesystem::create_symlink("../blobs/0123", folder / "model.safetensors");
  expect(folder.path(), {"model.safetensors': the link leads to '../blobs/0123', which is not there"});
  std::filesystem::remove(folder / "model.safetensors");
  std::filesystem::remove(folder / "model.safetensors.index.json");
  std::filesystem::create_symlink("nowhere", folder / "model.safetensors.index.json");
  expect(folder.path(), {"index.json': the link leads to 'nowhere'"});
}

// fp32 does not hold every FP64; messages show what is stored.
TEST(StoredValue, IsNotRounded) {
  const test::TempFolder folder;
  io::IoThread io;
  const std::vector<double> values = {1, -2, 0.1, 1e300, -1e300, 5};
  const auto expect_stored = [&](const std::string& path, const std::string& name) {
    const auto file = io::open_tensor_file(io, path);
    for (std::int64_t i = 0; i < 6; ++i)
      EXPECT_EQ(file->stored_value(name, i / 3, i % 3), values[static_cast<std::size_t>(i)]) << path << ", " << i;
    EXPECT_EQ(read_whole_box(*file, name, {1, 1, 0, 1}), std::vector<float>{std::numeric_limits<float>::infinity()})
        << path;
    test::expect_error([&] { file->stored_value(name, 2, 0); }, base::ExitCode::failed, {"1 rows from 2"});
  };
  test::H5Writer writer(folder / "w.h5");
  writer.dataset("floats", H5T_IEEE_F64BE, {2, 3}, values);
  std::vector<std::int64_t> bits;
  for (const double value : values) bits.push_back(std::bit_cast<std::int64_t>(value));
  writer.dataset("bits", H5T_STD_I64LE, {2, 3}, bits);
  set_text(writer, "bits", "fp64", false);
  writer.close();
  expect_stored(folder / "w.h5", "floats");
  expect_stored(folder / "w.h5", "bits");
  test::write_bytes(folder / "w.safetensors",
                    test::safetensors("{" + test::entry("w", "F64", "2,3", 0, 48) + "}", test::bytes_of(values)));
  expect_stored(folder / "w.safetensors", "w");
  test::write_bytes(folder / "w.safetensors.index.json", R"({"weight_map": {"w": "w.safetensors"}})");
  expect_stored(folder / "w.safetensors.index.json", "w");
  const auto narrow = with_dtype(io, folder / "narrow.h5", H5T_STD_U16LE, {0x3f80, 0, 0, 0, 0, 0}, "bf16");
  EXPECT_EQ(narrow->stored_value("w", 0, 0), 1);
}
