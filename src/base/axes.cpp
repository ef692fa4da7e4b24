// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "base/axes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"

namespace shard8::base {

namespace {

struct NamedSet {
  AxisSet axes;
  const char* name;
};
constexpr NamedSet kNamed[] = {{AxisSet::model, "model"}, {AxisSet::data, "data"}, {AxisSet::world, "world"}};
constexpr std::size_t kSets = std::size_t{1} << kAllAxes.size();

/// The names of all sets, by their bits.
std::array<std::string, kSets> names_of_sets() {
  std::array<std::string, kSets> names;
  for (std::size_t bits = 0; bits < kSets; ++bits) {
    for (const Axis axis : kAllAxes)
      if ((bits & AxisSet(axis).bits()) != 0)
        names[bits] += fmt::format("{}{}", names[bits].empty() ? "" : " x ", name_of(axis));
  }
  names[0] = "self";
  for (const NamedSet& named : kNamed) names[named.axes.bits()] = named.name;
  return names;
}

std::string experts_text(const Extents& mesh) {
  return mesh.expert == 1 ? std::string() : fmt::format(", {} {}", name_of(Axis::expert), mesh.expert);
}

}  // namespace

const char* name_of(Axis axis) {
  constexpr std::array<const char*, kAllAxes.size()> names{"replicate", "shard", "tensor", "expert_shard", "expert"};
  return names[static_cast<std::size_t>(axis)];
}

std::string_view name_of(AxisSet axes) {
  static const std::array<std::string, kSets> names = names_of_sets();
  return names[axes.bits()];
}

std::span<const AxisSet> named_sets() {
  static constexpr std::array sets{AxisSet::tensor, AxisSet::shard, AxisSet::replicate, AxisSet::model,
                                   AxisSet::data,   AxisSet::world, AxisSet::expert,    AxisSet::expert_shard};
  return sets;
}

int Extents::ranks(AxisSet axes) const {
  int product = 1;
  for (const Axis axis : kAllAxes)
    if (axes.contains(axis)) product *= (*this)[axis];
  return product;
}

std::string text_of(const Extents& mesh, std::string_view times) {
  return fmt::format("{}{}", fmt::join(mesh.of, times), experts_text(mesh));
}

std::string named_text_of(const Extents& mesh, std::string_view times) {
  std::string text;
  for (const Axis axis : kAxes) text += fmt::format("{}{} {}", text.empty() ? "" : times, name_of(axis), mesh[axis]);
  return text + experts_text(mesh);
}

Place::Place(const Extents& mesh, int rank) : mesh_(mesh) {
  SHARD8_REQUIRE(rank >= 0 && rank < mesh.ranks(), "rank {} is not on the mesh of {} ranks", rank, mesh.ranks());
  const int model_ranks = mesh.ranks(AxisSet::model);
  SHARD8_REQUIRE(mesh.expert > 0 && model_ranks % mesh.expert == 0, "expert groups of {} ranks on a mesh of {}",
                 mesh.expert, named_text_of(mesh));
  for (const auto& numbering : {kAxes, std::array{Axis::replicate, Axis::expert_shard, Axis::expert}}) {
    int rest = rank;
    for (std::size_t a = numbering.size(); a-- > 0; rest /= mesh[numbering[a]])
      at_[static_cast<std::size_t>(numbering[a])] = rest % mesh[numbering[a]];
  }
}

int Place::rank(AxisSet axes) const {
  int number = 0;
  for (const Axis axis : kAllAxes)
    if (axes.contains(axis)) number = number * mesh_[axis] + (*this)[axis];
  return number;
}

int Place::peer(AxisSet axes, int number) const {
  Place other = *this;
  for (std::size_t a = kAllAxes.size(); a-- > 0;) {
    if (!axes.contains(kAllAxes[a])) continue;
    other.at_[a] = number % mesh_[kAllAxes[a]];
    number /= mesh_[kAllAxes[a]];
  }
  return other.rank(axes | axes.others());
}

std::vector<std::vector<int>> groups_of(const Extents& mesh, AxisSet axes) {
  std::vector<std::vector<int>> groups(static_cast<std::size_t>(mesh.ranks(axes.others())));
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    groups[static_cast<std::size_t>(Place(mesh, rank).group(axes))].push_back(rank);
  return groups;
}

}  // namespace shard8::base
