// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <istream>
#include <string>

#include "tests/io/files.hpp"

using namespace shard8;

TEST(DurableFile, WritesAndReplaces) {
  const test::TempFolder folder;
  const auto path = folder / "summary.json";
  io::write_durably(path, "first");
  EXPECT_EQ(test::read_bytes(path), "first");
  const std::string large(3'000'000, 'x');
  io::write_durably(path, large);
  EXPECT_EQ(test::read_bytes(path), large);
  io::write_durably(path, "");
  EXPECT_EQ(test::read_bytes(path), "");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(DurableFile, TakesBytesPieceByPiece) {
  const test::TempFolder folder;
  const auto path = folder / "metrics.jsonl";
  std::string whole;
  io::write_durably(path, [&](const io::Sink& sink) {
    for (int i = 0; i < 30000; ++i) {
      const std::string line = std::to_string(i) + '\n';
      sink(line);
      whole += line;
    }
  });
  EXPECT_EQ(test::read_bytes(path), whole);
  // The file may be read while its successor is made of it, and stays what it was if that fails.
  const auto half = [&](const io::Sink& sink) {
    io::read_stream(path, [&](std::istream& in) {
      for (std::string line; std::getline(in, line);)
        if (line.size() == 5) sink(line);
    });
  };
  const auto failing = [&](const io::Sink& sink) {
    half(sink);
    base::fail(base::ExitCode::failed, "no more");
  };
  EXPECT_THROW(io::write_durably(path, failing), base::Error);
  EXPECT_EQ(test::read_bytes(path), whole);
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  io::write_durably(path, half);
  EXPECT_EQ(test::read_bytes(path).size(), 20000u * 5);
  test::expect_error([&] { io::read_stream(folder / "none", [](std::istream&) {}); }, base::ExitCode::environment,
                     {"none'", "cannot read: No such file"});
}

TEST(DurableFile, NamesPathAndReason) {
  const test::TempFolder folder;
  test::expect_error([&] { io::write_durably(folder / "none/x.json", "text"); }, base::ExitCode::environment,
                     {"none/x.json.tmp'", "cannot create: No such file or directory; it needs a folder"});
  test::expect_error([&] { io::sync_folder(folder / "none"); }, base::ExitCode::environment,
                     {"none'", "cannot open the folder"});
}

TEST(DurableFile, LeavesNothingBehindWhenItFails) {
  const test::TempFolder folder;
  const auto path = folder / "taken";
  std::filesystem::create_directories(path + "/by a folder");
  test::expect_error([&] { io::write_durably(path, "text"); }, base::ExitCode::environment,
                     {"taken'", "cannot rename"});
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(InputFile, ReadsAnywhere) {
  const test::TempFolder folder;
  test::write_bytes(folder / "a", "0123456789");
  io::InputFile file(folder / "a");
  EXPECT_EQ(file.size(), 10);
  std::array<std::byte, 3> out = {};
  file.read(out, 7);
  EXPECT_EQ(out[0], std::byte{'7'});
  EXPECT_EQ(out[2], std::byte{'9'});
  const io::InputFile moved = std::move(file);
  moved.read(out, 0);
  EXPECT_EQ(out[0], std::byte{'0'});
  test::expect_error([&] { moved.read(out, 8); }, base::ExitCode::failed,
                     {"/a'", "bytes 8 to 11", "but it has 10 (it had 10"});
}

/// InputFile opens a file with O_NONBLOCK, and must clear this flag before it reads.
TEST(InputFile, ReadsWaitForTheirBytes) {
  const test::TempFolder folder;
  test::write_bytes(folder / "a", "0123456789");
  const io::InputFile file(folder / "a");
  int found = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    std::error_code closed;
    const auto name = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), closed);
    if (closed || name != std::filesystem::canonical(folder / "a")) continue;
    ++found;
    EXPECT_EQ(::fcntl(descriptor, F_GETFL) & O_NONBLOCK, 0);
  }
  EXPECT_EQ(found, 1);
}

TEST(InputFile, SaysWhyItCannotOpen) {
  const test::TempFolder folder;
  test::expect_error([&] { io::InputFile file(folder / "none"); }, base::ExitCode::deck, {"none'", "No such file"});
  test::expect_error([&] { io::InputFile file(folder.path()); }, base::ExitCode::deck, {"not a regular file"});
}
