// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "tensor/arena.hpp"
#include "tensor/reserved_memory.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// The bytes of a State that the collectives of all steps move: for each kind of memory ranges of whole pages, by their
/// begin, that do not touch. All else is only computed with, and a skeleton of the communication on hosts does without.
class MovedMemory {
 public:
  /// Records steps of `setup`.
  explicit MovedMemory(const Setup& setup);

  tensor::MemoryBytes bytes() const;
  /// Addresses for a State of so many bytes, with memory where collectives move some. Error(environment) if there is
  /// not enough.
  std::vector<tensor::ReservedMemory> take(const tensor::MemoryBytes& state) const;

 private:
  void add(const tensor::Tensor& moved);
  std::array<std::map<std::size_t, std::size_t>, tensor::kMemoryKinds> ranges_;  ///< end by begin
};

/// Bytes of a State without a workspace, by kind of memory: what a skeleton of the communication lays out.
tensor::MemoryBytes skeleton_state_bytes(const Setup& setup);

}  // namespace shard8::train
