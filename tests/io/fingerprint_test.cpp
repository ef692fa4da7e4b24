// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/digest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/arithmetic.hpp"
#include "io/tensor_file.hpp"
#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"
#include "tests/io/safetensors_bytes.hpp"

using namespace shard8;

namespace {

constexpr std::size_t kMiB = 1 << 20;

std::string random_text(std::size_t bytes, std::uint64_t seed) {
  std::string out(bytes, '\0');
  for (std::size_t i = 0; i < bytes; i += 8) {
    const auto word = base::mix64(base::mix64(seed) ^ i);
    std::memcpy(out.data() + i, &word, std::min<std::size_t>(8, bytes - i));
  }
  return out;
}

/// The fingerprint of a text. Appends what was read to `pieces` as (offset, bytes).
io::Fingerprint of(const std::string& text, std::vector<std::pair<std::uint64_t, std::size_t>>* pieces = nullptr) {
  return io::fingerprint_of(text.size(), [&](std::uint64_t offset, std::span<std::byte> out) {
    ASSERT_LE(offset + out.size(), text.size());
    std::memcpy(out.data(), text.data() + offset, out.size());
    if (pieces != nullptr) pieces->emplace_back(offset, out.size());
  });
}

}  // namespace

// Whatever the length, any changed byte of a content of at most 1,026 blocks changes the digest, and so does its
// length.
TEST(Fingerprint, CoversShortContents) {
  for (std::uint64_t draw = 0; draw < 60; ++draw) {
    const auto random = base::mix64(draw);
    const std::size_t most = draw % 3 == 0 ? 9000 : 1026 * 4096;
    auto text = random_text(draw == 0 ? 1026 * 4096 : 1 + random % most, draw);
    std::vector<std::pair<std::uint64_t, std::size_t>> pieces;
    const auto print = of(text, &pieces);
    EXPECT_EQ(print.length, text.size());
    EXPECT_TRUE(io::is_digest128(print.digest));
    std::size_t next = 0;
    for (const auto& [offset, bytes] : pieces) {
      EXPECT_EQ(offset, next);
      EXPECT_LE(bytes, kMiB);
      next += bytes;
    }
    EXPECT_EQ(next, text.size());
    EXPECT_EQ(of(std::string(text)), print);
    for (std::uint64_t change = 0; change < 8; ++change) {
      const auto at = change == 0 ? 0 : change == 1 ? text.size() - 1 : base::mix64(random ^ change) % text.size();
      const char before = text[at];
      text[at] = static_cast<char>(before ^ static_cast<char>(1 << change));
      EXPECT_NE(of(text).digest, print.digest) << at << " of " << text.size();
      text[at] = before;
    }
    text += '\0';
    EXPECT_NE(of(text), print);
  }
}

// Of longer contents the first and last 4 KiB and a block of each of 1,024 equal strata are read, in ascending order.
TEST(Fingerprint, SamplesLongContents) {
  for (const std::size_t bytes : {1026 * 4096 + 1, 1027 * 4096, 9 * 1000 * 1000, 40 * 1000 * 1000 + 7}) {
    auto text = random_text(bytes, bytes);
    std::vector<std::pair<std::uint64_t, std::size_t>> pieces;
    const auto print = of(text, &pieces);
    ASSERT_EQ(pieces.size(), 1026u);
    EXPECT_EQ(pieces.front().first, 0u);
    EXPECT_EQ(pieces.back().first, bytes - 4096);
    const std::size_t between = (bytes + 4095) / 4096 - 2;
    for (std::size_t i = 0; i < 1024; ++i) {
      EXPECT_EQ(pieces[i + 1].second, 4096u);
      ASSERT_EQ(pieces[i + 1].first % 4096, 0u);
      const std::size_t block = pieces[i + 1].first / 4096 - 1;
      EXPECT_GE(block, between * i / 1024);
      EXPECT_LT(block, between * (i + 1) / 1024);
    }
    for (const auto& [offset, length] : pieces) {
      const auto at = offset + base::mix64(offset) % length;
      text[at] = static_cast<char>(text[at] ^ 4);
      if (offset % (16 * 4096) == 0) {
        EXPECT_NE(of(text).digest, print.digest) << offset;
      }
      text[at] = static_cast<char>(text[at] ^ 4);
    }
    EXPECT_EQ(of(text), print);
    // A byte that no block holds is not seen: that is what a sample is.
    std::vector<bool> seen(bytes);
    for (const auto& [offset, length] : pieces) std::fill_n(seen.begin() + static_cast<long>(offset), length, true);
    const auto hidden = std::find(seen.begin(), seen.end(), false);
    if (hidden == seen.end()) continue;
    auto& byte = text[static_cast<std::size_t>(hidden - seen.begin())];
    byte = static_cast<char>(byte ^ 1);
    EXPECT_EQ(of(text), print);
  }
}

// Drawn blocks are not at one place of their strata.
TEST(Fingerprint, DrawsAreSpread) {
  constexpr std::uint64_t kBlocks = 1024 * 64 + 2;
  std::vector<std::uint64_t> places(64);
  std::uint64_t number = 0;
  io::fingerprint_of(kBlocks * 4096, [&](std::uint64_t offset, std::span<std::byte>) {
    if (number > 0 && number < 1025) ++places[(offset / 4096 - 1) % 64];
    ++number;
  });
  EXPECT_EQ(number, 1026u);
  // Chi-square of 63 degrees of freedom: above 110 with a probability of 1e-4.
  double chi = 0.0;
  for (const auto count : places) chi += (static_cast<double>(count) - 16) * (static_cast<double>(count) - 16) / 16;
  EXPECT_LT(chi, 110.0);
}

TEST(Fingerprint, FormIsInTheDigest) {
  const std::string text = random_text(64, 1);
  const auto with = [&](const io::ContentForm& form) {
    return io::fingerprint_of(
        text.size(), [&](std::uint64_t, std::span<std::byte> out) { std::memcpy(out.data(), text.data(), out.size()); },
        form);
  };
  EXPECT_EQ(with({}), of(text));
  EXPECT_EQ(with({4, 3, {}}).length, 16u);
  EXPECT_EQ(with({4, 3, {}}).samples, 3);
  EXPECT_EQ(with({4, 3, {}}).digest, with({4, 9, {}}).digest);
  std::set<std::string> digests;
  for (const io::ContentForm& form : {io::ContentForm{}, {4, 0, {}}, {1, 0, "a"}, {1, 0, "b"}, {4, 0, "a"}})
    digests.insert(with(form).digest);
  EXPECT_EQ(digests.size(), 5u);
  EXPECT_THROW(with({3, 0, {}}), base::Error);
  EXPECT_EQ(of("").length, 0u);
  EXPECT_NE(of("").digest, of(std::string(1, '\0')).digest);
}

// A change of the definition would make every checkpoint's inputs look changed.
TEST(Fingerprint, StaysWhatItWas) {
  std::string text(10 * kMiB, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 4096);
  EXPECT_EQ(of(text.substr(0, 100)).digest, "d24ff440dd83b951b38a25090a860f63");
  EXPECT_EQ(of(text).digest, "5e65390733cb243b5f9ab27dbb30c2ae");
}

namespace {

struct Weights {
  std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {0.5f, -0.0f}, c = {9};

  /// One .safetensors file; `dtype` is F32 or F64.
  void write_single(const std::string& path, bool doubles = false, const std::string& b_name = "b") const {
    const auto bytes = [&](const std::vector<float>& v) {
      return doubles ? test::bytes_of(std::vector<double>(v.begin(), v.end())) : test::bytes_of(v);
    };
    const std::string type = doubles ? "F64" : "F32";
    const auto data = bytes(c) + bytes(a) + bytes(b);
    const std::size_t e = doubles ? 8 : 4;
    test::write_bytes(
        path, test::safetensors("{" + test::entry("c", type, "", 0, e) + "," + test::entry("a", type, "2,3", e, 7 * e) +
                                    "," + test::entry(b_name, type, "2", 7 * e, 9 * e) + "}",
                                data));
  }
  void write_parts(const test::TempFolder& folder) const {
    test::write_bytes(folder / "one.safetensors",
                      test::safetensors("{" + test::entry("b", "F32", "2", 0, 8) + "}", test::bytes_of(b)));
    test::write_bytes(folder / "two.safetensors", test::safetensors("{" + test::entry("a", "F32", "2,3", 0, 24) + "," +
                                                                        test::entry("c", "F32", "", 24, 28) + "}",
                                                                    test::bytes_of(a) + test::bytes_of(c)));
    test::write_bytes(folder / "w.index.json",
                      R"({"weight_map":{"a":"two.safetensors","b":"one.safetensors","c":"two.safetensors"}})");
  }
  void write_hdf5(const std::string& path, hid_t type, const std::vector<hsize_t>& a_shape = {2, 3}) const {
    test::H5Writer writer(path);
    writer.group("/g");
    writer.dataset("/g/c", type, {}, c);
    writer.dataset("/g/a", type, a_shape, a, a_shape);
    writer.dataset("/g/b", type, {2}, b);
    writer.close();
  }
};

}  // namespace

TEST(WeightsFingerprint, IsOfTheContent) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto print = [&](const std::string& name) {
    return io::fingerprint_of(*io::open_tensor_file(io, folder / name));
  };
  const Weights weights;
  weights.write_single(folder / "w.safetensors");
  const auto expected = print("w.safetensors");
  EXPECT_EQ(expected.length, 9u);
  EXPECT_EQ(expected.samples, 3);

  weights.write_single(folder / "wide.safetensors", true);
  EXPECT_EQ(print("wide.safetensors"), expected);
  weights.write_parts(folder);
  EXPECT_EQ(print("w.index.json"), expected);
  weights.write_hdf5(folder / "w.h5", H5T_IEEE_F32LE);
  EXPECT_EQ(print("w.h5:/g"), expected);
  weights.write_hdf5(folder / "w.h5", H5T_IEEE_F64BE);
  EXPECT_EQ(print("w.h5:/g"), expected);

  weights.write_single(folder / "other.safetensors", false, "d");
  EXPECT_NE(print("other.safetensors").digest, expected.digest) << "a name";
  weights.write_hdf5(folder / "w.h5", H5T_IEEE_F32LE, {3, 2});
  EXPECT_NE(print("w.h5:/g").digest, expected.digest) << "a shape";
  for (const bool positive_zero : {true, false}) {
    Weights changed;
    (positive_zero ? changed.b[1] : changed.a[4]) = 0.0f;
    changed.write_single(folder / "w.safetensors");
    EXPECT_NE(print("w.safetensors").digest, expected.digest) << "a value";
  }
}

// Tensors that cannot be read, as old checkpoints of GPT-2 have them, are there by name and shape.
TEST(WeightsFingerprint, UnreadableTensorsCountByNameAndShape) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto print = [&](const std::string& mask, const std::string& shape, const std::string& data) {
    test::write_bytes(folder / "w.safetensors",
                      test::safetensors("{" + test::entry("a", "F32", "1", 0, 4) + "," +
                                            test::entry("mask", mask, shape, 4, 4 + data.size()) + "}",
                                        "\x01\x02\x03\x04" + data));
    return io::fingerprint_of(*io::open_tensor_file(io, folder / "w.safetensors"));
  };
  const auto expected = print("U8", "2,2", "abcd");
  EXPECT_EQ(expected.length, 1u);
  EXPECT_EQ(expected.samples, 2);
  EXPECT_EQ(print("U8", "2,2", "abce"), expected);
  EXPECT_NE(print("U8", "1,4", "abcd"), expected);
  EXPECT_EQ(print("F32", "1,1,1", "abcd").length, 1u);
  EXPECT_EQ(print("F32", "0,3", "").length, 1u);
  EXPECT_EQ(print("F32", "1,1", "abcd").length, 2u);
}

// Blocks of 1,024 values begin and end within tensors and rows, and span several tensors.
TEST(WeightsFingerprint, LongFilesInAnyContainer) {
  const test::TempFolder folder;
  io::IoThread io;
  struct Tensor {
    std::string name, shape;
    std::vector<hsize_t> extents;
  };
  const std::vector<Tensor> tensors = {
      {"t0", "1000,701", {1000, 701}}, {"t1", "5", {5}},     {"t2", "", {}}, {"t3", "300001", {300001}},
      {"t4", "3,200000", {3, 200000}}, {"t5", "1,1", {1, 1}}};
  std::string header, data;
  std::vector<std::vector<float>> values;
  for (const auto& t : tensors) {
    std::size_t count = 1;
    for (const auto size : t.extents) count *= size;
    std::vector<float> v(count);
    for (std::size_t i = 0; i < count; ++i) v[i] = static_cast<float>(base::mix64(data.size() + i) % 1000) - 500.0f;
    header += (header.empty() ? "{" : ",") +
              test::entry(t.name, "F32", t.shape, data.size(), data.size() + count * sizeof(float));
    data += test::bytes_of(v);
    values.push_back(std::move(v));
  }
  test::write_bytes(folder / "w.safetensors", test::safetensors(header + "}", data));
  {
    test::H5Writer writer(folder / "w.h5");
    for (std::size_t i = 0; i < tensors.size(); ++i)
      writer.dataset(tensors[i].name, H5T_IEEE_F32LE, tensors[i].extents, values[i]);
    writer.close();
  }
  const auto single = io::fingerprint_of(*io::open_tensor_file(io, folder / "w.safetensors"));
  EXPECT_EQ(single.length, data.size() / sizeof(float));
  EXPECT_GT(data.size(), 1026u * 4096);
  EXPECT_EQ(io::fingerprint_of(*io::open_tensor_file(io, folder / "w.h5")), single);
  // The stream is the joined bytes: they are in the order of the names here.
  std::string names;
  const auto number = [&](std::uint64_t n) { names.append(reinterpret_cast<const char*>(&n), sizeof n); };
  for (const auto& t : tensors) {
    number(t.name.size());
    names += t.name;
    number(t.extents.size());
    for (const auto size : t.extents) number(size);
  }
  const auto joined = io::fingerprint_of(data.size(),
                                         [&](std::uint64_t offset, std::span<std::byte> out) {
                                           std::memcpy(out.data(), data.data() + offset, out.size());
                                         },
                                         {4, 6, names});
  EXPECT_EQ(joined, single);
}
