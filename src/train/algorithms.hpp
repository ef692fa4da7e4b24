// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "comm/communicator.hpp"
#include "kernels/libraries.hpp"

namespace shard8::train {

/// The file algorithms.txt in the folder of the metrics. It keeps the algorithms of matrix products, so that the next
/// run of a deck sums in the same order as this one. Rank 0 reads and writes it; all ranks take rank 0's algorithms, so
/// that equal products are summed in the same order on every rank. `world` must outlive it.
class AlgorithmsFile {
 public:
  AlgorithmsFile(const std::filesystem::path& folder, const comm::Communicator& world);

  /// Gives every rank's libraries the algorithms of a text, the same on all ranks: those of a checkpoint. Returns
  /// whether they took them: they do not if the text is empty or for another kind of device or version of a library.
  /// Collective. AgreedError when the text is malformed.
  bool adopt(kernels::Libraries& libraries, const std::string& text);
  /// As adopt(), with the text of the file; it is empty if the file cannot be opened.
  void load(kernels::Libraries& libraries);
  /// Gives every rank's libraries the algorithms of rank 0, and writes them to the file unless load() found the same
  /// ones there; makes the folder if it is missing. Collective. AgreedError(environment) when folder or file cannot be
  /// written, AgreedError(failed) when another rank has another kind of device or version of a library.
  void store(kernels::Libraries& libraries);

 private:
  std::filesystem::path folder_, path_;
  const comm::Communicator& world_;
  std::string kept_;  ///< the text of the file, if the libraries took it
};

}  // namespace shard8::train
