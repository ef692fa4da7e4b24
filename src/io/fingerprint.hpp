// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace shard8::io {

class TensorFile;

/// Identifies the content of an input, whatever its name, place and container. Equal contents have equal fingerprints.
/// Of a content of more than 1,026 blocks of 4 KiB the digest is a sample: docs/data.md says what it can miss.
struct Fingerprint {
  std::uint64_t length = 0;  ///< elements: bytes of a text, tokens, or values of weights
  std::int64_t samples = 0;  ///< samples of data, or tensors of weights
  std::string digest;        ///< 32 digits, as of digest128()

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

/// What a content is beside its bytes.
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
/// The names and shapes are in the digest. Of tensors that read_box() cannot read (three or more dimensions, a type
/// without fp32 values) only name and shape are in it. Errors are those of TensorFile::read_box().
Fingerprint fingerprint_of(const TensorFile& file);

}  // namespace shard8::io
