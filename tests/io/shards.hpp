// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/shard_file.hpp"

namespace shard8::test {

/// A box to write. Offset and digests are not set.
inline io::ShardBox shard_box(const std::string& name, const std::string& content, const std::string& dtype,
                              const std::vector<std::int64_t>& shape, const io::Box& box) {
  std::int64_t bytes = 0;
  for (const auto& known : io::shard_dtypes()) {
    if (known.name == dtype) bytes = known.element_bytes;
  }
  return {name, content, dtype, bytes, shape, box, 0, {}};
}

/// All of a tensor.
inline io::ShardBox shard_box(const std::string& name, const std::string& dtype,
                              const std::vector<std::int64_t>& shape) {
  return shard_box(name, "master", dtype, shape, {0, shape[0], 0, shape.size() == 1 ? 1 : shape[1]});
}

using Bytes = std::vector<std::byte>;

/// Random bytes, other ones for each seed.
inline Bytes random_bytes(std::uint64_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes out((bytes + 7) / 8 * 8);
  for (std::size_t i = 0; i < out.size(); i += 8) {
    const std::uint64_t value = random();
    for (std::size_t k = 0; k < 8; ++k) out[i + k] = static_cast<std::byte>(value >> (8 * k));
  }
  out.resize(bytes);
  return out;
}

/// What was written into a file.
struct Shard {
  io::ShardSummary summary;
  std::vector<Bytes> values;  // of each box
};

inline Shard write_shard(io::IoThread& io, const std::string& path, const std::vector<io::ShardBox>& boxes,
                         const io::ShardIdentity& identity = {"run-1", 1200}) {
  Shard out;
  io::ShardWriter writer(io, path, identity, boxes);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    out.values.push_back(random_bytes(boxes[i].bytes(), i));
    writer.write(i, 0, out.values[i]);
  }
  out.summary = writer.finish();
  return out;
}

/// All of a box.
inline Bytes read_all(const io::ShardReader& reader, std::size_t box) {
  const auto& from = reader.boxes().at(box);
  Bytes out(from.bytes());
  reader.read(box, from.box, out.data(), from.box.cols * from.element_bytes);
  return out;
}

}  // namespace shard8::test
