// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace shard8::tensor {

/// Addresses of host memory, of which only committed ranges can be used. The rest takes no memory, and an access to it
/// ends the process (SIGSEGV).
class ReservedMemory {
 public:
  static constexpr std::size_t kPage = 4096;

  /// Reserves `bytes` addresses, from a page's begin. Throws Error(environment) if the system has not as many.
  explicit ReservedMemory(std::size_t bytes);
  ReservedMemory(ReservedMemory&& other) noexcept;
  ReservedMemory& operator=(ReservedMemory&&) = delete;
  ~ReservedMemory();

  std::byte* data() const { return data_; }
  /// Takes the memory of the bytes [begin, end), both rounded outwards to pages, and fills it with zeros. Throws
  /// Error(environment) if there is not enough.
  void commit(std::size_t begin, std::size_t end);

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace shard8::tensor
