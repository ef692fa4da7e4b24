// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/digest.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/io/shards.hpp"

using namespace shard8;

// The values for no bytes are those of xxHash's own self-test, for seed 0.
TEST(Digest, IsThatOfXxHash) {
  EXPECT_EQ(io::hex_of(io::digest64({})), "2d06800538d394c2");
  EXPECT_EQ(io::digest128(std::string_view()), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(io::digest64(test::random_bytes(8, 1)), io::digest64(test::random_bytes(8, 2)));
}

TEST(Digest, PiecesDoNotMatter) {
  const auto bytes = test::random_bytes(100'000, 1);
  const auto expected = io::digest128(std::span(bytes));
  for (const std::size_t piece : {1, 7, 64, 1000, 99'999, 100'000}) {
    io::Digest128 digest;
    digest.add({});
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      digest.add(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    }
    EXPECT_EQ(digest.hex(), expected);
    EXPECT_EQ(digest.hex(), expected) << "asking changed it";
    const io::Digest128 moved = std::move(digest);
    EXPECT_EQ(moved.hex(), expected);
  }
  EXPECT_EQ(io::Digest128().hex(), io::digest128(std::string_view()));
}

TEST(Digest, TextIsStrict) {
  EXPECT_EQ(io::digest_from_hex("00000000000000ff"), 255U);
  EXPECT_EQ(io::hex_of(255), "00000000000000ff");
  for (const std::string_view text : {"", "ff", "00000000000000fF", "00000000000000f ", "0x000000000000ff",
                                      "-000000000000001", "00000000000000ff0"}) {
    EXPECT_FALSE(io::digest_from_hex(text).has_value()) << text;
  }
  EXPECT_TRUE(io::is_digest128("99aa06d3014798d86001c324468d497f"));
  EXPECT_FALSE(io::is_digest128("99aa06d3014798d8"));
  EXPECT_FALSE(io::is_digest128("99AA06D3014798D86001C324468D497F"));
}
