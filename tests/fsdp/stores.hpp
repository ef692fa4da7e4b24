// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "fsdp/unit_buffers.hpp"
#include "operation/executor.hpp"
#include "profile/collective_log.hpp"
#include "tensor/exec.hpp"
#include "tests/fsdp/units.hpp"

namespace shard8::tests {

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
