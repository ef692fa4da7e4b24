// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/shard_file.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <thread>

#include "tests/io/files.hpp"
#include "tests/io/shards.hpp"

using namespace shard8;
using test::read_all;
using test::shard_box;
using test::write_shard;

namespace {

constexpr auto kBlock = static_cast<std::int64_t>(io::kShardBlock);

/// Boxes of every dtype, 1-D and 2-D, smaller than a block, as large, and larger, with rows longer than a block.
std::vector<io::ShardBox> many_boxes() {
  std::vector<io::ShardBox> boxes = {
      shard_box("model.norm.weight", "fp32", {1}),
      shard_box("model.embed_tokens.weight", "master", "fp32", {9000, 1024}, {3000, 3100, 0, 1024}),
      shard_box("model.embed_tokens.weight", "exp_avg", "bf16", {9000, 1024}, {3000, 3100, 512, 300}),
      shard_box("lm_head.weight", "master", "bf16", {7, 5'000'001}, {2, 3, 1, 5'000'000}),
      shard_box("lm_head.weight", "master", "bf16", {7, 5'000'001}, {5, 1, 1, 4'999'999}),
      shard_box("whole_block", "u8", {kBlock}),
      shard_box("whole_blocks", "e4m3", {2, kBlock}),
      shard_box("short_block", "e5m2", {2 * kBlock + 1})};
  for (const auto& dtype : io::shard_dtypes()) {
    for (std::int64_t n = 1; n < 40; n += 9) {
      const std::string name = "small." + std::string(dtype.name) + "." + std::to_string(n);
      boxes.push_back(shard_box(name, "one", std::string(dtype.name), {100}, {n, n, 0, 1}));
      boxes.push_back(shard_box(name, "two", std::string(dtype.name), {n, 1000 * n}, {0, n, n, 999 * n}));
    }
  }
  return boxes;
}

/// Reads `wanted` with a row stride that leaves room, and compares it and the room.
void expect_part(const io::ShardReader& reader, std::size_t number, const io::Box& wanted, std::int64_t room,
                 const test::Bytes& values) {
  const auto& box = reader.boxes()[number];
  const std::int64_t size = box.element_bytes, stride = wanted.cols * size + room;
  test::Bytes out(static_cast<std::size_t>(wanted.rows * stride), std::byte{0xa5});
  reader.read(number, wanted, out.data(), stride);
  for (std::int64_t row = 0; row < wanted.rows; ++row) {
    const auto* const expected =
        values.data() + ((wanted.row0 + row - box.box.row0) * box.box.cols + wanted.col0 - box.box.col0) * size;
    const auto* const found = out.data() + row * stride;
    ASSERT_TRUE(std::equal(expected, expected + wanted.cols * size, found)) << box.label() << ", row " << row;
    ASSERT_TRUE(std::all_of(found + wanted.cols * size, found + stride, [](auto b) { return b == std::byte{0xa5}; }));
  }
}

}  // namespace

TEST(ShardFile, RoundTrip) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto boxes = many_boxes();
  const auto shard = write_shard(io, folder / "shard_r0003.h5", boxes);
  EXPECT_EQ(shard.summary.file, "shard_r0003.h5");
  EXPECT_EQ(shard.summary.length, std::filesystem::file_size(folder / "shard_r0003.h5"));

  const io::ShardReader reader(folder / "shard_r0003.h5", shard.summary);
  EXPECT_EQ(reader.identity(), (io::ShardIdentity{"run-1", 1200}));
  ASSERT_EQ(reader.boxes().size(), boxes.size());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    auto found = reader.boxes()[i];
    EXPECT_TRUE(found.bytes() < 64 * 1024 || found.offset % 4096 == 0) << found.label();
    found.offset = 0;
    found.digests.clear();
    EXPECT_EQ(found, boxes[i]);
    EXPECT_EQ(read_all(reader, i), shard.values[i]) << found.label();
  }
  reader.verify_all();
}

TEST(ShardFile, ReadsAnyPart) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto shard = write_shard(io, folder / "a.h5", many_boxes());
  const io::ShardReader reader(folder / "a.h5", shard.summary);
  std::mt19937_64 random(1);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (std::size_t i = 0; i < reader.boxes().size(); ++i) {
    const io::Box box = reader.boxes()[i].box;
    for (int k = 0; k < 12; ++k) {
      io::Box part = {box.row0 + below(box.rows), 0, box.col0 + below(box.cols), 0};
      part.rows = 1 + below(box.row0 + box.rows - part.row0);
      part.cols = 1 + below(box.col0 + box.cols - part.col0);
      if (k % 3 == 0) part.col0 = box.col0, part.cols = box.cols;  // whole rows
      if (k % 4 == 0) part.rows = 1;
      ASSERT_NO_FATAL_FAILURE(expect_part(reader, i, part, k % 2 == 0 ? 0 : below(30), shard.values[i]));
    }
    std::byte none{7};
    reader.read(i, {box.row0, 0, box.col0, box.cols}, &none, 1);
    EXPECT_EQ(none, std::byte{7});
    for (const io::Box outside : {io::Box{box.row0, box.rows + 1, box.col0, box.cols},
                                  io::Box{box.row0, box.rows, box.col0 + 1, box.cols}, io::Box{-1, 1, box.col0, 1}}) {
      test::expect_error([&] { reader.read(i, outside, &none, 1); }, base::ExitCode::failed, {"are not in it"});
    }
  }
}

TEST(ShardFile, FileWithoutBoxes) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto shard = write_shard(io, folder / "empty.h5", {}, {"", 0});
  const io::ShardReader reader(folder / "empty.h5", shard.summary);
  EXPECT_TRUE(reader.boxes().empty());
  EXPECT_EQ(reader.identity(), io::ShardIdentity{});
  reader.verify_all();
}

TEST(ShardFile, EqualStateGivesEqualFiles) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto first = write_shard(io, folder / "1.h5", many_boxes());
  const auto second = write_shard(io, folder / "2.h5", many_boxes());
  EXPECT_EQ(first.summary.index_digest, second.summary.index_digest);
  EXPECT_EQ(test::read_bytes(folder / "1.h5"), test::read_bytes(folder / "2.h5"));
}

TEST(ShardFile, ManyThreadsWrite) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto boxes = many_boxes();
  io::ShardWriter writer(io, folder / "a.h5", {"run", 1}, boxes);
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < boxes.size(); ++i) {
        const auto values = test::random_bytes(boxes[i].bytes(), i);
        for (std::uint64_t block = t; block < boxes[i].blocks(); block += 4) {
          const auto first = block * io::kShardBlock;
          writer.write(i, first, std::span(values).subspan(first, boxes[i].block_bytes(block)));
        }
      }
    });
  }
  threads.clear();
  const auto summary = writer.finish();
  EXPECT_EQ(test::read_bytes(folder / "a.h5"), [&] {
    write_shard(io, folder / "b.h5", boxes, {"run", 1});
    return test::read_bytes(folder / "b.h5");
  }());
  io::ShardReader(folder / "a.h5", summary).verify_all();
}

// Where the file system has no direct I/O this tests that it is done without.
TEST(ShardFile, DirectIoWritesTheSame) {
  const test::TempFolder folder;
  io::IoThread io;
  auto boxes = many_boxes();
  for (const std::int64_t bytes : {4096, 70'000, 5'000'000, 8 << 20})  // a page, parts of pages, one and two blocks
    boxes.push_back(shard_box("of_" + std::to_string(bytes), "u8", {bytes}));
  const auto written = write_shard(io, folder / "a.h5", boxes, {"run", 1});
  for (const std::size_t shift : {0, 4, 512}) {  // no disk reads memory that begins at a multiple of 4 alone
    const std::string path = folder / fmt::format("b{}.h5", shift);
    io::ShardWriter writer(io, path, {"run", 1}, boxes);
    writer.blocks().use_direct_io();
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      test::Bytes memory(written.values[i].size() + 4096 + shift);
      const std::size_t begin = 4096 - reinterpret_cast<std::uintptr_t>(memory.data()) % 4096 + shift;
      std::copy(written.values[i].begin(), written.values[i].end(),
                memory.begin() + static_cast<std::ptrdiff_t>(begin));
      writer.write(i, 0, std::span(memory).subspan(begin, written.values[i].size()));
    }
    const auto summary = writer.finish();
    EXPECT_TRUE(test::read_bytes(folder / "a.h5") == test::read_bytes(path));
    io::ShardReader(path, summary).verify_all();
  }
}

TEST(ShardFile, DirectIoWritesPartsOfPages) {
  const test::TempFolder folder;
  auto file = io::RawFile::create(folder / "a");
  file.open_direct();
  const auto bytes = test::random_bytes(40'000, 1);
  test::Bytes expected(50'000);
  file.set_length(expected.size());
  for (const auto& [offset, count] : {std::pair{100, 9000}, {8192, 4096}, {12288, 10'000}, {40'960, 7}, {49'000, 0}}) {
    const auto part =
        std::span(bytes).subspan(static_cast<std::size_t>(offset) % 1000, static_cast<std::size_t>(count));
    file.write_direct(part, static_cast<std::uint64_t>(offset));
    std::copy(part.begin(), part.end(), expected.begin() + offset);
  }
  test::Bytes got(expected.size());
  file.read(got, 0);
  EXPECT_TRUE(got == expected);
}

// Each of three processes writes every third box. What they need and what they give is plain bytes.
TEST(ShardFile, ManyProcessesWrite) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto boxes = many_boxes();
  io::ShardWriter writer(io, folder / "node_n0000.h5", {"run", 1}, boxes);
  const std::string layout = shard_index_text({"run", 1}, writer.boxes());
  std::vector<int> pipes;
  for (std::size_t process = 0; process < 3; ++process) {
    int ends[2] = {};
    ASSERT_EQ(::pipe(ends), 0);
    const auto child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool good = true;
      try {
        io::ShardBlockWriter part(folder / "node_n0000.h5", io::parse_shard_index(layout, "layout").boxes);
        for (std::size_t i = process; i < boxes.size(); i += 3) {
          part.write(i, 0, test::random_bytes(boxes[i].bytes(), i));
          const auto& digests = part.boxes()[i].digests;
          const auto bytes = static_cast<ssize_t>(digests.size() * sizeof(digests[0]));
          good = good && ::write(ends[1], digests.data(), static_cast<std::size_t>(bytes)) == bytes;
        }
        part.file().sync();
        part.file().close();
      } catch (const std::exception&) {
        good = false;
      }
      ::_exit(good ? 0 : 1);
    }
    ::close(ends[1]);
    pipes.push_back(ends[0]);
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    std::vector<std::uint64_t> digests(boxes[i].blocks());
    const auto bytes = digests.size() * sizeof(digests[0]);
    ASSERT_EQ(::read(pipes[i % 3], digests.data(), bytes), static_cast<ssize_t>(bytes));
    writer.adopt(i, 0, digests);
  }
  for (const int pipe : pipes) {
    int status = -1;
    EXPECT_GT(::wait(&status), 0);
    EXPECT_EQ(status, 0);
    ::close(pipe);
  }
  const auto summary = writer.finish();
  const io::ShardReader reader(folder / "node_n0000.h5", summary);
  reader.verify_all();
  for (std::size_t i = 0; i < boxes.size(); ++i)
    EXPECT_EQ(read_all(reader, i), test::random_bytes(boxes[i].bytes(), i));
}

TEST(ShardFile, WritesWholeBlocksOnce) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto path = folder / "a.h5";
  {
    io::ShardWriter writer(io, path, {"run", 1}, {shard_box("a", "u8", {2 * kBlock + 5})});
    const test::Bytes bytes(io::kShardBlock + 5);
    const std::span all(bytes);
    const auto refused = [&](std::uint64_t first, std::uint64_t count, const std::string& part) {
      test::expect_error([&] { writer.write(0, first, all.first(count)); }, base::ExitCode::failed, {"'a'", part});
    };
    refused(1, 5, "are not whole blocks");
    refused(0, 5, "are not whole blocks");
    refused(io::kShardBlock, io::kShardBlock + 4, "are not whole blocks");
    refused(2 * io::kShardBlock, 6, "are not whole blocks");
    refused(4 * io::kShardBlock, 0, "are not whole blocks");
    writer.write(0, io::kShardBlock, all);
    refused(2 * io::kShardBlock, 5, "block 2 is written twice");
    test::expect_error([&] { writer.finish(); }, base::ExitCode::failed, {"block 0 was not written"});
    test::expect_error([&] { writer.adopt(0, 3, std::vector<std::uint64_t>{1}); }, base::ExitCode::failed,
                       {"1 blocks from block 3 of 3"});
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path)) << "an unfinished file is removed";
}

TEST(ShardFile, LeavesAFileThatIsThere) {
  const test::TempFolder folder;
  io::IoThread io;
  test::write_bytes(folder / "a.h5", "precious");
  test::expect_error(
      [&] {
        io::ShardWriter(io, folder / "a.h5", {"run", 1}, {});
      },
      base::ExitCode::failed, {"a.h5': cannot create: File exists; remove it"});
  EXPECT_EQ(test::read_bytes(folder / "a.h5"), "precious");
  test::expect_error(
      [&] {
        io::ShardWriter(io, folder / "none/a.h5", {"run", 1}, {});
      },
      base::ExitCode::failed, {"none/a.h5': cannot create: No such file"});
}

TEST(ShardFile, RefusesBoxesThatCannotBe) {
  const test::TempFolder folder;
  io::IoThread io;
  const std::string long_name(1025, 'n');
  struct Case {
    io::ShardBox box;
    std::string part;
  };
  std::vector<Case> table = {
      {shard_box("a", "f16", {2}), "has dtype 'f16'; allowed are fp32, bf16"},
      {shard_box("a", "fp32", {0}), "shape (0)"},
      {shard_box("a", "m", "fp32", {1, 1, 1}, {0, 1, 0, 1}), "shape (1, 1, 1)"},
      {shard_box("a", "fp32", {INT64_MAX}), "at most 2^62 bytes"},
      {shard_box("a", "m", "fp32", {4}, {0, 0, 0, 1}), "has 0 rows from 0"},
      {shard_box("a", "m", "fp32", {4}, {2, 3, 0, 1}), "has 3 rows from 2"},
      {shard_box("a", "m", "fp32", {4, 4}, {0, 4, 1, INT64_MAX}), "columns from 1 of a tensor of 4 x 4"},
      {shard_box(long_name, "fp32", {2}), "has a name of 1025 bytes; at most 1024"}};
  for (const std::string name : {"", ".", "..", "a/b", "/a", "a\nb", "\x1b[31m", "\xff\xfe", "\xc3"}) {
    table.push_back({shard_box(name, "fp32", {2}), name.empty() ? "has no name" : "that no HDF5 group can have"});
    table.push_back({shard_box("a", name, "fp32", {2}, {0, 2, 0, 1}), "box 1 ('a', "});
  }
  table.push_back({shard_box(std::string("a\0b", 3), "fp32", {2}), "that no HDF5 group can have"});
  table.push_back({shard_box("first", "fp32", {2}), "is there twice with row 0 and column 0"});
  table.push_back({shard_box("first", "master", "fp32", {3}, {2, 1, 0, 1}), "another box of this tensor is fp32"});
  for (const auto& [box, part] : table) {
    test::expect_error(
        [&, &bad = box] {
          io::ShardWriter(io, folder / "a.h5", {"run", 1}, {shard_box("first", "fp32", {2}), bad});
        },
        base::ExitCode::failed, {"a.h5': cannot be laid out: box 1", part});
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
  test::expect_error(
      [&] {
        io::ShardWriter(io, folder / "a.h5", {"\xff", 1}, {});
      },
      base::ExitCode::failed, {"run id that is not UTF-8"});
}
