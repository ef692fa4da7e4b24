// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/digest.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "io/box.hpp"
#include "io/tensor_file.hpp"

namespace shard8::io {
namespace {

constexpr std::size_t kDigits64 = 16, kDigits128 = 32;

bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string hex_of(const XXH128_hash_t& hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

static_assert(std::endian::native == std::endian::little);  // numbers in the digest are

constexpr std::string_view kVersion = "shard8 content 1\n";  // changes with anything below
constexpr std::uint64_t kSampledBlock = 4096;                // chosen: a page, the least that a disk reads
// Chosen: of 4 GiB 4 MiB are read, and a single changed byte is seen with a probability of 0.1 %.
constexpr std::uint64_t kStrata = 1024;
constexpr std::uint64_t kPiece = 1 << 20;  // bytes that are read at once of a short content; chosen

struct Piece {
  std::uint64_t offset, bytes;
};

std::vector<Piece> pieces_of(std::uint64_t bytes) {
  std::vector<Piece> pieces;
  const std::uint64_t blocks = bytes / kSampledBlock + (bytes % kSampledBlock != 0 ? 1 : 0);
  if (blocks <= kStrata + 2) {
    for (std::uint64_t at = 0; at < bytes; at += kPiece) pieces.push_back({at, std::min(kPiece, bytes - at)});
    return pieces;
  }
  pieces.push_back({0, kSampledBlock});
  const std::uint64_t between = blocks - 2;
  const std::uint64_t key = base::mix64(blocks);
  for (std::uint64_t i = 0; i < kStrata; ++i) {
    const std::uint64_t first = between / kStrata * i + between % kStrata * i / kStrata;
    const std::uint64_t end = between / kStrata * (i + 1) + between % kStrata * (i + 1) / kStrata;
    pieces.push_back({(1 + first + base::mix64(key ^ i) % (end - first)) * kSampledBlock, kSampledBlock});
  }
  pieces.push_back({bytes - kSampledBlock, kSampledBlock});
  return pieces;
}

void add_number(Digest128& digest, std::uint64_t number) { digest.add(std::as_bytes(std::span(&number, 1))); }

/// A tensor whose values are in the stream, as the matrix of read_box().
struct Part {
  std::string name;
  std::array<std::int64_t, 2> shape;  // rows, columns
  std::int64_t first;                 // position in the stream of the tensor's first value
  std::int64_t count;
};

/// Whether read_box() can read the values.
bool has_values(const TensorFile& file, const std::string& name) {
  return file.shape(name).size() <= 2 && file.unreadable(name).empty();
}

class Stream {
 public:
  explicit Stream(const TensorFile& file) : file_(file) {
    for (const std::string& name : file.names()) add(name);
  }

  std::uint64_t values() const { return static_cast<std::uint64_t>(values_); }
  const std::string& header() const { return header_; }

  /// Reads the values [first, first + count).
  void read(float* out, std::int64_t first, std::int64_t count) const {
    // The last part that does not begin after `first`. Parts are never empty.
    auto part = std::upper_bound(parts_.begin(), parts_.end(), first,
                                 [](std::int64_t at, const Part& p) { return at < p.first; }) -
                1;
    for (; count > 0; ++part) {
      const std::int64_t from = first - part->first;
      const std::int64_t here = std::min(count, part->count - from);
      for_each_box(part->shape, from, here, [&](std::span<const Range> ranges, std::int64_t elements) {
        const auto &rows = ranges[0], &cols = ranges[1];
        file_.read_box(part->name, {rows.start, rows.count, cols.start, cols.count}, out, cols.count);
        out += elements;
      });
      first += here;
      count -= here;
    }
  }

 private:
  void number(std::size_t value) {
    const auto wide = static_cast<std::uint64_t>(value);
    header_.append(reinterpret_cast<const char*>(&wide), sizeof wide);
  }

  void add(const std::string& name) {
    const auto& shape = file_.shape(name);
    number(name.size());
    header_ += name;
    number(shape.size());
    std::int64_t count = 1;
    bool fits = true;
    for (const auto size : shape) {
      number(static_cast<std::size_t>(size));
      fits &= !__builtin_mul_overflow(count, size, &count);
    }
    if (count == 0 || !has_values(file_, name)) return;
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(sizeof(float));
    SHARD8_REQUIRE(fits && count <= kMost - values_, "'{}': more values than 64 bits count bytes", file_.spec());
    parts_.push_back({name, {shape.empty() ? 1 : shape[0], shape.size() < 2 ? 1 : shape[1]}, values_, count});
    values_ += count;
  }

  const TensorFile& file_;
  std::vector<Part> parts_;
  std::int64_t values_ = 0;
  std::string header_;
};

}  // namespace

std::uint64_t digest64(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string digest128(std::span<const std::byte> bytes) { return hex_of(XXH3_128bits(bytes.data(), bytes.size())); }

std::string digest128(std::string_view text) { return digest128(std::as_bytes(std::span(text))); }

std::string hex_of(std::uint64_t digest) { return fmt::format("{:016x}", digest); }

std::optional<std::uint64_t> digest_from_hex(std::string_view text) {
  if (text.size() != kDigits64 || !all_digits(text)) return std::nullopt;
  std::uint64_t digest = 0;
  std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  return digest;
}

bool is_digest128(std::string_view text) { return text.size() == kDigits128 && all_digits(text); }

struct Digest128::State {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> xxh{XXH3_createState()};  // aligned to 64 bytes, as XXH3 needs
};

Digest128::Digest128() : state_(std::make_unique<State>()) {
  SHARD8_REQUIRE(state_->xxh && XXH3_128bits_reset(state_->xxh.get()) == XXH_OK, "no memory for a digest");
}

Digest128::~Digest128() = default;
Digest128::Digest128(Digest128&&) noexcept = default;
Digest128& Digest128::operator=(Digest128&&) noexcept = default;

void Digest128::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;  // XXH3 takes no null pointer
  SHARD8_REQUIRE(XXH3_128bits_update(state_->xxh.get(), bytes.data(), bytes.size()) == XXH_OK, "XXH3 failed");
}

std::string Digest128::hex() const { return hex_of(XXH3_128bits_digest(state_->xxh.get())); }

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

Fingerprint fingerprint_of(const TensorFile& file) {
  const Stream stream(file);
  std::vector<float> values;
  const auto read = [&](std::uint64_t offset, std::span<std::byte> out) {
    const auto first = static_cast<std::int64_t>(offset / sizeof(float));
    values.resize(out.size() / sizeof(float));
    stream.read(values.data(), first, static_cast<std::int64_t>(values.size()));
    std::memcpy(out.data(), values.data(), out.size());
  };
  return fingerprint_of(stream.values() * sizeof(float), read,
                        {sizeof(float), static_cast<std::int64_t>(file.names().size()), stream.header()});
}

}  // namespace shard8::io
