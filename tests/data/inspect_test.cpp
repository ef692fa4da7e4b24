// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/arithmetic.hpp"
#include "data/dataset.hpp"
#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"

using namespace shard8;

namespace {

namespace fs = std::filesystem;

struct Sizes {
  std::int64_t batch = 2, seq = 4, vocab = 1000;
};

std::unique_ptr<data::Dataset> open(io::IoThread& io, deck::DataKind kind, const std::string& path,
                                    const Sizes& sizes = {}) {
  deck::DataConfig config;
  config.kind = kind;
  config.path = path;
  config.batch = sizes.batch;
  return data::open_dataset(config, sizes.seq, sizes.vocab, io);
}

std::string random_bytes(std::size_t count, std::uint64_t seed) {
  std::string out(count, '\0');
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<char>(base::mix64(base::mix64(seed) ^ i));
  return out;
}

std::vector<std::int32_t> random_tokens(std::size_t count, std::int32_t vocab) {
  std::vector<std::int32_t> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<std::int32_t>(base::mix64(i) % static_cast<std::uint64_t>(vocab - 1)) + 1;
  return out;
}

void write_tokens(const std::string& path, hid_t type, const std::vector<hsize_t>& shape,
                  const std::vector<std::int32_t>& tokens, const std::vector<hsize_t>& chunk = {}) {
  test::H5Writer writer(path);
  writer.dataset("t", type, shape, tokens, chunk);
  writer.close();
}

io::Fingerprint tokens_print(io::IoThread& io, const std::string& path, const Sizes& sizes = {}) {
  return open(io, deck::DataKind::tokens, path + ":/t", sizes)->fingerprint().value();
}

}  // namespace

TEST(Inspect, BytesByContentAlone) {
  const test::TempFolder folder;
  const test::TempFolder parts;
  io::IoThread io;
  for (std::uint64_t draw = 0; draw < 12; ++draw) {
    const std::size_t length = draw == 0 ? 5 : 5 + base::mix64(draw) % (draw < 8 ? 20'000 : 6'000'000);
    const auto text = random_bytes(length, draw);
    test::write_bytes(folder / "text", text);
    const auto print = open(io, deck::DataKind::bytes, folder / "text")->fingerprint().value();
    EXPECT_EQ(print.length, length);
    EXPECT_EQ(print.samples, static_cast<std::int64_t>((length - 1) / 4));
    fs::rename(folder / "text", folder / "moved");
    EXPECT_EQ(open(io, deck::DataKind::bytes, folder / "moved")->fingerprint(), print);
    // The same stream in files of any sizes; the names matter only for the order.
    const auto cut = base::mix64(draw + 100) % length;
    test::write_bytes(parts / "a", text.substr(0, cut));
    test::write_bytes(parts / "b", text.substr(cut));
    EXPECT_EQ(open(io, deck::DataKind::bytes, parts.path())->fingerprint(), print);
    if (length <= std::size_t{1026} * 4096) {
      auto changed = text;
      const auto at = base::mix64(draw + 200) % length;
      changed[at] = static_cast<char>(changed[at] ^ 1);
      test::write_bytes(folder / "moved", changed);
      EXPECT_NE(open(io, deck::DataKind::bytes, folder / "moved")->fingerprint()->digest, print.digest);
    }
    test::write_bytes(folder / "moved", text + "x");
    EXPECT_NE(open(io, deck::DataKind::bytes, folder / "moved")->fingerprint()->digest, print.digest);
    Sizes longer;
    longer.seq = 3;
    test::write_bytes(folder / "moved", text);
    EXPECT_EQ(open(io, deck::DataKind::bytes, folder / "moved", longer)->fingerprint()->digest, print.digest)
        << "the digest is of the content, whatever model.seq";
  }
}

// The type, the chunks and the shape of the HDF5 dataset are its container.
TEST(Inspect, TokensByContentAlone) {
  const test::TempFolder folder;
  io::IoThread io;
  for (const std::size_t slabs : {7, 300'000}) {
    const std::size_t count = slabs * 2 * 5;
    const auto tokens = random_tokens(count, 1000);
    write_tokens(folder / "a.h5", H5T_STD_I32LE, {count}, tokens);
    const auto print = tokens_print(io, folder / "a.h5");
    EXPECT_EQ(print.length, count);
    EXPECT_EQ(print.samples, static_cast<std::int64_t>((count - 1) / 4));
    write_tokens(folder / "b.h5", H5T_STD_U16BE, {count}, tokens, {std::min<hsize_t>(count, 1000)});
    EXPECT_EQ(tokens_print(io, folder / "b.h5"), print);
    write_tokens(folder / "c.h5", H5T_STD_I64LE, {count}, tokens);
    EXPECT_EQ(tokens_print(io, folder / "c.h5"), print);
    write_tokens(folder / "d.h5", H5T_STD_U16LE, {slabs, 2, 5}, tokens, {std::min<hsize_t>(slabs, 5000), 1, 2});
    const auto slab_print = tokens_print(io, folder / "d.h5");
    EXPECT_EQ(slab_print.digest, print.digest);
    EXPECT_EQ(slab_print.length, count);
    EXPECT_EQ(slab_print.samples, static_cast<std::int64_t>(slabs * 2));
    auto changed = tokens;
    changed.back() ^= 1;
    write_tokens(folder / "b.h5", H5T_STD_U16BE, {count}, changed);
    EXPECT_NE(tokens_print(io, folder / "b.h5").digest, print.digest);
  }
}

TEST(Inspect, SyntheticDataHasNone) {
  io::IoThread io;
  const auto inspection = open(io, deck::DataKind::synthetic, "")->inspect();
  EXPECT_FALSE(inspection.fingerprint);
  EXPECT_TRUE(inspection.warnings.empty());
}

TEST(Inspect, FindsTokensOutsideTheVocabulary) {
  const test::TempFolder folder;
  io::IoThread io;
  auto tokens = random_tokens(3'000'000, 1000);
  for (std::size_t i = 1'000'000; i < 1'200'000; ++i) tokens[i] = 1000;
  write_tokens(folder / "s.h5", H5T_STD_I32LE, {3'000'000}, tokens);
  const auto stream = open(io, deck::DataKind::tokens, folder / "s.h5:/t");
  test::expect_error([&] { stream->inspect(); }, base::ExitCode::failed,
                     {"s.h5:/t': position 1", "token 1000 is outside the vocabulary", "model.vocab = 1000"});
  test::expect_error([&] { data::input_fault([&] { stream->inspect(); }); }, base::ExitCode::deck,
                     {"token 1000 is outside the vocabulary"});
  auto slabs = random_tokens(3 * 2 * 5, 1000);
  slabs[2 * 10 + 5 + 3] = -1;
  write_tokens(folder / "t.h5", H5T_STD_I32LE, {3, 2, 5}, slabs);
  test::expect_error([&] { open(io, deck::DataKind::tokens, folder / "t.h5:/t")->inspect(); }, base::ExitCode::failed,
                     {"t.h5:/t': slab 2, sequence 1, position 3: token -1"});
}

TEST(Inspect, WarnsOfBlocksOfTheFillValue) {
  const test::TempFolder folder;
  io::IoThread io;
  constexpr std::size_t kBlocks = 500, kCount = kBlocks * 1024;
  const auto warnings = [&](std::size_t filled_blocks, std::int32_t value, hid_t plan) {
    auto tokens = random_tokens(kCount, 1000);
    std::fill_n(tokens.begin() + 7 * 1024, filled_blocks * 1024, value);
    {
      const test::H5Writer writer(folder / "t.h5");
      const hsize_t count = kCount;
      const io::H5Handle space(H5Screate_simple(1, &count, nullptr), H5Sclose);
      const io::H5Handle data(H5Dcreate2(writer.id(), "t", H5T_STD_U16LE, space.id(), H5P_DEFAULT, plan, H5P_DEFAULT),
                              H5Dclose);
      H5Dwrite(data.id(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, tokens.data());
    }
    const auto inspection = open(io, deck::DataKind::tokens, folder / "t.h5:/t")->inspect();
    EXPECT_TRUE(inspection.fingerprint);
    return inspection.warnings;
  };
  EXPECT_TRUE(warnings(0, 0, H5P_DEFAULT).empty());
  EXPECT_TRUE(warnings(5, 0, H5P_DEFAULT).empty()) << "1 %";
  const auto six = warnings(6, 0, H5P_DEFAULT);
  ASSERT_EQ(six.size(), 1u);
  EXPECT_EQ(six[0],
            "'" + (folder / "t.h5:/t") +
                "': 6 of 500 sampled blocks of 1,024 tokens hold only the fill value 0: was the file written to "
                "its end?");
  EXPECT_TRUE(warnings(100, 3, H5P_DEFAULT).empty()) << "3 is not the fill value";
  const io::H5Handle plan(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const std::int32_t three = 3;
  H5Pset_fill_value(plan.id(), H5T_NATIVE_INT32, &three);
  EXPECT_EQ(warnings(100, 3, plan.id()).size(), 1u);
  EXPECT_TRUE(warnings(100, 0, plan.id()).empty());
  H5Pset_fill_value(plan.id(), -1, nullptr);
  H5Pset_fill_time(plan.id(), H5D_FILL_TIME_NEVER);
  EXPECT_TRUE(warnings(100, 0, plan.id()).empty()) << "no fill value is defined";
  // A short file of one block says nothing.
  write_tokens(folder / "s.h5", H5T_STD_U16LE, {20}, std::vector<std::int32_t>(20, 0));
  EXPECT_TRUE(open(io, deck::DataKind::tokens, folder / "s.h5:/t")->inspect().warnings.empty());
}

// What is wrong with data when they are opened is a fault of the input: exit code 2.
TEST(Open, FaultsOfTheInputHaveCode2) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto refuse = [&](deck::DataKind kind, const std::string& path, const std::vector<std::string>& parts) {
    SCOPED_TRACE(path);
    test::expect_error([&] { open(io, kind, path); }, base::ExitCode::deck, parts);
  };
  const auto tokens = deck::DataKind::tokens, bytes = deck::DataKind::bytes;
  {
    test::H5Writer writer(folder / "c.h5");
    writer.dataset<double>("real", H5T_IEEE_F64LE, {9}, std::vector<double>(9, 1.0));
    writer.dataset<std::int32_t>("flat", H5T_STD_I32LE, {2, 2}, {1, 2, 3, 4});
    writer.dataset<std::int32_t>("few", H5T_STD_I32LE, {2}, {1, 2});
    writer.dataset<std::int32_t>("none", H5T_STD_I32LE, {0}, {});
    writer.dataset<std::int32_t>("slabs", H5T_STD_I32LE, {0, 2, 5}, {});
    writer.close();
  }
  test::write_bytes(folder / "text.h5", "no HDF5 file");
  test::write_bytes(folder / "short", "abc");
  test::write_bytes(folder / "cut.h5", test::read_bytes(folder / "c.h5").substr(0, 1500));
  fs::create_directory(folder / "nothing");
  fs::create_symlink(folder / "loop", folder / "loop");
  refuse(tokens, folder / "text.h5:/t", {"text.h5': not an HDF5 file"});
  refuse(tokens, folder / "cut.h5:/t", {"cut.h5", "truncated"});
  refuse(tokens, folder / "c.h5:/real", {"floating-point"});
  refuse(tokens, folder / "c.h5:/flat", {"has 2 dimensions"});
  refuse(tokens, folder / "c.h5:/nope", {"no dataset '/nope'"});
  refuse(tokens, folder / "c.h5:/few", {"holds 2 tokens"});
  refuse(tokens, folder / "c.h5:/none", {"holds 0 tokens"});
  refuse(tokens, folder / "c.h5:/slabs", {"holds no tokens (shape (0, 2, 5))"});
  refuse(tokens, folder / "none.h5:/t", {"no such file"});
  refuse(tokens, folder / "nothing:/t", {"nothing': not a regular file"});
  refuse(tokens, folder / "loop:/t", {"loop'"});
  refuse(bytes, folder / "none", {"none': cannot open", "No such file"});
  refuse(bytes, folder / "short", {"holds 3 tokens"});
  refuse(bytes, folder / "nothing", {"holds 0 tokens"});
  refuse(bytes, folder / "short/file", {"cannot open", "Not a directory"});
  refuse(bytes, folder / "loop", {"loop': cannot open"});
  refuse(bytes, folder / std::string(300, 'n'), {"cannot open", "name too long"});
  refuse(bytes, "/dev/null", {"not a regular file"});
  if (::geteuid() == 0) return;  // root reads everything
  for (const auto* name : {"short", "c.h5", "nothing"}) fs::permissions(folder / name, fs::perms::none);
  refuse(bytes, folder / "short", {"Permission denied"});
  refuse(bytes, folder / "nothing", {"Permission denied"});
  refuse(tokens, folder / "c.h5:/few", {"c.h5", "Permission denied"});
  fs::permissions(folder / "nothing", fs::perms::owner_all);
}
