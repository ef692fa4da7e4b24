// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/shard_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "io/digest.hpp"

namespace shard8::io {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "shard8 shard";
constexpr int kDeepest = 5;  // the levels of an index: document, boxes, box, digests, and one for the parser's count

std::string quoted(const std::string& text) { return json(text).dump(); }

/// Where a message points: the file, and the box if there is one.
class Reader {
 public:
  explicit Reader(const std::string& where) : where_(where) {}

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    base::fail(base::ExitCode::checkpoint, "{}: its index is not valid: {}{}; use another checkpoint", where_, at_,
               fmt::format(format, std::forward<Args>(args)...));
  }

  json parse(std::string_view text) const {
    using Event = json::parse_event_t;
    std::array<std::set<std::string>, 2 * kDeepest> seen;  // keys of the objects that are open
    const auto watch = [&](int depth, Event event, const json& value) {
      if (depth > kDeepest) fail("it is nested more than {} deep", kDeepest);
      const auto level = static_cast<std::size_t>(depth);
      if (event == Event::object_start) seen[level + 1].clear();
      if (event == Event::key && !seen[level].insert(value.get_ref<const std::string&>()).second) {
        fail("key '{}' is there twice", base::quotable(value.get_ref<const std::string&>()));
      }
      return true;
    };
    try {
      return json::parse(text, watch);
    } catch (const json::exception& error) {
      fail("{}", base::text_of_json(error));
    }
  }

  void require_keys(const json& object, std::initializer_list<const char*> keys) const {
    if (!object.is_object()) fail("an object is needed");
    for (const char* const key : keys) {
      if (!object.contains(key)) fail("key '{}' is missing", key);
    }
    if (object.size() == keys.size()) return;
    const std::set<std::string> known(keys.begin(), keys.end());
    for (const auto& item : object.items()) {
      if (!known.contains(item.key())) fail("key '{}' is not known", base::quotable(item.key()));
    }
  }

  std::string text(const json& object, const char* key) const {
    const json& value = object.at(key);
    if (!value.is_string()) fail("'{}' is no text", key);
    return value.get<std::string>();
  }

  std::int64_t number(const json& value, const char* key) const {
    const bool good = value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
    if (!good) fail("'{}' is not a number from 0 to 2^63 - 1", key);
    return value.get<std::int64_t>();
  }
  std::int64_t number_at(const json& object, const char* key) const { return number(object.at(key), key); }

  std::vector<std::int64_t> numbers(const json& object, const char* key, std::size_t least, std::size_t most) const {
    const json& list = object.at(key);
    if (!list.is_array() || list.size() < least || list.size() > most) {
      fail("'{}' is no list of {} to {} numbers", key, least, most);
    }
    std::vector<std::int64_t> out;
    for (const auto& value : list) out.push_back(number(value, key));
    return out;
  }

  ShardBox box(const json& object, std::size_t number_of_box) {
    at_ = fmt::format("box {}: ", number_of_box);
    require_keys(object, {"name", "content", "dtype", "shape", "box", "offset", "bytes", "digests"});
    ShardBox out;
    out.name = text(object, "name");
    out.content = text(object, "content");
    out.dtype = text(object, "dtype");
    for (const auto& dtype : shard_dtypes()) {
      if (dtype.name == out.dtype) out.element_bytes = dtype.element_bytes;
    }
    out.shape = numbers(object, "shape", 1, 2);
    const auto extents = numbers(object, "box", 4, 4);
    out.box = {extents[0], extents[1], extents[2], extents[3]};
    out.offset = static_cast<std::uint64_t>(number_at(object, "offset"));
    for (const auto& digest : digests_of(object)) {
      const auto value = digest.is_string() ? digest_from_hex(digest.get_ref<const std::string&>()) : std::nullopt;
      if (!value) fail("'digests' holds something else than texts of 16 hexadecimal digits");
      out.digests.push_back(*value);
    }
    at_.clear();
    return out;
  }

 private:
  const json& digests_of(const json& object) const {
    const json& digests = object.at("digests");
    if (!digests.is_array()) fail("'digests' is no list");
    return digests;
  }

  std::string where_;
  std::string at_;
};

void append_box(std::string& out, const ShardBox& box) {
  fmt::format_to(std::back_inserter(out),
                 "{{\"name\":{},\"content\":{},\"dtype\":{},\"shape\":[{}],\"box\":[{},{},{},{}],\"offset\":{},"
                 "\"bytes\":{},\"digests\":[",
                 quoted(box.name), quoted(box.content), quoted(box.dtype), fmt::join(box.shape, ","), box.box.row0,
                 box.box.rows, box.box.col0, box.box.cols, box.offset, box.bytes());
  for (std::uint64_t block = 0; block < box.blocks(); ++block) {
    if (block > 0) out += ',';
    out += '"';
    out += hex_of(block < box.digests.size() ? box.digests[block] : 0);
    out += '"';
  }
  out += "]}";
}

}  // namespace

std::string shard_index_text(const ShardIdentity& identity, const std::vector<ShardBox>& boxes) {
  std::string out =
      fmt::format("{{\"format\":\"{}\",\"version\":{},\"run_id\":{},\"step\":{},\"block_bytes\":{},\"boxes\":[",
                  kFormat, kShardFormatVersion, quoted(identity.run_id), identity.step, kShardBlock);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    out += i == 0 ? "\n" : ",\n";
    append_box(out, boxes[i]);
  }
  out += "]}\n";
  return out;
}

std::size_t shard_index_bytes(const ShardIdentity& identity, const std::vector<ShardBox>& boxes) {
  // Each offset has at least one digit in the text.
  return shard_index_text(identity, boxes).size() + boxes.size() * std::numeric_limits<std::uint64_t>::digits10;
}

ShardIndex parse_shard_index(std::string_view text, const std::string& where) {
  Reader reader(where);
  const json document = reader.parse(text);
  if (!document.is_object() || !document.contains("format") || document.at("format") != kFormat ||
      !document.contains("version")) {
    reader.fail("it is not that of a shard file");
  }
  // The version is read before the other keys, which may be others in another version.
  const auto version = reader.number_at(document, "version");
  if (version > kShardFormatVersion) {
    base::fail(base::ExitCode::checkpoint,
               "{}: was written in version {} of the format; this program reads up to "
               "version {}: use a newer program",
               where, version, kShardFormatVersion);
  }
  if (version < 1) reader.fail("version {} does not exist", version);
  reader.require_keys(document, {"format", "version", "run_id", "step", "block_bytes", "boxes"});
  ShardIndex index;
  index.identity = {reader.text(document, "run_id"), reader.number_at(document, "step")};
  if (const auto block = reader.number_at(document, "block_bytes"); block != static_cast<std::int64_t>(kShardBlock)) {
    reader.fail("blocks of {} bytes; needed are {}", block, kShardBlock);
  }
  const json& boxes = document.at("boxes");
  if (!boxes.is_array()) reader.fail("'boxes' is no list");
  for (const auto& box : boxes) index.boxes.push_back(reader.box(box, index.boxes.size()));
  if (const auto problem = problem_of_boxes(index.boxes); !problem.empty()) reader.fail("{}", problem);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const ShardBox& box = index.boxes[i];
    const auto bytes = reader.number_at(boxes[i], "bytes");
    if (static_cast<std::uint64_t>(bytes) != box.bytes() || box.digests.size() != box.blocks()) {
      reader.fail("{}: {} bytes and {} digests; needed are {} and {}", box.label(), bytes, box.digests.size(),
                  box.bytes(), box.blocks());
    }
  }
  return index;
}

}  // namespace shard8::io
