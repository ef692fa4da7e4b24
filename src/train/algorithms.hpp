// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/mesh.hpp"
#include "kernels/libraries.hpp"
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
/// memory that the setup requests). The conditions are the same on every rank. Where ranks differ, a value lists the
/// values of all. `program` names the program and how it was built. Collective. To be called before the memory of the
/// tensor group is taken.
profile::Conditions conditions_of(const comm::Mesh& mesh, const Setup& setup, const std::string& program);

/// The kind of machine: on hosts the processor's name, on devices the name of this rank's device.
std::string machine_name();

/// On what the fastest algorithm of a product depends. The product itself (shapes, dtypes, epilogue) is part of what is
/// kept, so no deck key and no mesh is required: a run with other products has them timed, and takes the rest. No
/// exchange runs while products are timed, so transports, MPI and NCCL are not required either. The program is not
/// required: an algorithm is that of a library, and a rebuilt program must not change the bits of a training.
inline constexpr std::string_view kAlgorithmsRequire[] = {condition::kMachine, condition::kCuda, condition::kDriver,
                                                          condition::kCublas, condition::kRanksOnDevices};
/// Format 1 was the text of kernels::Libraries::algorithms() alone.
inline constexpr profile::MeasurementKind kAlgorithmsKind{
    .name = "algorithms", .format = 2, .required = kAlgorithmsRequire};

/// The text of a file that keeps algorithms, as kernels::Libraries::algorithms() returns them, with all `conditions` of
/// the run. `from_checkpoint`: some were taken from a checkpoint and not timed under these conditions.
std::string text_of_algorithms(const std::string& algorithms, const profile::Conditions& conditions,
                               bool from_checkpoint);
/// The algorithms of such a text. Empty, with the reason, if the text is malformed or does not fit the conditions
/// `now`. Throws nothing for any text.
std::string algorithms_of_file_text(const std::string& text, const profile::Conditions& now, std::string& reason);

/// The file algorithms.txt in the folder of the metrics. The file keeps the algorithms of matrix products, so that the
/// next run of a deck sums in the same order as this one. Rank 0 reads and writes it; all ranks take rank 0's
/// algorithms, so that equal products are summed in the same order on every rank. `world` must outlive the object.
class AlgorithmsFile {
 public:
  /// `conditions`: those of this run, the same on all ranks.
  AlgorithmsFile(const std::filesystem::path& folder, const comm::Communicator& world, profile::Conditions conditions);

  /// Gives every rank's libraries the algorithms of a checkpoint: a text of kernels::Libraries::algorithms(), the same
  /// on all ranks. Returns whether all ranks' libraries took them: they do not if the text is empty, malformed, or for
  /// another kind of device or version of a library. The conditions do not matter here: a run that goes on must repeat
  /// what the run before it would have computed. Collective.
  bool adopt(kernels::Libraries& libraries, const std::string& algorithms);
  /// Gives every rank's libraries the algorithms of the file, if there is one and it fits. Collective.
  void load(kernels::Libraries& libraries);
  /// Gives every rank's libraries the algorithms of rank 0, and writes them to the file unless it has them already;
  /// makes the folder if it is missing. Collective. AgreedError(environment) when folder or file cannot be written,
  /// AgreedError(failed) when another rank has another kind of device or version of a library.
  void store(kernels::Libraries& libraries);

  /// Why algorithms of a checkpoint or of the file were not taken, as lines for the header. The lines are the same on
  /// all ranks.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  bool give(kernels::Libraries& libraries, const std::string& algorithms, std::string& reason);

  std::filesystem::path folder_, path_;
  const comm::Communicator& world_;
  profile::Conditions conditions_;
  bool from_checkpoint_ = false;
  std::vector<std::string> remarks_;
};

}  // namespace shard8::train
