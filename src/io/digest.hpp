// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

class TensorFile;

/// Identifies the content of an input, whatever its name, place and container. Equal contents have equal fingerprints.
/// The digest of a content of more than 1,026 blocks of 4 KiB is that of a sample: docs/data.md says what it can miss.
struct Fingerprint {
  std::uint64_t length = 0;  ///< elements: bytes of a text, tokens, or values of weights
  std::int64_t samples = 0;  ///< samples of data, or tensors of weights
  std::string digest;        ///< 32 digits, as of digest128()

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

/// What describes a content in addition to its bytes.
struct ContentForm {
  std::uint64_t element_bytes = 1;  ///< bytes of an element, little-endian; in the digest
  std::int64_t samples = 0;         ///< becomes Fingerprint::samples; not in the digest
  std::string header;               ///< names and shapes; in the digest
};

/// Fills `out` with the bytes of the content from `offset` on.
using ReadBytes = std::function<void(std::uint64_t offset, std::span<std::byte> out)>;

/// The fingerprint of a content of `bytes` bytes, whose length is a multiple of form.element_bytes. The digest is XXH3
/// with 128 bits of a version tag, the form, the length, and blocks of 4 KiB in ascending order: all bytes if there are
/// at most 1,026 blocks; otherwise the first block, one block of each of 1,024 equal strata of the blocks between, and
/// the last 4 KiB. A generator draws the blocks from the number of blocks alone. Calls `read` at most 1,026 times, with
/// at most 1 MiB each. Errors are those of `read`.
Fingerprint fingerprint_of(std::uint64_t bytes, const ReadBytes& read, const ContentForm& form = {});

/// The fingerprint of a file of weights: values as fp32, row-major, of all tensors in bytewise order of their names.
/// The names and shapes are in the digest. For tensors that read_box() cannot read (three or more dimensions, a type
/// without fp32 values) only name and shape are in the digest. Errors are those of TensorFile::read_box().
Fingerprint fingerprint_of(const TensorFile& file);

}  // namespace shard8::io
