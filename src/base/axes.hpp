// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The mesh of ranks. A new axis is added here, in the deck (deck::MeshConfig), and where something computes along it.

namespace shard8::base {

/// The axes of the mesh. The mesh numbers its ranks twice: replicate × shard × tensor, and replicate × expert_shard ×
/// expert. In both the last axis varies fastest with a rank's number, the first one slowest. So the ranks of an expert
/// group are consecutive in shard × tensor, and the group may have any size that divides the two.
enum class Axis : std::uint8_t {
  replicate,     ///< ranks that hold equal copies of the sharded weights
  shard,         ///< ranks over which the weights of one copy are sharded
  tensor,        ///< ranks that share one matrix product
  expert_shard,  ///< ranks over which the weights of a layer's experts are sharded
  expert,        ///< ranks that hold different experts of a layer
};
/// The axes of the first numbering. A mesh has an extent along each of them; that of `expert` is Extents::expert.
inline constexpr std::array kAxes{Axis::replicate, Axis::shard, Axis::tensor};
inline constexpr std::size_t kAxisCount = kAxes.size();
/// All axes: those of a set of both numberings come in this order.
inline constexpr std::array kAllAxes{Axis::replicate, Axis::shard, Axis::tensor, Axis::expert_shard, Axis::expert};
/// The name of an axis in decks, manifests and reports.
const char* name_of(Axis axis);

/// A set of axes. A set stands for groups of ranks: two ranks are in the same group if they differ along these axes
/// only.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis) : bits_(1U << static_cast<unsigned>(axis)) {}
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) bits_ |= AxisSet(axis).bits_;
  }

  constexpr bool contains(Axis axis) const { return (bits_ & AxisSet(axis).bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr AxisSet operator|(AxisSet other) const { return of_bits(bits_ | other.bits_); }
  constexpr AxisSet operator&(AxisSet other) const { return of_bits(bits_ & other.bits_); }
  constexpr AxisSet operator-(AxisSet other) const { return of_bits(bits_ & ~other.bits_); }
  constexpr auto operator<=>(const AxisSet&) const = default;
  /// Bit a is set if the set contains the axis number a.
  constexpr unsigned bits() const { return bits_; }
  /// All other axes of the numbering to which the axes of this set belong. A set must not mix shard or tensor with
  /// expert_shard or expert.
  constexpr AxisSet others() const;
  /// Whether the set has expert_shard or expert.
  constexpr bool in_expert_numbering() const { return contains(Axis::expert_shard) || contains(Axis::expert); }

  // The sets whose groups have a name.
  static const AxisSet tensor, shard, replicate, expert_shard, expert;
  static const AxisSet model;  ///< ranks that together hold one copy of all parameters
  static const AxisSet data;   ///< ranks that read different sequences
  static const AxisSet world;  ///< all axes of the first numbering

 private:
  static constexpr AxisSet of_bits(unsigned bits) {
    AxisSet set;
    set.bits_ = bits;
    return set;
  }
  unsigned bits_ = 0;
};
inline constexpr AxisSet AxisSet::tensor{Axis::tensor}, AxisSet::shard{Axis::shard},
    AxisSet::replicate{Axis::replicate}, AxisSet::model{Axis::shard, Axis::tensor},
    AxisSet::data{Axis::replicate, Axis::shard}, AxisSet::world{Axis::replicate, Axis::shard, Axis::tensor},
    AxisSet::expert_shard{Axis::expert_shard}, AxisSet::expert{Axis::expert};

constexpr AxisSet AxisSet::others() const {
  constexpr AxisSet second{Axis::replicate, Axis::expert_shard, Axis::expert};
  return (in_expert_numbering() ? second : world) - *this;
}

/// The sets that have a name, in the order in which traces number their groups. The sets of expert groups come last.
std::span<const AxisSet> named_sets();
/// "tensor", "shard", "replicate", "expert_shard", "expert", "model", "data" or "world". Other sets have the names of
/// their axes, as in "replicate x tensor"; the empty set is "self". The text lives as long as the program.
std::string_view name_of(AxisSet axes);

/// The extents of a mesh along its axes, at least 1 each. The number of ranks is the product of those of kAxes.
struct Extents {
  constexpr Extents() { of.fill(1); }
  /// A mesh with these extents, one for each axis, in the order of kAxes.
  template <std::convertible_to<int>... Int>
  requires(sizeof...(Int) == kAxisCount) constexpr Extents(Int... extents) : of{static_cast<int>(extents)...} {}

  /// The extent along `axis`; along expert_shard it is shard · tensor / expert, which must be a whole number.
  constexpr int operator[](Axis axis) const {
    if (axis == Axis::expert) return expert;
    if (axis == Axis::expert_shard) return (*this)[Axis::shard] * (*this)[Axis::tensor] / expert;
    return of[static_cast<std::size_t>(axis)];
  }
  /// The extent along an axis of kAxes, to be changed.
  constexpr int& operator[](Axis axis) { return of[static_cast<std::size_t>(axis)]; }
  /// This mesh with another extent of Axis::expert, which must divide shard · tensor.
  constexpr Extents with_experts(int ranks) const {
    Extents mesh = *this;
    mesh.expert = ranks;
    return mesh;
  }
  /// The size of the groups of `axes`.
  int ranks(AxisSet axes = AxisSet::world) const;
  bool operator==(const Extents&) const = default;

  std::array<int, kAxisCount> of{};
  int expert = 1;  ///< of Axis::expert
};
/// The extents of all axes, in the order of kAxes: "2 x 4 x 1". `times` is the text between two extents. With several
/// ranks in an expert group ", expert 2" follows.
std::string text_of(const Extents& mesh, std::string_view times = " x ");
/// "replicate 2 x shard 4 x tensor 1", with ", expert 2" as text_of.
std::string named_text_of(const Extents& mesh, std::string_view times = " x ");
/// An object of JSON: the extent of each axis of kAxes under the axis's name, and "expert" if it is not 1.
template <class Json>
Json json_of(const Extents& mesh) {
  Json object;
  for (const Axis axis : kAxes) object[std::string(name_of(axis))] = mesh[axis];
  if (mesh.expert != 1) object[std::string(name_of(Axis::expert))] = mesh.expert;
  return object;
}

/// A rank's place on a mesh.
class Place {
 public:
  /// The first place of a mesh of one rank.
  Place() = default;
  /// Throws Error(failed) unless 0 <= rank < mesh.ranks().
  Place(const Extents& mesh, int rank);

  const Extents& mesh() const { return mesh_; }
  int operator[](Axis axis) const { return at_[static_cast<std::size_t>(axis)]; }
  /// The rank's number in its group of `axes`, which belong to one numbering. The last of the axes varies fastest.
  int rank(AxisSet axes = AxisSet::world) const;
  /// The number of the rank's group among all groups of `axes`. Groups are numbered by their first ranks.
  int group(AxisSet axes) const { return rank(axes.others()); }
  /// The rank that has this number in the group of `axes`. The number is at least 0 and less than mesh().ranks(axes).
  int peer(AxisSet axes, int number) const;
  /// Whether the rank is the first one of its group of `axes`.
  bool first(AxisSet axes) const { return rank(axes) == 0; }

 private:
  Extents mesh_;
  std::array<int, kAllAxes.size()> at_{};
};

/// The ranks that compute different tokens of the same sequences.
inline constexpr AxisSet kSameSequences = AxisSet::world - AxisSet::data;

/// How the ranks share a tensor, such as a parameter. A Sharing says everything about who holds what: who gathers, who
/// sums gradients, who counts an element, who writes it.
struct Sharing {
  AxisSet cut;                       ///< ranks along these axes compute with different parts of the tensor
  AxisSet sharded = AxisSet::shard;  ///< the rows of such a part are sharded over these axes, and gathered before use

  /// Ranks along these axes hold different elements.
  constexpr AxisSet divided() const { return cut | sharded; }
  /// Ranks along these axes hold equal copies.
  constexpr AxisSet replicas() const { return divided().others(); }
  /// The axes over which gradients are summed after they are reduced over `sharded`: first over ranks that read
  /// different sequences, then over ranks that computed different tokens of the same sequences.
  constexpr AxisSet summed() const { return replicas() & AxisSet::data; }
  constexpr AxisSet summed_last() const { return replicas() & kSameSequences; }
  /// Whether the rank at `place` counts the tensor in a sum over its model group: of the ranks that hold equal copies,
  /// one in each model group does.
  bool counts(const Place& place) const { return place.first(replicas() & AxisSet::model); }
  constexpr bool operator==(const Sharing&) const = default;
};

/// How the ranks share the weights of a layer's experts: each rank of an expert group has its own experts.
constexpr Sharing expert_sharing(const Extents& mesh) {
  if (mesh.expert > 1) return {AxisSet::expert, AxisSet::expert_shard};
  return {{}, mesh[Axis::tensor] == 1 ? AxisSet::shard : AxisSet::model};  // the groups that expert_shard would have
}

/// All groups of `axes` in the order of Place::group, each with its ranks in ascending order.
std::vector<std::vector<int>> groups_of(const Extents& mesh, AxisSet axes);

}  // namespace shard8::base
