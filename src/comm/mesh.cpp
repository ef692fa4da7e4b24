// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mesh.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/text.hpp"

namespace shard8::comm {

using base::AxisSet;

const Communicator& Mesh::group(AxisSet axes) const {
  if (axes == AxisSet::world) return world;
  const auto found = std::find_if(groups.begin(), groups.end(), [axes](const auto& g) { return g.first == axes; });
  SHARD8_REQUIRE(found != groups.end(), "the mesh has no communicators of the groups '{}'", name_of(axes));
  return found->second;
}

Mesh make_mesh(Communicator world, const base::Extents& extents, OverlappedGroups overlapped,
               std::initializer_list<AxisSet> further) {
  if (std::ranges::any_of(extents.of, [](int extent) { return extent < 1; }) || world.size() != extents.ranks()) {
    base::fail(base::ExitCode::environment,
               "the mesh needs {} ({}), but {} were started; start {} or change the group 'mesh' of the deck",
               base::count(extents.ranks(), "rank", "ranks"), named_text_of(extents), world.size(), extents.ranks());
  }
  const int rank = world.rank();
  Mesh mesh{base::Place(extents, rank), std::move(world), {}};
  const auto split = [&mesh](AxisSet axes, DeviceLanes lanes) {
    const base::Place& place = mesh.place;
    const bool sums_gradients =
        (axes - AxisSet::data).empty() || axes == AxisSet::model || axes == AxisSet::expert_shard;
    const SumOrder order = sums_gradients ? SumOrder::tree : SumOrder::ranks;
    mesh.groups.emplace_back(
        axes, mesh.world.split(place.group(axes), place.rank(axes), std::string(name_of(axes)), lanes, order));
  };
  // Weights are gathered and gradients reduced while this rank computes; it waits at once for other collectives.
  constexpr DeviceLanes kReduce{.reduce = true}, kGatherAndReduce{.gather = true, .reduce = true},
      kCompute{.compute = true}, kAll{.compute = true, .gather = true, .reduce = true, .apart = true};
  split(AxisSet::replicate, kReduce);
  split(AxisSet::shard, kGatherAndReduce);
  split(AxisSet::tensor, overlapped.tensor ? kAll : kCompute);
  const bool shards_experts = base::expert_sharing(extents).sharded == AxisSet::model;
  split(AxisSet::model, {.compute = true, .gather = shards_experts, .reduce = shards_experts});
  if (extents.expert > 1) {
    split(AxisSet::expert, {.compute = true, .push = overlapped.expert});
    split(AxisSet::expert_shard, kGatherAndReduce);
  }
  for (const AxisSet axes : further) split(axes, kCompute);
  return mesh;
}

Mesh mesh_on_paper(const base::Place& place) {
  const auto group = [&place](AxisSet axes) {
    return Communicator::on_paper(place.rank(axes), place.mesh().ranks(axes));
  };
  Mesh mesh{place, group(AxisSet::world), {}};
  for (const AxisSet axes : {AxisSet::replicate, AxisSet::shard, AxisSet::tensor, AxisSet::model})
    mesh.groups.emplace_back(axes, group(axes));
  if (place.mesh().expert > 1)
    for (const AxisSet axes : {AxisSet::expert, AxisSet::expert_shard}) mesh.groups.emplace_back(axes, group(axes));
  return mesh;
}

}  // namespace shard8::comm
