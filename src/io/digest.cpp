// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/digest.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>

#include "base/error.hpp"

namespace shard8::io {
namespace {

constexpr std::size_t kDigits64 = 16, kDigits128 = 32;

bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string hex_of(const XXH128_hash_t& hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

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

}  // namespace shard8::io
