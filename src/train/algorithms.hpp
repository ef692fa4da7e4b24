// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "comm/communicator.hpp"
#include "kernels/libraries.hpp"

namespace shard8::train {

/// The file beside the metrics (algorithms.txt) that keeps the algorithms of matrix products, so that the next run of
/// a deck sums in the same order as this one. Rank 0 reads and writes it; all ranks take rank 0's algorithms, so that
/// equal products are summed in the same order on every rank. `world` must outlive it.
class AlgorithmsFile {
 public:
  AlgorithmsFile(const std::filesystem::path& folder, const comm::Communicator& world);

  /// Gives every rank's libraries the algorithms of the file, if there is one and it is of this kind of device and
  /// these libraries. Collective. AgreedError when it cannot be read.
  void load(kernels::Libraries& libraries);
  /// Gives every rank's libraries the algorithms of rank 0, and writes them if the file does not hold them. Collective.
  /// AgreedError(environment) when it cannot be written.
  void store(kernels::Libraries& libraries);

 private:
  std::filesystem::path folder_, path_;
  const comm::Communicator& world_;
  std::string kept_;  ///< what the file holds, if the libraries took it
};

}  // namespace shard8::train
