// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>
#include <type_traits>

#include "deck/config.hpp"

namespace shard8::deck {

/// The names that an enumeration's values have in a deck, in the order of the enumeration.
template <class E>
struct Choices;

template <>
struct Choices<Arch> {
  static constexpr std::array<std::string_view, 2> names = {"llama", "gpt2"};
};
template <>
struct Choices<Recompute> {
  static constexpr std::array<std::string_view, 3> names = {"none", "selective", "full"};
};
template <>
struct Choices<MoeRouting> {
  static constexpr std::array<std::string_view, 3> names = {"learned", "balanced", "zipf"};
};
template <>
struct Choices<MoeDispatch> {
  static constexpr std::array<std::string_view, 3> names = {"auto", "bf16", "fp8"};
};
template <>
struct Choices<Backend> {
  static constexpr std::array<std::string_view, 3> names = {"auto", "mpi", "nccl"};
};
template <>
struct Choices<Device> {
  static constexpr std::array<std::string_view, 3> names = {"auto", "host", "cuda"};
};
template <>
struct Choices<FloatType> {
  static constexpr std::array<std::string_view, 2> names = {"fp32", "bf16"};
};
template <>
struct Choices<Gather> {
  static constexpr std::array<std::string_view, 4> names = {"auto", "fp8", "bf16", "fp32"};
};
template <>
struct Choices<Accumulate> {
  static constexpr std::array<std::string_view, 2> names = {"full", "sharded"};
};
template <>
struct Choices<Recipe> {
  static constexpr std::array<std::string_view, 5> names = {"none", "delayed", "current", "block", "mxfp8"};
};
template <>
struct Choices<Fp8Format> {
  static constexpr std::array<std::string_view, 3> names = {"auto", "hybrid", "e4m3"};
};
template <>
struct Choices<AmaxAlgo> {
  static constexpr std::array<std::string_view, 2> names = {"max", "most_recent"};
};
template <>
struct Choices<Fp8Weights> {
  static constexpr std::array<std::string_view, 2> names = {"fp8", "bf16"};
};
template <>
struct Choices<Master> {
  static constexpr std::array<std::string_view, 2> names = {"fp32", "bf16_remainder"};
};
template <>
struct Choices<DataKind> {
  static constexpr std::array<std::string_view, 3> names = {"synthetic", "bytes", "tokens"};
};
template <>
struct Choices<Skeleton> {
  static constexpr std::array<std::string_view, 3> names = {"none", "communication", "computation"};
};
template <>
struct Choices<CheckpointFiles> {
  static constexpr std::array<std::string_view, 2> names = {"rank", "node"};
};

/// The name that a value has in a deck.
template <class E>
requires std::is_enum_v<E>
constexpr std::string_view to_string(E value) { return Choices<E>::names[static_cast<std::size_t>(value)]; }

}  // namespace shard8::deck
