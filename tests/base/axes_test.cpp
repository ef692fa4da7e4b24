// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "base/axes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/error.hpp"

namespace shard8::base {
namespace {

std::vector<AxisSet> all_sets() {
  std::vector<AxisSet> sets;
  for (unsigned bits = 0; bits < (1U << kAxisCount); ++bits) {
    AxisSet& set = sets.emplace_back();
    for (const Axis axis : kAxes)
      if ((bits & AxisSet(axis).bits()) != 0) set = set | axis;
  }
  return sets;
}

/// Meshes with random extents, 1 among them.
std::vector<Extents> random_meshes() {
  std::mt19937 random(39);
  std::uniform_int_distribution<int> extent(1, 5);
  std::vector<Extents> meshes(30);
  for (Extents& mesh : meshes)
    for (int& n : mesh.of) n = extent(random);
  return meshes;
}

/// Whether two ranks are in one group of `axes`, from the definition of AxisSet.
bool together(const Place& a, const Place& b, AxisSet axes) {
  return std::ranges::all_of(kAxes, [&](Axis axis) { return axes.contains(axis) || a[axis] == b[axis]; });
}

TEST(Axes, TensorVariesFastestAndReplicateSlowest) {
  const Extents mesh(2, 3, 4);
  EXPECT_EQ(mesh.ranks(), 24);
  EXPECT_EQ(mesh.ranks(AxisSet::data), 6);
  EXPECT_EQ(mesh.ranks(AxisSet::model), 12);
  EXPECT_EQ(mesh.ranks({}), 1);
  const Place place(mesh, 1 * 12 + 2 * 4 + 3);
  EXPECT_EQ(place[Axis::replicate], 1);
  EXPECT_EQ(place[Axis::shard], 2);
  EXPECT_EQ(place[Axis::tensor], 3);
  EXPECT_EQ(place.rank(AxisSet::data), 1 * 3 + 2);
  EXPECT_EQ(place.rank(AxisSet::model), 2 * 4 + 3);
  EXPECT_THROW(Place(mesh, 24), Error);
  EXPECT_THROW(Place(mesh, -1), Error);
}

TEST(Axes, ExpertGroupsAreConsecutiveInShardAndTensor) {
  const Extents mesh = Extents(2, 3, 2).with_experts(3);
  EXPECT_EQ(mesh[Axis::expert_shard], 2);
  EXPECT_EQ(groups_of(mesh, AxisSet::expert),
            (std::vector<std::vector<int>>{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}}));
  EXPECT_EQ(groups_of(mesh, AxisSet::expert_shard),
            (std::vector<std::vector<int>>{{0, 3}, {1, 4}, {2, 5}, {6, 9}, {7, 10}, {8, 11}}));
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const Place place(mesh, rank);
    EXPECT_EQ(place.rank(AxisSet::expert.others() | AxisSet::expert), rank);
    for (int r = 0; r < 3; ++r) EXPECT_EQ(Place(mesh, place.peer(AxisSet::expert, r))[Axis::expert], r);
  }
  const Sharing sharing = expert_sharing(mesh);
  EXPECT_EQ(sharing.replicas(), AxisSet::replicate);
  EXPECT_EQ(sharing.summed(), AxisSet::replicate);
  EXPECT_TRUE(sharing.summed_last().empty());
  EXPECT_TRUE(sharing.counts(Place(mesh, 4)));
  EXPECT_EQ(expert_sharing(Extents(2, 3, 2)), (Sharing{{}, AxisSet::model}));
  EXPECT_EQ(expert_sharing(Extents(2, 3, 1)), Sharing{});
  EXPECT_EQ(named_text_of(mesh), "replicate 2 x shard 3 x tensor 2, expert 3");
  EXPECT_THROW(Place(Extents(1, 3, 2).with_experts(4), 0), Error);
}

TEST(Axes, RanksAndPlacesAreInverse) {
  for (const Extents& mesh : random_meshes()) {
    std::set<std::vector<int>> places;
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const Place place(mesh, rank);
      EXPECT_EQ(place.rank(), rank);
      std::vector<int> at;
      for (const Axis axis : kAxes) {
        EXPECT_GE(place[axis], 0);
        EXPECT_LT(place[axis], mesh[axis]);
        at.push_back(place[axis]);
      }
      EXPECT_TRUE(places.insert(at).second) << "two ranks have one place";
    }
  }
}

TEST(Axes, GroupsAreThoseOfTheDefinition) {
  for (const Extents& mesh : random_meshes()) {
    for (const AxisSet axes : all_sets()) {
      const auto groups = groups_of(mesh, axes);
      int first_of_last_group = -1;
      std::size_t members = 0;
      for (const std::vector<int>& group : groups) {
        ASSERT_EQ(static_cast<int>(group.size()), mesh.ranks(axes));
        EXPECT_GT(group.front(), first_of_last_group);
        first_of_last_group = group.front();
        std::vector<int> expected;
        for (int rank = 0; rank < mesh.ranks(); ++rank)
          if (together(Place(mesh, rank), Place(mesh, group.front()), axes)) expected.push_back(rank);
        EXPECT_EQ(group, expected) << name_of(axes) << " of " << text_of(mesh);
        members += group.size();
      }
      EXPECT_EQ(static_cast<int>(members), mesh.ranks());
    }
  }
}

TEST(Axes, APlaceKnowsItsGroupItsNumberAndItsPeers) {
  for (const Extents& mesh : random_meshes()) {
    for (const AxisSet axes : all_sets()) {
      const auto groups = groups_of(mesh, axes);
      for (int rank = 0; rank < mesh.ranks(); ++rank) {
        const Place place(mesh, rank);
        const std::vector<int>& group = groups.at(static_cast<std::size_t>(place.group(axes)));
        EXPECT_EQ(group.at(static_cast<std::size_t>(place.rank(axes))), rank);
        EXPECT_EQ(place.first(axes), group.front() == rank);
        for (std::size_t i = 0; i < group.size(); ++i) EXPECT_EQ(place.peer(axes, static_cast<int>(i)), group[i]);
      }
    }
  }
}

TEST(Axes, SetsAreSets) {
  EXPECT_TRUE(AxisSet().empty());
  EXPECT_EQ(AxisSet::shard | AxisSet::tensor, AxisSet::model);
  EXPECT_EQ(AxisSet::world - AxisSet::tensor, AxisSet::data);
  EXPECT_EQ(AxisSet::model & AxisSet::data, Axis::shard);
  for (const Axis axis : kAxes) {
    EXPECT_TRUE(AxisSet::world.contains(axis));
    EXPECT_FALSE((AxisSet::world - axis).contains(axis));
  }
}

TEST(Axes, NamesOfSets) {
  std::vector<std::string_view> names;
  for (const AxisSet set : named_sets()) names.push_back(name_of(set));
  EXPECT_EQ(names, (std::vector<std::string_view>{"tensor", "shard", "replicate", "model", "data", "world", "expert",
                                                  "expert_shard"}));
  EXPECT_EQ(name_of(AxisSet()), "self");
  EXPECT_EQ(name_of(AxisSet{Axis::replicate, Axis::tensor}), "replicate x tensor");
  std::set<std::string_view> different;
  for (const AxisSet set : all_sets()) different.insert(name_of(set));
  EXPECT_EQ(different.size(), all_sets().size());
}

TEST(Axes, TextsOfExtents) {
  EXPECT_EQ(text_of({2, 4, 1}), "2 x 4 x 1");
  EXPECT_EQ(text_of({2, 4, 1}, " × "), "2 × 4 × 1");
  EXPECT_EQ(named_text_of({2, 4, 1}), "replicate 2 x shard 4 x tensor 1");
  EXPECT_EQ(named_text_of({}), "replicate 1 x shard 1 x tensor 1");
}

// Each element is held by as many ranks as there are copies, and exactly one rank of a replica counts it.
TEST(Sharing, SaysWhoHoldsWhat) {
  const Extents mesh(2, 3, 4);
  const AxisSet cuts[] = {AxisSet{}, AxisSet::tensor, AxisSet::model};  // as norms, as linears, as experts would be
  for (const AxisSet cut : cuts) {
    const Sharing sharing{.cut = cut, .sharded = AxisSet::shard - cut};
    EXPECT_EQ(sharing.divided() | sharing.replicas(), AxisSet::world);
    EXPECT_TRUE((sharing.divided() & sharing.replicas()).empty());
    EXPECT_EQ(sharing.summed() | sharing.summed_last(), sharing.replicas());
    EXPECT_EQ(sharing.summed(), AxisSet::replicate);
    EXPECT_EQ(sharing.summed_last(), cut.empty() ? AxisSet::tensor : AxisSet());
    int writers = 0, counting = 0;
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const Place place(mesh, rank);
      if (place.first(sharing.replicas())) ++writers;
      if (place[Axis::replicate] == 0 && place.first(sharing.replicas() & AxisSet::model)) ++counting;
    }
    EXPECT_EQ(writers, mesh.ranks(sharing.divided()));
    EXPECT_EQ(counting, mesh.ranks(sharing.divided()));
  }
}

}  // namespace
}  // namespace shard8::base
