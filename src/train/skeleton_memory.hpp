// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "tensor/arena.hpp"
#include "train/setup.hpp"

namespace shard8::train {

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

/// The bytes of a State that the collectives of all steps move: for each kind of memory ranges of whole pages, by their
/// begin, that do not touch. All else is only computed with, and a skeleton of the communication on hosts does without.
class MovedMemory {
 public:
  /// Records steps of `setup`.
  explicit MovedMemory(const Setup& setup);

  tensor::MemoryBytes bytes() const;
  /// Addresses for a State of so many bytes, with memory where collectives move some. Error(environment) if there is
  /// not enough.
  std::vector<ReservedMemory> take(const tensor::MemoryBytes& state) const;

 private:
  void add(const tensor::Tensor& moved);
  std::array<std::map<std::size_t, std::size_t>, tensor::kMemoryKinds> ranges_;  ///< end by begin
};

/// Bytes of a State without a workspace, by kind of memory: what a skeleton of the communication lays out.
tensor::MemoryBytes skeleton_state_bytes(const Setup& setup);

}  // namespace shard8::train
