// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/mesh.hpp"
#include "profile/measurement.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// Names of conditions by which kinds of measurements say what they require.
namespace condition {
inline constexpr std::string_view kProgram = "program", kMachine = "machine", kCuda = "CUDA", kDriver = "CUDA driver",
                                  kCublas = "cuBLASLt", kRanksOnDevices = "ranks a device", kTransport = "transport";
}  // namespace condition

/// What measurements of this job depend on, whatever is measured: program, machine, versions of libraries, the
/// placement of ranks, and how the tensor group's exchanges by parts move rows (Communicator::parts_transport, with the
/// memory that the setup asks for). The same on every rank. Where ranks differ, a value lists the values of all.
/// `program` names the program and how it was built. Collective. Call it before the memory of the tensor group is
/// taken.
profile::Conditions conditions_of(const comm::Mesh& mesh, const Setup& setup, const std::string& program);

/// The kind of machine: on hosts the processor's name, on devices the name of this rank's device.
std::string machine_name();

}  // namespace shard8::train
