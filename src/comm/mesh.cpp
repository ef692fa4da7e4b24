// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mesh.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace shard8::comm {

MeshPlace place_of(const MeshShape& shape, int rank) {
  SHARD8_REQUIRE(rank >= 0 && rank < shape.ranks(), "rank {} is not on the mesh of {} ranks", rank, shape.ranks());
  return {.replicate = rank / (shape.shard * shape.tensor),
          .shard = rank / shape.tensor % shape.shard,
          .tensor = rank % shape.tensor};
}

Mesh make_mesh(Communicator world, const MeshShape& shape, bool tensor_overlap) {
  if (shape.replicate < 1 || shape.shard < 1 || shape.tensor < 1 || world.size() != shape.ranks()) {
    base::fail(base::ExitCode::environment,
               "the mesh needs {} (replicate {} x shard {} x tensor {}), but {} were started; start {} or change "
               "the group 'mesh' of the deck",
               base::count(shape.ranks(), "rank", "ranks"), shape.replicate, shape.shard, shape.tensor, world.size(),
               shape.ranks());
  }
  const MeshPlace place = place_of(shape, world.rank());
  const int data_rank = place.replicate * shape.shard + place.shard;
  const int model_rank = place.shard * shape.tensor + place.tensor;
  // Weights come and gradients go while this rank computes; it waits at once for the rest.
  constexpr DeviceLanes kReduce{.reduce = true}, kGatherAndReduce{.gather = true, .reduce = true},
      kCompute{.compute = true}, kAll{.compute = true, .gather = true, .reduce = true, .apart = true};
  Communicator replicate = world.split(model_rank, place.replicate, "replicate", kReduce);
  Communicator shard =
      world.split(place.replicate * shape.tensor + place.tensor, place.shard, "shard", kGatherAndReduce);
  Communicator tensor = world.split(data_rank, place.tensor, "tensor", tensor_overlap ? kAll : kCompute);
  Communicator model = world.split(place.replicate, model_rank, "model", kCompute);
  return {.shape = shape,
          .place = place,
          .world = std::move(world),
          .replicate = std::move(replicate),
          .shard = std::move(shard),
          .tensor = std::move(tensor),
          .model = std::move(model)};
}

Mesh mesh_on_paper(const MeshShape& shape, const MeshPlace& place) {
  const auto model_rank = place.shard * shape.tensor + place.tensor, model_size = shape.shard * shape.tensor;
  return {.shape = shape,
          .place = place,
          .world = Communicator::on_paper(place.replicate * model_size + model_rank, shape.ranks()),
          .replicate = Communicator::on_paper(place.replicate, shape.replicate),
          .shard = Communicator::on_paper(place.shard, shape.shard),
          .tensor = Communicator::on_paper(place.tensor, shape.tensor),
          .model = Communicator::on_paper(model_rank, model_size)};
}

}  // namespace shard8::comm
