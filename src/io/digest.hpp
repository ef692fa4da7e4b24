// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shard8::io {

// Digests of files, which find damage, not forgery: XXH3 of the library xxHash (its format is fixed since version
// 0.8.0), with seed 0. As text, a digest is the canonical form of xxHash: hexadecimal, highest digit first, lower case.

/// XXH3 with 64 bits.
std::uint64_t digest64(std::span<const std::byte> bytes);

/// XXH3 with 128 bits, 32 digits.
std::string digest128(std::span<const std::byte> bytes);
std::string digest128(std::string_view text);

/// The 16 digits of a 64-bit digest.
std::string hex_of(std::uint64_t digest);

/// The digest of which `text` is the 16 digits; nothing if it is any other text.
std::optional<std::uint64_t> digest_from_hex(std::string_view text);

/// True for 32 digits as digest128() writes them.
bool is_digest128(std::string_view text);

/// XXH3 with 128 bits of bytes that come in pieces. The digest does not depend on where the pieces end.
class Digest128 {
 public:
  Digest128();
  ~Digest128();
  Digest128(Digest128&& other) noexcept;
  Digest128& operator=(Digest128&& other) noexcept;

  void add(std::span<const std::byte> bytes);
  /// The 32 digits for all bytes so far.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shard8::io
