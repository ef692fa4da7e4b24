// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "io/tensor_formats.hpp"
#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"
#include "tests/io/safetensors_bytes.hpp"

using namespace shard8;

namespace {

const std::string kGold = SHARD8_SOURCE_DIR "/tests/gold/";

/// The value of element (r, c) in every matrix that these tests write: a small integer, which every type holds.
float value_at(std::int64_t r, std::int64_t c) { return static_cast<float>((7 * r + c) % 101); }

std::vector<double> matrix(std::int64_t rows, std::int64_t cols) {
  std::vector<double> out;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) out.push_back(value_at(r, c));
  }
  return out;
}

std::vector<float> read(const io::TensorFile& file, const std::string& name, const io::Box& box) {
  std::vector<float> out(static_cast<std::size_t>(box.rows * box.cols));
  file.read_box(name, box, out.data(), box.cols);
  return out;
}

/// Reads one box into memory with gaps between the rows. Checks every element, and that the gaps are not written.
void expect_box(const io::TensorFile& file, const std::string& name, const io::Box& box, std::int64_t stride) {
  constexpr float kUntouched = -1.0f;
  std::vector<float> out(static_cast<std::size_t>(box.rows * stride), kUntouched);
  file.read_box(name, box, out.data(), stride);
  for (std::int64_t r = 0; r < box.rows; ++r) {
    for (std::int64_t c = 0; c < stride; ++c) {
      const float expected = c < box.cols ? value_at(box.row0 + r, box.col0 + c) : kUntouched;
      ASSERT_EQ(out[static_cast<std::size_t>(r * stride + c)], expected)
          << name << " box row " << r << " column " << c << " of box at " << box.row0 << ", " << box.col0;
    }
  }
}

void expect_every_box(const io::TensorFile& file, const std::string& name, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t r0 = 0; r0 <= rows; ++r0) {
    for (std::int64_t r1 = r0; r1 <= rows; ++r1) {
      for (std::int64_t c0 = 0; c0 <= cols; ++c0) {
        for (std::int64_t c1 = c0; c1 <= cols; ++c1) {
          expect_box(file, name, {r0, r1 - r0, c0, c1 - c0}, c1 - c0);
          expect_box(file, name, {r0, r1 - r0, c0, c1 - c0}, c1 - c0 + 2);
        }
      }
    }
  }
}

/// IEEE binary16 as HDF5 describes it.
io::H5Handle half_type() {
  io::H5Handle type(SHARD8_H5("half", H5Tcopy(H5T_IEEE_F32LE)), H5Tclose);
  SHARD8_H5("half", H5Tset_fields(type.id(), 15, 10, 5, 0, 10));
  SHARD8_H5("half", H5Tset_size(type.id(), 2));
  SHARD8_H5("half", H5Tset_ebias(type.id(), 15));
  return type;
}

std::uint16_t half_bits_of_small_integer(float value) {
  if (value == 0.0f) return 0;
  const int exponent = std::ilogb(value);
  const auto mantissa = static_cast<unsigned>(std::ldexp(value, 10 - exponent)) - 1024u;
  return static_cast<std::uint16_t>((static_cast<unsigned>(exponent + 15) << 10) | mantissa);
}

/// Writes a file with one tensor "w" (rows, cols) of the dtype of this name, with the values value_at().
std::string one_tensor(const std::string& dtype, std::int64_t rows, std::int64_t cols) {
  const auto values = matrix(rows, cols);
  std::string data;
  if (dtype == "F64") {
    data = test::bytes_of(values);
  } else if (dtype == "F32") {
    data = test::bytes_of(std::vector<float>(values.begin(), values.end()));
  } else {
    std::vector<std::uint16_t> bits;
    for (const double value : values) {
      const auto v = static_cast<float>(value);
      bits.push_back(dtype == "BF16" ? test::bf16_bits(v) : half_bits_of_small_integer(v));
    }
    data = test::bytes_of(bits);
  }
  const auto shape = std::to_string(rows) + "," + std::to_string(cols);
  return test::safetensors("{" + test::entry("w", dtype, shape, 0, data.size()) + "}", data);
}

}  // namespace

// The first value, the last value and the sum are those of h5py and NumPy. Sums are FP64 sums of FP32 values. NumPy
// sums pairwise, in another order; the tolerance of 1e-12 allows for that.
TEST(GoldWeights, AreReadAsH5pyReadsThem) {
  struct Expected {
    std::string file, name;
    std::vector<std::int64_t> shape;
    float first, last;
    double sum;
  };
  const std::vector<Expected> table = {
      {"llama_tiny.h5", "lm_head.weight", {256, 64}, 0.076140575f, -0.062482107f, 2.1017819062030867},
      {"llama_tiny.h5",
       "model.layers.1.self_attn.k_proj.weight",
       {32, 64},
       0.04491691f,
       0.0032731947f,
       -2.9464640849291754},
      {"llama_tiny.h5", "model.norm.weight", {64}, 0.887297f, 0.9623759f, 65.74127513170242},
      {"gpt2_tiny.h5", "transformer.h.0.attn.c_attn.weight", {64, 192}, -0.0064532f, 0.016114285f, 2.3774244332421404},
      {"gpt2_tiny.h5", "transformer.h.1.mlp.c_fc.bias", {256}, 0.02288187f, -0.010581642f, -0.09199520752736134}};
  io::IoThread io;
  for (const auto& expected : table) {
    const auto file = io::open_tensor_file(io, kGold + expected.file + ":/init");
    ASSERT_EQ(file->shape(expected.name), expected.shape) << expected.name;
    const auto cols = expected.shape.size() == 2 ? expected.shape[1] : 1;
    const auto all = read(*file, expected.name, {0, expected.shape[0], 0, cols});
    EXPECT_EQ(all.front(), expected.first) << expected.name;
    EXPECT_EQ(all.back(), expected.last) << expected.name;
    EXPECT_NEAR(std::accumulate(all.begin(), all.end(), 0.0), expected.sum, 1e-12) << expected.name;

    const auto rows = expected.shape[0];
    const io::Box box{rows / 4, rows / 2, cols / 3, cols - cols / 3};
    const auto part = read(*file, expected.name, box);
    for (std::int64_t r = 0; r < box.rows; ++r) {
      for (std::int64_t c = 0; c < box.cols; ++c) {
        ASSERT_EQ(part[static_cast<std::size_t>(r * box.cols + c)],
                  all[static_cast<std::size_t>((box.row0 + r) * cols + box.col0 + c)]);
      }
    }
  }
}

TEST(GoldWeights, NamesAreListedInOrder) {
  io::IoThread io;
  const auto file = io::open_tensor_file(io, kGold + "llama_tiny.h5:/init");
  const auto names = file->names();
  EXPECT_EQ(names.size(), 21u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(names.front(), "lm_head.weight");
  EXPECT_EQ(names.back(), "model.norm.weight");
  EXPECT_TRUE(file->contains("model.norm.weight"));
  EXPECT_FALSE(file->contains("model.norm"));
  EXPECT_EQ(io::open_tensor_file(io, kGold + "gpt2_tiny.h5:/init")->names().size(), 28u);
}

TEST(Hdf5Tensors, EveryBoxOfEveryType) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto half = half_type();
  const std::vector<std::pair<std::string, hid_t>> types = {
      {"f64be", H5T_IEEE_F64BE}, {"f32", H5T_IEEE_F32LE}, {"f16", half.id()}};
  {
    test::H5Writer writer(folder / "w.h5");
    writer.group("/deep");
    writer.group("/deep/er");
    for (const auto& [name, type] : types) {
      writer.dataset("/deep/er/" + name, type, {5, 4}, matrix(5, 4));
      writer.dataset("/deep/er/" + name + "_chunked", type, {5, 4}, matrix(5, 4), {2, 3});
    }
    writer.close();
  }
  const auto file = io::open_tensor_file(io, folder / "w.h5:/deep/er");
  for (const auto& name : file->names()) expect_every_box(*file, name, 5, 4);
  EXPECT_EQ(file->names().size(), 6u);
}

TEST(Hdf5Tensors, VectorsAreColumnsAndScalarsOneByOne) {
  const test::TempFolder folder;
  io::IoThread io;
  test::H5Writer writer(folder / "w.h5");
  writer.group("/sub");
  writer.dataset<double>("v", H5T_IEEE_F32LE, {3}, {1, 2, 3});
  writer.dataset<double>("s", H5T_IEEE_F32LE, {}, {4});
  writer.dataset<double>("cube", H5T_IEEE_F32LE, {1, 2, 1}, {5, 6});
  writer.close();
  const auto file = io::open_tensor_file(io, folder / "w.h5");
  EXPECT_EQ(file->names(), (std::vector<std::string>{"cube", "s", "v"}));  // no groups
  EXPECT_EQ(read(*file, "v", {1, 2, 0, 1}), (std::vector<float>{2, 3}));
  std::vector<float> spread(6, 0.0f);
  file->read_box("v", {0, 3, 0, 1}, spread.data(), 2);
  EXPECT_EQ(spread, (std::vector<float>{1, 0, 2, 0, 3, 0}));
  EXPECT_EQ(read(*file, "s", {0, 1, 0, 1}), (std::vector<float>{4}));
  EXPECT_TRUE(file->shape("s").empty());
  test::expect_error(
      [&] {
        read(*file, "cube", {0, 1, 0, 1});
      },
      base::ExitCode::failed, {"'cube' has shape (1, 2, 1)", "at most two dimensions"});
}

TEST(Hdf5Tensors, SaysWhatIsWrong) {
  const test::TempFolder folder;
  io::IoThread io;
  {
    test::H5Writer writer(folder / "w.h5");
    writer.group("/init");
    writer.dataset("/init/model.norm.weight", H5T_IEEE_F32LE, {4, 3}, matrix(4, 3));
    io::H5Handle text(SHARD8_H5("text", H5Tcopy(H5T_C_S1)), H5Tclose);
    io::H5Handle space(SHARD8_H5("text", H5Screate(H5S_SCALAR)), H5Sclose);
    io::H5Handle data(SHARD8_H5("text", H5Dcreate2(writer.id(), "/init/text", text.id(), space.id(), H5P_DEFAULT,
                                                   H5P_DEFAULT, H5P_DEFAULT)),
                      H5Dclose);
    data.close("text");
    writer.close();
  }
  const auto failed = base::ExitCode::failed;
  test::expect_error([&] { io::open_tensor_file(io, folder / "w.h5:/start"); }, base::ExitCode::deck,
                     {"no group '/start'", "groups (init)"});
  test::expect_error([&] { io::open_tensor_file(io, folder / "none.h5:/init"); }, base::ExitCode::deck,
                     {"none.h5': no such file"});
  const auto file = io::open_tensor_file(io, folder / "w.h5:/init");
  test::expect_error([&] { file->shape("norm.weight"); }, failed,
                     {"w.h5:/init': has no tensor 'norm.weight'", "the nearest is 'model.norm.weight'"});
  test::expect_error(
      [&] {
        read(*file, "text", {0, 1, 0, 1});
      },
      failed, {"tensor 'text'", "neither of an integer nor"});
  std::vector<float> out(12);
  const auto outside = [&](const io::Box& box) {
    test::expect_error([&] { file->read_box("model.norm.weight", box, out.data(), 3); }, failed,
                       {"w.h5:/init'", "'model.norm.weight' is 4 x 3 (shape (4, 3))", "rows"});
  };
  outside({0, 5, 0, 3});
  outside({0, 4, 1, 3});
  outside({4, 1, 0, 3});
  outside({-1, 1, 0, 3});
  outside({1, INT64_MAX, 0, 3});
  test::expect_error(
      [&] {
        file->read_box("model.norm.weight", {0, 4, 0, 3}, out.data(), 2);
      },
      failed, {"row stride 2, columns 3"});
}

TEST(Hdf5Tensors, ADamagedChunkIsNamed) {
  const test::TempFolder folder;
  io::IoThread io;
  {
    test::H5Writer writer(folder / "w.h5");
    writer.dataset("w", H5T_IEEE_F32LE, {64, 64}, matrix(64, 64), {16, 64});
    writer.close();
  }
  const auto values = matrix(64, 64);
  const std::vector<float> row(values.begin() + 32 * 64, values.begin() + 33 * 64);
  auto bytes = test::read_bytes(folder / "w.h5");
  const auto at = bytes.find(test::bytes_of(row));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 5] = static_cast<char>(bytes[at + 5] ^ 1);
  test::write_bytes(folder / "w.h5", bytes);
  const auto file = io::open_tensor_file(io, folder / "w.h5");
  expect_box(*file, "w", {0, 32, 0, 64}, 64);
  test::expect_error(
      [&] {
        read(*file, "w", {32, 1, 0, 64});
      },
      base::ExitCode::failed, {"tensor 'w'", "H5Dread", "filter"});
}

TEST(Safetensors, EveryBoxOfEveryType) {
  const test::TempFolder folder;
  io::IoThread io;
  for (const std::string dtype : {"F64", "F32", "F16", "BF16"}) {
    test::write_bytes(folder / "w.safetensors", one_tensor(dtype, 5, 4));
    const auto file = io::open_tensor_file(io, folder / "w.safetensors");
    EXPECT_EQ(file->shape("w"), (std::vector<std::int64_t>{5, 4}));
    expect_every_box(*file, "w", 5, 4);
  }
}

// Rows that are long enough to be read one by one, and short pieces of rows that are read in several blocks.
TEST(Safetensors, LargeBoxes) {
  const test::TempFolder folder;
  io::IoThread io;
  for (const std::string dtype : {"F32", "BF16"}) {
    test::write_bytes(folder / "w.safetensors", one_tensor(dtype, 150, 20'000));
    const auto file = io::open_tensor_file(io, folder / "w.safetensors");
    expect_box(*file, "w", {3, 140, 5'000, 15'000}, 15'000);
    expect_box(*file, "w", {3, 140, 5'001, 1'001}, 1'003);
    expect_box(*file, "w", {0, 150, 0, 20'000}, 20'000);
    expect_box(*file, "w", {0, 150, 19'999, 1}, 1);
  }
}

TEST(Safetensors, EveryHalfIsExact) {
  std::vector<std::uint16_t> bits(65536);
  std::iota(bits.begin(), bits.end(), std::uint16_t{0});
  const auto bytes = test::bytes_of(bits);
  std::vector<float> out(bits.size());
  io::decode_floats(out.data(), reinterpret_cast<const std::byte*>(bytes.data()), 65536, io::StoredFloat::f16);
  for (unsigned b = 0; b < 65536; ++b) {
    const int exponent = static_cast<int>((b >> 10) & 31);
    const int mantissa = static_cast<int>(b & 1023);
    double expected = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31) expected = mantissa == 0 ? INFINITY : NAN;
    if ((b >> 15) != 0) expected = -expected;
    const double got = out[b];
    ASSERT_EQ(std::signbit(got), (b >> 15) != 0) << b;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << b;
    } else {
      ASSERT_EQ(got, expected) << b;
    }
  }
}

TEST(Safetensors, SeveralTensorsMetadataAndPadding) {
  const test::TempFolder folder;
  io::IoThread io;
  const std::string data = test::bytes_of(std::vector<float>{1, 2, 3, 4, 5, 6}) + "12345678";
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\"}," + test::entry("b", "F32", "2,2", 8, 24) + "," +
                             test::entry("a", "F32", "2", 0, 8) + "," + test::entry("empty", "F32", "0,7", 24, 24) +
                             "," + test::entry("ids", "I64", "1", 24, 32) + "," + test::entry("s", "F32", "0", 8, 8) +
                             "}   ";
  test::write_bytes(folder / "w.safetensors", test::safetensors(header, data));
  const auto file = io::open_tensor_file(io, folder / "w.safetensors");
  EXPECT_EQ(file->names(), (std::vector<std::string>{"a", "b", "empty", "ids", "s"}));
  EXPECT_EQ(read(*file, "a", {0, 2, 0, 1}), (std::vector<float>{1, 2}));
  EXPECT_EQ(read(*file, "b", {0, 2, 1, 1}), (std::vector<float>{4, 6}));
  EXPECT_TRUE(read(*file, "empty", {0, 0, 0, 7}).empty());
  test::expect_error(
      [&] {
        read(*file, "ids", {0, 1, 0, 1});
      },
      base::ExitCode::failed, {"w.safetensors': tensor 'ids' has dtype I64", "F16, BF16, F32, F64"});
}

TEST(SafetensorsMalformed, IsRefusedWithTheReason) {
  const std::string eight = "12345678";
  const auto file = [](const std::string& entries, const std::string& data) {
    return test::safetensors("{" + entries + "}", data);
  };
  struct Case {
    std::string bytes;
    std::vector<std::string> parts;
  };
  const std::vector<Case> table = {
      {"", {"it has 0 bytes"}},
      {"1234567", {"it has 7 bytes", "takes 8"}},
      {std::string(16, '\0'), {"header has 0 bytes", "at least 2 and at most 8"}},
      {std::string(16, '\xff'), {"header has 18446744073709551615 bytes"}},
      {test::safetensors("{}", "").substr(0, 9), {"header has 2 bytes", "at most 1 "}},
      {test::safetensors("{\"a\":", ""), {"not JSON"}},
      {test::safetensors(std::string(100'000, '['), ""), {"not a JSON object"}},
      {test::safetensors("{\"\xff\":1}", ""), {"not JSON"}},
      {test::safetensors("[]", ""), {"not a JSON object"}},
      {file("\"a\":3", ""), {"tensor 'a' has no list 'shape'"}},
      {file("\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}", eight), {"no list 'shape'"}},
      {file("\"a\":{\"dtype\":\"F32\",\"shape\":[2]}", eight), {"no list 'data_offsets'"}},
      {file("\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}", eight), {"tensor 'a' has no dtype"}},
      {file("\"a\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]}", eight), {"has no dtype"}},
      {file(test::entry("a", "F32", "-2", 0, 8), eight), {"'shape' holds -2"}},
      {file(test::entry("a", "F32", "2.0", 0, 8), eight), {"'shape' holds 2.0"}},
      {file(test::entry("a", "F32", "\"2\"", 0, 8), eight), {"'shape' holds \"2\""}},
      {file(test::entry("a", "F32", "9223372036854775808", 0, 8), eight), {"2^63 - 1"}},
      {file(test::entry("a", "F32", "4294967296,4294967296", 0, 8), eight),
       {"shape (4294967296, 4294967296) has more than"}},
      {file(test::entry("a", "F32", "2", 8, 0), eight), {"data_offsets [8, 0]"}},
      {file(test::entry("a", "F32", "2,2", 0, 16), eight),
       {"tensor 'a' has data_offsets [0, 16], but 8 bytes", "truncated"}},
      {file("\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}", eight), {"data_offsets [0, 8, 9]"}},
      {file(test::entry("a", "F32", "3", 0, 8), eight),
       {"dtype F32 and shape (3) needs 12 bytes, its data_offsets give 8"}},
      {file(test::entry("a", "BF16", "2", 0, 8), eight), {"needs 4 bytes"}},
      {file(test::entry("a", "F32", "2", 0, 8) + "," + test::entry("b", "F32", "1", 4, 8), eight),
       {"tensor 'b' begins at byte", "inside tensor 'a'"}},
      {file(test::entry("a", "F32", "1", 4, 8), eight), {"4 bytes before tensor 'a'"}},
      {file(test::entry("a", "F32", "1", 0, 4), eight), {"4 bytes at its end"}},
      {file(test::entry("a", "F32", "1", 0, 4) + "," + test::entry("a", "F32", "1", 4, 8), eight),
       {"tensor 'a' is there twice"}}};
  const test::TempFolder folder;
  io::IoThread io;
  for (auto [bytes, parts] : table) {
    SCOPED_TRACE(parts[0]);
    test::write_bytes(folder / "w.safetensors", bytes);
    parts.push_back("w.safetensors': not a valid .safetensors file");
    test::expect_error([&] { io::open_tensor_file(io, folder / "w.safetensors"); }, base::ExitCode::failed, parts);
  }
  // A valid file that is cut anywhere is refused.
  const auto good = one_tensor("F16", 3, 2);
  for (std::size_t size = 0; size < good.size(); ++size) {
    test::write_bytes(folder / "w.safetensors", good.substr(0, size));
    EXPECT_THROW(io::open_tensor_file(io, folder / "w.safetensors"), base::Error) << size;
  }
}

TEST(SafetensorsIndex, JoinsTheFilesBesideIt) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto one = [](const std::string& name, const std::vector<float>& values) {
    const auto bytes = test::bytes_of(values);
    return test::safetensors("{" + test::entry(name, "F32", std::to_string(values.size()), 0, bytes.size()) + "}",
                             bytes);
  };
  test::write_bytes(folder / "model-00001-of-00002.safetensors", one("x", {1, 2}));
  test::write_bytes(folder / "model-00002-of-00002.safetensors", one("y", {3, 4, 5}));
  const auto index = folder / "model.safetensors.index.json";
  test::write_bytes(index,
                    R"({"metadata":{"total_size":20},"weight_map":{
                      "x":"model-00001-of-00002.safetensors",
                      "y":"model-00002-of-00002.safetensors"}})");
  for (const auto& spec : {index, folder.path(), folder.path() + "/"}) {
    const auto file = io::open_tensor_file(io, spec);
    EXPECT_EQ(file->names(), (std::vector<std::string>{"x", "y"}));
    EXPECT_EQ(read(*file, "x", {0, 2, 0, 1}), (std::vector<float>{1, 2}));
    EXPECT_EQ(read(*file, "y", {2, 1, 0, 1}), (std::vector<float>{5}));
  }
}

TEST(SafetensorsIndex, SaysWhatIsWrong) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto failed = base::ExitCode::failed;
  const auto open = [&] { io::open_tensor_file(io, folder.path()); };
  test::expect_error(
      open, base::ExitCode::deck,
      {"neither model.safetensors.index.json nor model.safetensors", "copy the index of its files as well"});
  test::write_bytes(folder / "model.safetensors", one_tensor("F32", 5, 4));
  expect_every_box(*io::open_tensor_file(io, folder.path()), "w", 5, 4);

  const auto index = folder / "model.safetensors.index.json";
  const auto open_index = [&] { io::open_tensor_file(io, index); };
  test::write_bytes(index, "{\"weight_map\":[");
  test::expect_error(open_index, failed, {"index.json': not an index of safetensors"});
  test::write_bytes(index, "{}");
  test::expect_error(open_index, failed, {"not an index", "weight_map"});
  test::write_bytes(index, R"({"weight_map":{"w":3}})");
  test::expect_error(open_index, failed, {"not an index"});
  test::write_bytes(index, R"({"weight_map":{"w":"../model.safetensors"}})");
  test::expect_error(open_index, failed, {"'w' is said to be in '../model.safetensors'"});
  test::write_bytes(index, R"({"weight_map":{"v":"model.safetensors"}})");
  test::expect_error(open_index, failed, {"tensor 'v' is in", "but it is not"});
  test::write_bytes(index, R"({"weight_map":{"v":"none.safetensors"}})");
  test::expect_error(open_index, base::ExitCode::deck,
                     {"index.json': says that tensor 'v' is in '", "none.safetensors', which does not exist",
                      "copy or download all the files"});
}

TEST(SafetensorsIndex, TensorsInTwoFilesAreRefused) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto write = [&](const char* file, const char* one, const char* other) {
    const auto bytes = test::bytes_of(std::vector<float>{1, 2});
    test::write_bytes(folder / file, test::safetensors("{" + test::entry(one, "F32", "1", 0, 4) + "," +
                                                           test::entry(other, "F32", "1", 4, 8) + "}",
                                                       bytes));
  };
  const auto index = folder / "model.safetensors.index.json";
  const auto open = [&] { return io::open_tensor_file(io, index); };
  write("a.safetensors", "x", "w");
  write("b.safetensors", "y", "z");
  write("c.safetensors", "x", "w");  // a file that the index does not name does not count
  test::write_bytes(index, R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})");
  EXPECT_EQ(open()->names(), (std::vector<std::string>{"w", "x", "y", "z"}));
  write("b.safetensors", "y", "w");
  for (const char* of_w : {"", R"(,"w":"a.safetensors")", R"(,"w":"b.safetensors")"}) {
    test::write_bytes(index, std::string(R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors")") + of_w + "}}");
    test::expect_error(open, base::ExitCode::failed,
                       {"index.json': tensor 'w' is in '", "a.safetensors'", " and in '", "b.safetensors'",
                        "copy all the files of one checkpoint again"});
  }
}
