// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "io/shard_box.hpp"

namespace shard8::io {

/// The version of shard files that this program writes; it reads no newer one.
constexpr int kShardFormatVersion = 1;

/// What the index of a shard file says. It is JSON in a fixed order of keys, followed by spaces:
///
///     {"format":"shard8 shard","version":1,"run_id":"...","step":1200,"block_bytes":4194304,"boxes":[
///      {"name":"...","content":"master","dtype":"fp32","shape":[R,C],"box":[row0,rows,col0,cols],"offset":4096,
///       "bytes":1024,"digests":["16 digits",...]},...]}
struct ShardIndex {
  ShardIdentity identity;
  std::vector<ShardBox> boxes;
  bool operator==(const ShardIndex&) const = default;
};

/// The text of an index without the spaces. Boxes without digests get zeros, one for each block.
std::string shard_index_text(const ShardIdentity& identity, const std::vector<ShardBox>& boxes);

/// Bytes that are enough for the index of these boxes with whatever offsets and digests.
std::size_t shard_index_bytes(const ShardIdentity& identity, const std::vector<ShardBox>& boxes);

/// Reads an index. Throws Error(checkpoint) "where: what is wrong; what to do" unless the text is as ShardIndex says,
/// without other keys, and problem_of_boxes() finds nothing. Offsets may be any.
ShardIndex parse_shard_index(std::string_view text, const std::string& where);

}  // namespace shard8::io
