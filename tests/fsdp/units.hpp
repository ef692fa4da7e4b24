// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <string>
#include <vector>

#include "base/axes.hpp"
#include "comm/mesh.hpp"
#include "fsdp/unit_buffers.hpp"
#include "fsdp/weight_forms.hpp"
#include "fsdp/weight_store.hpp"
#include "operation/executor.hpp"
#include "profile/collective_log.hpp"
#include "tensor/runtime.hpp"

namespace shard8::tests {

inline constexpr int kLayers = 4;
inline constexpr int kEmbedding = 0;
inline constexpr int kRoot = kLayers + 1;

/// The first rank of a mesh of so many shards and replicas.
inline base::Place first_of(int shards, int replicas = 1) { return {{replicas, shards, 1}, 0}; }

/// An embedding, equal layers and a root. Most numbers of rows are not divisible by the number of ranks; some are
/// smaller.
inline std::vector<fsdp::UnitShape> small_units() {
  std::vector<fsdp::UnitShape> units;
  units.push_back({"embedding", {{"table", 11, 6, 1, false, false}}, false});
  for (int l = 0; l < kLayers; ++l)
    units.push_back({"layer",
                     {{"norm", 7, 1, 1, false, true}, {"fc1", 13, 6, 1, true, false}, {"narrow", 2, 9, 1, true, false}},
                     true});
  units.push_back({"root", {{"norm", 1, 1, 1, false, true}, {"head", 10, 6, 1, true, false}}, false});
  return units;
}

/// As small_units(), but every rank holds the second layer and the root whole.
inline std::vector<fsdp::UnitShape> units_of_two_kinds() {
  auto units = small_units();
  for (const int unit : {2, kRoot})
    for (fsdp::ParameterShape& p : units[static_cast<std::size_t>(unit)].parameters) p.sharing.sharded = {};
  return units;
}

/// The inverse scale to which every copy with Scaling::tensor of format_units() refers.
inline float kScaleInv = 0.5f;

/// An embedding, layers and a root whose parameters have formats of every kind. Their 96 rows in blocks of 32 give
/// short and empty shards. The first layer has plain rows without blocks. `stored`: parameters that are cast before the
/// gather keep the cast as shards.
inline std::vector<fsdp::UnitShape> format_units(bool stored) {
  using fsdp::Cast;
  using fsdp::Formats;
  using tensor::DType;
  using tensor::Scaling;
  const Formats columns{{DType::e4m3, Scaling::column_32}, {DType::e4m3, Scaling::column_32}};
  const Formats rows_columns{{DType::e4m3, Scaling::row_32}, {DType::e4m3, Scaling::column_32}};
  const Formats tensor_columns{{DType::e5m2, Scaling::tensor}, {DType::e4m3, Scaling::column_32}};
  const Cast before = stored ? Cast::stored : Cast::before_gather;
  const auto parameter = [](const char* name, std::int64_t cols, const Formats& formats, Cast cast) {
    const tensor::Tensor scale{reinterpret_cast<std::byte*>(&kScaleInv), {1}, DType::fp32};
    return fsdp::ParameterShape{name, 96, cols, 32, true, false, formats, cast, 1, scale};
  };
  const auto norm = [](std::int64_t rows) { return fsdp::ParameterShape{"norm", rows, 1, 1, false, true}; };
  const auto plain = [](const char* name, std::int64_t cols) {
    return fsdp::ParameterShape{name, 96, cols, 1, true, false};
  };
  std::vector<fsdp::UnitShape> units;
  units.push_back({"embedding", {{"table", 11, 6, 1, false, false}}, false});
  units.push_back({"first", {norm(7), plain("qkv", 32), plain("fc1", 32), plain("fc2", 64), plain("proj", 32)}, true});
  for (int l = 1; l < kLayers; ++l)
    units.push_back({"layer",
                     {norm(7), parameter("qkv", 32, columns, before),            // one copy, not converted
                      parameter("fc1", 32, rows_columns, before),                // two copies
                      parameter("fc2", 64, tensor_columns, Cast::after_gather),  // converted into two copies
                      parameter("proj", 32, columns, Cast::after_gather)},       // converted into one copy
                     true});
  units.push_back({"root", {norm(1), parameter("head", 32, rows_columns, before)}, false});
  return units;
}

/// The visits of a step. `tied`: the root has the embedding's table. `recompute`: each layer's forward is recomputed
/// before its backward.
inline std::vector<fsdp::Visit> visits(int micro_batches, bool tied = false, bool recompute = false) {
  using fsdp::Pass;
  std::vector<fsdp::Visit> order;
  for (int m = 0; m < micro_batches; ++m) {
    order.push_back({tied ? kRoot : kEmbedding, Pass::forward});
    for (int l = 1; l <= kLayers; ++l) order.push_back({l, Pass::forward});
    if (!tied) order.push_back({kRoot, Pass::forward});
    for (int l = kLayers; l >= 1; --l) {
      if (recompute) order.push_back({l, Pass::forward});
      order.push_back({l, Pass::backward});
    }
  }
  return order;
}

/// How many slots in [0, rotating_slots) hold a copy. No slot is emptied in a step, so after a step this is the largest
/// number of slots that held a copy at once. `copies`: how many copies there are.
inline int rotating_slots_used(const fsdp::GatherSchedule& schedule, int copies, int rotating_slots) {
  int used = 0;
  for (int copy = 0; copy < copies; ++copy)
    if (const int slot = schedule.slot_of(copy); slot >= 0 && slot < rotating_slots) ++used;
  return used;
}

/// UnitBuffers of this rank of the mesh of options.place, with arenas of their own. The mesh also has the groups in
/// which the gradients of units that are not sharded are summed.
struct Units {
  explicit Units(fsdp::Options given, const std::vector<fsdp::UnitShape>& shapes = small_units())
      : mesh(comm::make_mesh(comm::Communicator(MPI_COMM_WORLD, "world", comm::Waiting::yield, &log),
                             given.place.mesh(), {}, {base::AxisSet::data})),
        options(at(given, mesh.place)),
        arenas(measured(shapes, options)),
        buffers(shapes, options, arenas) {}

  static fsdp::Options at(fsdp::Options options, const base::Place& place) {
    options.place = place;
    return options;
  }
  static tensor::MemoryBytes measured(const std::vector<fsdp::UnitShape>& shapes, const fsdp::Options& options) {
    auto arenas = tensor::ArenaSet::measure();
    const fsdp::UnitBuffers buffers(shapes, options, arenas);
    return arenas.bytes();
  }

  profile::CollectiveLog log;
  comm::Mesh mesh;
  fsdp::Options options;
  tensor::ArenaSet arenas;
  fsdp::UnitBuffers buffers;
  profile::StepTimer timer;
  tensor::Exec exec;
  operation::Executor executor{exec, timer};
};

inline int slots_used(const fsdp::UnitBuffers& buffers, const fsdp::GatherSchedule& schedule) {
  return rotating_slots_used(schedule, buffers.gather().copies(), buffers.gather().rotating_slots());
}

inline int world_size() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

inline std::string name_of(const fsdp::Options& o) {
  return fmt::format(
      "mesh {}, prefetch {}, reshard {}, accumulate {}, sharded sums {}, compute {}, gather {}, reduce {}",
      text_of(o.place.mesh()), o.prefetch, o.reshard_after_forward, o.accumulate, o.sharded_sums, name_of(o.compute),
      name_of(o.gather), name_of(o.reduce));
}

}  // namespace shard8::tests
