// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// The index of a shard file. An input is the text of an index. It is parsed alone, and put behind 4096 bytes of data
// into a file whose digests fit, so that only the index is wrong. It is refused with exit code 4 and a message that
// names the file, or its text can be written and parsed again to the same, and each box can be read or is refused, too.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "io/digest.hpp"
#include "io/shard_file.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace shard8::fuzz {
namespace {

constexpr std::uint64_t kDataBytes = 4096;
constexpr std::uint64_t kMostBytes = 1 << 20;  // of a box that is read

std::string text_of(const io::ShardIndex& index) { return shard_index_text(index.identity, index.boxes); }

void require_refusal(const base::Error& error) {
  require(error.code() == base::ExitCode::checkpoint, fmt::format("not exit code 4: {}", error.what()));
  require_good_error(error, {"w.h5'"}, {base::ExitCode::checkpoint, base::ExitCode::failed});
}

std::optional<io::ShardIndex> parse(const std::string& text, const std::string& path) {
  try {
    return io::parse_shard_index(text, "'" + path + "'");
  } catch (const base::Error& error) {
    require_refusal(error);
    return std::nullopt;
  }
}

void read_boxes(const io::ShardReader& reader) {
  for (std::size_t i = 0; i < reader.boxes().size(); ++i) {
    const io::ShardBox& box = reader.boxes()[i];
    if (box.bytes() > kMostBytes) continue;
    std::vector<std::byte> out(box.bytes());  // of the exact size, so that AddressSanitizer sees a write beyond
    const std::int64_t pitch = box.box.cols * box.element_bytes;
    io::Box corner = box.box;
    corner.rows = (corner.rows + 1) / 2, corner.cols = (corner.cols + 1) / 2;
    for (const io::Box& wanted : {box.box, corner}) {
      try {
        reader.read(i, wanted, out.data(), pitch);
      } catch (const base::Error& error) {
        require_refusal(error);
      }
    }
  }
  reader.verify_rest();
}

std::string list_of(Random& random, std::size_t count) {
  static const std::vector<std::string> odd = {"-1",   "0.5",  "1e9", "9223372036854775807", "9223372036854775808",
                                               "null", "\"\"", "[]",  "4611686018427387904"};
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ",") + (random.one_in(30) ? random.of(odd) : std::to_string(random.below(70)));
  }
  return text;
}

/// A box that is right; its place in the file is between 0 and kDataBytes.
io::ShardBox right_box(Random& random, std::size_t number) {
  io::ShardBox box;
  const auto& dtype = random.of(io::shard_dtypes());
  box.name = random.one_in(4) ? "größe" : "model.layers.0.w";
  box.content = fmt::format("c{}", number);
  box.dtype = dtype.name;
  box.element_bytes = dtype.element_bytes;
  const auto extent = [&] { return static_cast<std::int64_t>(1 + random.below(12)); };
  const std::int64_t rows = extent(), cols = random.one_in(2) ? 1 : extent();
  box.shape = cols == 1 ? std::vector{rows + 3} : std::vector{rows + 3, cols + 2};
  box.box = {extent() % 4, rows, cols == 1 ? 0 : extent() % 3, cols};
  box.digests = {random.next()};
  return box;
}

}  // namespace

void fuzz_one(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  static const std::string path = folder / "w.h5";
  static const std::string values(kDataBytes, 'v');
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto index = parse(text, path);
  if (index) require(parse(text_of(*index), path) == index, "an index changed when it was written");

  write_file(path, values + text);
  try {
    const io::ShardReader reader(path, {"w.h5", kDataBytes + size, kDataBytes, size, io::digest128(text), "none"});
    require(index.has_value() && reader.boxes() == index->boxes, "the reader takes another index");
    require(problem_of_places(index->boxes, {kDataBytes, size}, kDataBytes + size).empty(), "boxes cannot be there");
  } catch (const base::Error& error) {
    require_refusal(error);
    return;
  }
  // Once more with digests that fit.
  io::ShardIndex right = *index;
  const io::ByteRange place = {kDataBytes, shard_index_bytes(right.identity, right.boxes)};
  const auto values_of = [&](const io::ByteRange& range) {
    return std::as_bytes(std::span(values)).subspan(range.offset, range.bytes);
  };
  if (!problem_of_places(right.boxes, place, kDataBytes + place.bytes).empty()) return;
  for (auto& box : right.boxes) {
    for (std::uint64_t block = 0; block < box.blocks(); ++block) {
      box.digests[block] = io::digest64(values_of({box.offset + block * io::kShardBlock, box.block_bytes(block)}));
    }
  }
  std::string padded = text_of(right);
  padded.resize(place.bytes, ' ');
  io::Digest128 rest;
  for (const auto& range : rest_of(right.boxes, place, kDataBytes + place.bytes)) rest.add(values_of(range));
  write_file(path, values + padded);
  const io::ShardReader reader(
      path, {"w.h5", kDataBytes + place.bytes, kDataBytes, place.bytes, io::digest128(padded), rest.hex()});
  reader.verify_all();
  read_boxes(reader);
}

std::vector<std::string> corpus() {
  std::vector<std::string> inputs = {"", "{}", "[]", text_of({}), io::shard_index_text({"run", 7}, {})};
  Random random(0);
  for (int i = 0; i < 20; ++i) inputs.push_back(generate(random));
  return inputs;
}

std::vector<std::string> dictionary() {
  return json_words({"/",
                     ".",
                     "-1",
                     "1e9",
                     "9223372036854775807",
                     "18446744073709551615",
                     "4611686018427387904",
                     "\"format\":\"shard8 shard\",",
                     "\"version\":1,",
                     "\"version\":2,",
                     "\"step\":0,",
                     "\"block_bytes\":4194304,",
                     "\"boxes\":[",
                     "\"name\":\"a\",",
                     "\"dtype\":\"u8\",",
                     "\"shape\":[4096],",
                     "\"box\":[0,1,0,1],",
                     "\"offset\":0,",
                     "\"bytes\":1,",
                     "\"digests\":[],",
                     "\"0000000000000000\",",
                     "\xff",
                     std::string(1, '\0')});
}

std::string generate(Random& random) {
  io::ShardIndex index;
  index.identity = {"run", static_cast<std::int64_t>(random.below(10))};
  std::uint64_t end = 0;
  for (std::size_t i = 0, n = random.below(6); i < n; ++i) {
    index.boxes.push_back(right_box(random, random.one_in(20) ? 0 : i));
    index.boxes.back().offset = end + random.below(20);
    if (!random.one_in(20)) end = index.boxes.back().offset + index.boxes.back().bytes();
  }
  std::string text = text_of(index);
  if (random.one_in(2)) return text;
  // One list of numbers is replaced.
  static const std::vector<std::string> keys = {"\"shape\":[", "\"box\":[", "\"digests\":["};
  const std::string& key = random.of(keys);
  const auto begin = text.rfind(key);
  if (begin == std::string::npos) return text.substr(0, random.below(text.size()));
  const auto first = begin + key.size();
  return text.replace(first, text.find(']', first) - first, list_of(random, random.below(6)));
}

}  // namespace shard8::fuzz
