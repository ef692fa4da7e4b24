// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/shard_file.hpp"

#include <gtest/gtest.h>

#include "tests/io/files.hpp"
#include "tests/io/shards.hpp"

using namespace shard8;
using test::shard_box;

namespace {

std::string text_of(const io::ShardIndex& index) { return shard_index_text(index.identity, index.boxes); }

io::ShardIndex example() {
  io::ShardIndex index = {{"run \"1\"", 7}, {shard_box("a", "bf16", {3, 2}), shard_box("b", "u8", {5'000'000})}};
  index.boxes[0].offset = 4096;
  index.boxes[0].digests = {0x123456789abcdef0};
  index.boxes[1].offset = 8192;
  index.boxes[1].digests = {1, 0xffffffffffffffff};
  return index;
}

/// The text of the example with one part replaced.
std::string with(const std::string& part, const std::string& other) {
  std::string text = text_of(example());
  const auto at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), other);
}

}  // namespace

TEST(ShardIndex, RoundTrip) {
  const auto index = example();
  const std::string text = text_of(index);
  EXPECT_EQ(io::parse_shard_index(text, "x"), index);
  EXPECT_EQ(io::parse_shard_index(text + "   ", "x"), index);
  EXPECT_EQ(io::parse_shard_index(text_of({}), "x"), io::ShardIndex{});
}

TEST(ShardIndex, SizeIsKnownBefore) {
  auto index = example();
  for (auto& box : index.boxes) box.offset = 0, box.digests.clear();
  const auto bytes = shard_index_bytes(index.identity, index.boxes);
  for (auto& box : index.boxes) box.offset = UINT64_MAX, box.digests.assign(box.blocks(), UINT64_MAX);
  EXPECT_LE(text_of(index).size(), bytes);
}

TEST(ShardIndex, MalformedIsRefused) {
  struct Case {
    std::string text;
    std::string part;
  };
  const std::vector<Case> table = {
      {"", "parse error"},
      {"[]", "not that of a shard file"},
      {"{}", "not that of a shard file"},
      {with("shard8 shard", "other"), "not that of a shard file"},
      {with("\"version\":1", "\"version\":0"), "version 0 does not exist"},
      {with("\"version\":1", "\"version\":-1"), "'version' is not a number"},
      {with("\"version\":1", "\"version\":1.0"), "'version' is not a number"},
      {with("\"version\":1", "\"version\":9223372036854775808"), "'version' is not a number"},
      {with("\"version\":1,", ""), "not that of a shard file"},
      {with("\"step\":7", "\"steps\":7"), "key 'step' is missing"},
      {with("\"step\":7", "\"step\":7,\"more\":1"), "key 'more' is not known"},
      {with("\"step\":7", "\"step\":7,\"step\":7"), "key 'step' is there twice"},
      {with("\"run_id\":\"run \\\"1\\\"\"", "\"run_id\":1"), "'run_id' is no text"},
      {with("4194304", "4194305"), "blocks of 4194305 bytes"},
      {with("[3,2]", "3"), "box 0: 'shape' is no list of 1 to 2 numbers"},
      {with("[3,2]", "[]"), "box 0: 'shape' is no list of 1 to 2 numbers"},
      {with("[3,2]", "[-3,2]"), "box 0: 'shape' is not a number from 0"},
      {with("[3,2]", "[4611686018427387904,2]"), "at most 2^62 bytes"},
      {with("[3,2]", "[3,1]"), "it must be inside"},
      {with("[0,3,0,2]", "[0,3,0]"), "'box' is no list of 4 to 4 numbers"},
      {with("[0,3,0,2]", "[0,2,0,2]"), "12 bytes and 1 digests; needed are 8 and 1"},
      {with("\"bytes\":12", "\"bytes\":13"), "13 bytes and 1 digests; needed are 12 and 1"},
      {with("123456789abcdef0", "123456789abcdeg0"), "texts of 16 hexadecimal digits"},
      {with("\"123456789abcdef0\"", "1"), "texts of 16 hexadecimal digits"},
      {with("\"123456789abcdef0\"", ""), "12 bytes and 0 digests; needed are 12 and 1"},
      {with("[\"123456789abcdef0\"]", "{}"), "'digests' is no list"},
      {with("\"123456789abcdef0\"", "[[[[]]]]"), "nested more than 5 deep"},
      {with("bf16", "bf17"), "has dtype 'bf17'; allowed are"},
      {with("\"a\"", "\"a/b\""), "that no HDF5 group can have"},
      {with("\"a\"", "\"b\""), "is there twice with row 0 and column 0"},
      {text_of(example()) + "x", "parse error"},
      {std::string(1000, '['), "nested more than 5 deep"}};
  for (const auto& [text, part] : table) {
    SCOPED_TRACE(text);
    test::expect_error([&, &t = text] { io::parse_shard_index(t, "'f.h5'"); }, base::ExitCode::checkpoint,
                       {"'f.h5': its index is not valid: ", part, "; use another checkpoint"});
  }
  test::expect_error(
      [&] { io::parse_shard_index(with("\"version\":1", "\"new\":[],\"version\":2"), "'f.h5'"); },
      base::ExitCode::checkpoint,
      {"'f.h5': was written in version 2 of the format; this program reads up to version 1: use a newer"});
}

TEST(ShardIndex, PlacesAreChecked) {
  auto index = example();
  const auto problem = [&](const io::ByteRange& place, std::uint64_t length) {
    return problem_of_places(index.boxes, place, length);
  };
  const std::uint64_t end = 8192 + 5'000'000;
  EXPECT_EQ(problem({end, 10}, end + 10), "");
  EXPECT_NE(problem({end, 10}, end + 9).find("the index has 10 bytes"), std::string::npos);
  EXPECT_NE(problem({0, 10}, end - 1).find("'b', master"), std::string::npos);
  EXPECT_NE(problem({UINT64_MAX, 10}, end).find("the index has 10 bytes"), std::string::npos);
  EXPECT_NE(problem({4090, 10}, end).find("overlap"), std::string::npos);
  EXPECT_EQ((rest_of(index.boxes, {0, 10}, end + 3)),
            (std::vector<io::ByteRange>{{10, 4086}, {4108, 8192 - 4108}, {end, 3}}));
  index.boxes[0].offset = UINT64_MAX;
  EXPECT_NE(problem({0, 10}, end).find("'a', master"), std::string::npos);
}
