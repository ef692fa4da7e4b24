// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/token_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <numeric>

#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"

using namespace shard8;

namespace {

const std::string kLlama = SHARD8_SOURCE_DIR "/tests/gold/llama_tiny.h5:/tokens";

std::vector<std::int32_t> all_of(const io::TokenFile& file) {
  std::vector<io::Range> ranges;
  for (const auto size : file.shape()) ranges.push_back({0, size, 1});
  std::vector<std::int32_t> out(static_cast<std::size_t>(file.elements()));
  file.read(out, ranges);
  return out;
}

}  // namespace

// The expected values are those of tests/gold/llama_tiny.h5 as h5py reads them.
TEST(TokenFile, ReadsTheGold) {
  io::IoThread io;
  const io::TokenFile file(io, kLlama);
  EXPECT_EQ(file.shape(), (std::vector<std::int64_t>{20, 8, 33}));
  const auto tokens = all_of(file);
  EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), 0L), 698737);
  EXPECT_EQ(tokens.back(), 132);

  std::vector<std::int32_t> piece(4);
  file.read(piece, std::array<io::Range, 3>{{{3, 1, 1}, {5, 1, 1}, {7, 4, 1}}});
  EXPECT_EQ(piece, (std::vector<std::int32_t>{35, 70, 240, 215}));
}

TEST(TokenFile, ReadsStridedRanges) {
  io::IoThread io;
  const io::TokenFile file(io, kLlama);
  const auto tokens = all_of(file);
  std::vector<std::int32_t> out(2 * 3 * 4);
  file.read(out, std::array<io::Range, 3>{{{4, 2, 5}, {1, 3, 3}, {2, 4, 10}}});
  std::size_t i = 0;
  for (const std::size_t s : {4, 9}) {
    for (const std::size_t b : {1, 4, 7}) {
      for (const std::size_t t : {2, 12, 22, 32}) {
        EXPECT_EQ(out[i++], tokens[(s * 8 + b) * 33 + t]) << s << " " << b << " " << t;
      }
    }
  }
}

TEST(TokenFile, ReadsEveryIntegerType) {
  const test::TempFolder folder;
  io::IoThread io;
  const std::vector<std::pair<std::string, hid_t>> types = {
      {"i8", H5T_STD_I8LE},   {"u8", H5T_STD_U8LE},   {"i16", H5T_STD_I16LE},   {"u16be", H5T_STD_U16BE},
      {"i32", H5T_STD_I32LE}, {"u32", H5T_STD_U32LE}, {"i64be", H5T_STD_I64BE}, {"u64", H5T_STD_U64LE}};
  const std::vector<std::int32_t> values = {0, 1, 127, 3, 99};
  test::H5Writer writer(folder / "t.h5");
  for (const auto& [name, type] : types) writer.dataset(name, type, {5}, values);
  writer.close();
  for (const auto& [name, type] : types) {
    const io::TokenFile file(io, folder / "t.h5:/" + name);
    EXPECT_EQ(all_of(file), values) << name;
  }
}

TEST(TokenFile, NeverClipsInSilence) {
  const test::TempFolder folder;
  io::IoThread io;
  test::H5Writer writer(folder / "t.h5");
  writer.dataset<std::int64_t>("wide", H5T_STD_I64LE, {2}, {1, 5'000'000'000});
  writer.dataset<std::int64_t>("negative", H5T_STD_I64LE, {1}, {-5'000'000'000});
  writer.dataset<std::int64_t>("u32", H5T_STD_U32LE, {1}, {4'000'000'000});
  writer.close();
  const auto read = [&](const char* name) { all_of(io::TokenFile(io, folder / "t.h5:/" + name)); };
  test::expect_error([&] { read("wide"); }, base::ExitCode::failed, {"t.h5:/wide'", "5000000000"});
  test::expect_error([&] { read("negative"); }, base::ExitCode::failed, {"token -5000000000"});
  test::expect_error([&] { read("u32"); }, base::ExitCode::failed, {"token 4000000000"});
}

TEST(TokenFile, ReadsPiecesOfRows) {
  const test::TempFolder folder;
  io::IoThread io;
  constexpr std::int64_t kCount = 9'000'001, kPiece = 4'000'000;
  std::vector<std::int32_t> values(kCount);
  std::iota(values.begin(), values.end(), 0);
  test::H5Writer writer(folder / "t.h5");
  writer.dataset("s", H5T_STD_I32LE, {kCount}, values);
  writer.close();
  const io::TokenFile file(io, folder / "t.h5:/s");
  for (std::int64_t first = 0; first < kCount; first += kPiece) {
    std::vector<std::int32_t> piece(static_cast<std::size_t>(std::min(kPiece, kCount - first)));
    file.read_flat(piece, first);
    EXPECT_EQ(piece.front(), first);
    EXPECT_EQ(piece.back(), first + static_cast<std::int64_t>(piece.size()) - 1);
  }

  // Three dimensions, in pieces that begin and end inside of rows.
  const io::TokenFile gold(io, kLlama);
  std::vector<std::int32_t> joined;
  for (std::int64_t first = 0; first < gold.elements(); first += 7) {
    std::vector<std::int32_t> piece(static_cast<std::size_t>(std::min<std::int64_t>(7, gold.elements() - first)));
    gold.read_flat(piece, first);
    joined.insert(joined.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(joined, all_of(gold));
}

// The advice is about the cause: a writer has no use for a switch that turns locks off.
TEST(TokenFile, SaysThatAFileIsBeingWritten) {
  const test::TempFolder folder;
  io::IoThread io;
  test::H5Writer writer(folder / "t.h5");
  writer.dataset<std::int32_t>("tokens", H5T_STD_I32LE, {3}, {1, 2, 3});
  writer.close();
  const auto open = [&](const char* name) {
    return [&io, spec = folder / (std::string(name) + ":/tokens")] { io::TokenFile file(io, spec); };
  };
  const auto says = [&](const char* name, const std::string& advice) {
    test::expect_error(open(name), base::ExitCode::failed, {name, "HDF5 says", advice});
    try {
      open(name)();
    } catch (const base::Error& e) {
      EXPECT_EQ(std::string(e.what()).find("HDF5_USE_FILE_LOCKING"), std::string::npos) << e.what();
    }
  };
  const int lock = ::open((folder / "t.h5").c_str(), O_RDWR | O_CLOEXEC);  // as HDF5 in another process
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  says("t.h5", "; another process writes the file now: start when that process has closed it");
  ::close(lock);
  open("t.h5")();

  // HDF5's newer formats mark a file that is open for writing. A copy of it keeps the mark, as one does whose writer
  // was killed.
  io::H5Handle access(SHARD8_H5("access", H5Pcreate(H5P_FILE_ACCESS)), H5Pclose);
  SHARD8_H5("access", H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_V110));
  io::H5Handle newer(
      SHARD8_H5("newer", H5Fcreate((folder / "new.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id())), H5Fclose);
  SHARD8_H5("newer", H5Fflush(newer.id(), H5F_SCOPE_GLOBAL));
  std::filesystem::copy_file(folder / "new.h5", folder / "marked.h5");
  newer.close("newer");
  access.close("access");
  says("marked.h5", "; another process writes the file now, or ended without closing it");

  test::write_bytes(folder / "cut.h5", test::read_bytes(folder / "t.h5").substr(0, 1500));
  says("cut.h5", "; the file is not whole: it is still written, or was not copied to its end");
}

TEST(TokenFile, SaysThatItsContentIsElsewhere) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto open = [&](const std::string& spec) {
    return [&io, &folder, spec] { io::TokenFile file(io, folder / spec); };
  };
  std::filesystem::copy_file(SHARD8_SOURCE_DIR "/tests/cases/lfs_pointer/lfs/model.safetensors", folder / "lfs.h5");
  std::filesystem::create_symlink("../blobs/0123", folder / "link.h5");
  test::expect_error(open("lfs.h5:/x"), base::ExitCode::deck, {"lfs.h5': is a pointer of Git LFS", "git lfs pull"});
  test::expect_error(open("link.h5:/x"), base::ExitCode::deck, {"link.h5': the link leads to '../blobs/0123'"});
}

TEST(TokenFile, SaysWhatIsWrong) {
  const test::TempFolder folder;
  io::IoThread io;
  test::H5Writer writer(folder / "t.h5");
  writer.group("inside");
  writer.dataset<double>("real", H5T_IEEE_F64LE, {1}, {1.0});
  writer.dataset<std::int32_t>("tokens", H5T_STD_I32LE, {3}, {1, 2, 3});
  writer.close();
  test::write_bytes(folder / "text.h5", "this is no HDF5 file");
  test::write_bytes(folder / "empty.h5", "");
  const auto open = [&](const std::string& spec) {
    return [&io, &folder, spec] { io::TokenFile file(io, folder / spec); };
  };
  const auto failed = base::ExitCode::failed;
  test::expect_error(open("none.h5:/x"), base::ExitCode::deck, {"none.h5'", "no such file"});
  test::expect_error(open("t.h5"), base::ExitCode::deck, {"names no dataset", "file.h5:/dataset", "(real, tokens)"});
  test::expect_error(open("t.h5:/"), base::ExitCode::deck, {"names no dataset"});
  test::expect_error(open("text.h5:/x"), failed, {"text.h5'", "not an HDF5 file"});
  test::expect_error(open("empty.h5:/x"), failed, {"empty.h5'"});
  test::expect_error(open("t.h5:/token"), base::ExitCode::deck,
                     {"no dataset '/token'", "groups (inside)", "datasets (real, tokens)"});
  test::expect_error(open("t.h5:/none/tokens"), base::ExitCode::deck, {"no dataset '/none/tokens'"});
  test::expect_error(open("t.h5:/tokens/x"), base::ExitCode::deck, {"no dataset '/tokens/x'"});
  test::expect_error(open("t.h5:/inside"), base::ExitCode::deck, {"no dataset '/inside'"});
  test::expect_error(open("t.h5:/real"), failed, {"t.h5:/real'", "floating-point"});

  const io::TokenFile file(io, folder / "t.h5:/tokens");
  std::vector<std::int32_t> out(4);
  test::expect_error(
      [&] {
        file.read(out, std::array<io::Range, 1>{{{1, 3, 1}}});
      },
      failed, {"3 indices from 1 in steps of 1", "dimension 0", "has 3"});
  test::expect_error([&] { file.read(out, std::array<io::Range, 1>{{{-1, 1, 1}}}); }, failed, {"from -1"});
  test::expect_error([&] { file.read({}, std::array<io::Range, 1>{{{0, 2, 1}}}); }, failed, {"buffer of 0"});
}

TEST(TokenFile, NamesATruncatedFile) {
  const test::TempFolder folder;
  io::IoThread io;
  {
    test::H5Writer writer(folder / "t.h5");
    writer.dataset("tokens", H5T_STD_I32LE, {100'000}, std::vector<std::int32_t>(100'000, 5));
    writer.close();
  }
  std::filesystem::resize_file(folder / "t.h5", 100'000);
  test::expect_error([&] { io::TokenFile(io, folder / "t.h5:/tokens"); }, base::ExitCode::failed,
                     {"t.h5", "HDF5 says", "truncated"});
}
