// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/fingerprint.hpp"

#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/mix64.hpp"
#include "io/digest.hpp"

namespace shard8::io {

namespace {

static_assert(std::endian::native == std::endian::little);  // numbers in the digest are

constexpr std::string_view kVersion = "shard8 content 1\n";  // changes with anything below
constexpr std::uint64_t kBlock = 4096;                       // chosen: a page, the least that a disk reads
constexpr std::uint64_t kStrata = 1024;    // chosen: a single changed byte of 4 GiB is seen with 0.1 %, at 4 MiB read
constexpr std::uint64_t kPiece = 1 << 20;  // bytes that are read at once of a short content; chosen

struct Piece {
  std::uint64_t offset, bytes;
};

std::vector<Piece> pieces_of(std::uint64_t bytes) {
  std::vector<Piece> pieces;
  const std::uint64_t blocks = bytes / kBlock + (bytes % kBlock != 0 ? 1 : 0);
  if (blocks <= kStrata + 2) {
    for (std::uint64_t at = 0; at < bytes; at += kPiece) pieces.push_back({at, std::min(kPiece, bytes - at)});
    return pieces;
  }
  pieces.push_back({0, kBlock});
  const std::uint64_t between = blocks - 2;
  const std::uint64_t key = base::mix64(blocks);
  for (std::uint64_t i = 0; i < kStrata; ++i) {
    const std::uint64_t first = between / kStrata * i + between % kStrata * i / kStrata;
    const std::uint64_t end = between / kStrata * (i + 1) + between % kStrata * (i + 1) / kStrata;
    pieces.push_back({(1 + first + base::mix64(key ^ i) % (end - first)) * kBlock, kBlock});
  }
  pieces.push_back({bytes - kBlock, kBlock});
  return pieces;
}

void add_number(Digest128& digest, std::uint64_t number) { digest.add(std::as_bytes(std::span(&number, 1))); }

}  // namespace

Fingerprint fingerprint_of(std::uint64_t bytes, const ReadBytes& read, const ContentForm& form) {
  SHARD8_REQUIRE(form.element_bytes > 0 && bytes % form.element_bytes == 0, "{} bytes of elements of {}", bytes,
                 form.element_bytes);
  Digest128 digest;
  digest.add(std::as_bytes(std::span(kVersion)));
  add_number(digest, form.element_bytes);
  add_number(digest, bytes);
  add_number(digest, form.header.size());
  digest.add(std::as_bytes(std::span(form.header)));
  std::vector<std::byte> buffer;
  for (const Piece& piece : pieces_of(bytes)) {
    buffer.resize(piece.bytes);
    read(piece.offset, buffer);
    digest.add(buffer);
  }
  return {bytes / form.element_bytes, form.samples, digest.hex()};
}

}  // namespace shard8::io
