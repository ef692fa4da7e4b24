// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/algorithms.hpp"

#include <system_error>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "deck/config.hpp"
#include "io/durable_file.hpp"

namespace shard8::train {

AlgorithmsFile::AlgorithmsFile(const std::filesystem::path& folder, const comm::Communicator& world)
    : folder_(folder), path_(folder / deck::OutputConfig::kAlgorithms), world_(world) {}

bool AlgorithmsFile::adopt(kernels::Libraries& libraries, const std::string& text) {
  bool adopted = false;
  comm::agree(world_, [&] { adopted = !text.empty() && libraries.adopt(text); });
  return adopted;
}

void AlgorithmsFile::load(kernels::Libraries& libraries) {
  std::string text;
  comm::agree_on_root(world_, 0, [&] { text = io::text_of(path_.string()); });
  world_.broadcast(text, 0);
  if (adopt(libraries, text)) kept_ = text;
}

void AlgorithmsFile::store(kernels::Libraries& libraries) {
  std::string chosen = libraries.algorithms();
  world_.broadcast(chosen, 0);
  comm::agree(world_, [&] {
    SHARD8_REQUIRE(libraries.adopt(chosen), "rank 0's algorithms are of another kind of device or library");
  });
  comm::agree_on_root(world_, 0, [&] {
    if (chosen == kept_) return;
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error)
      base::fail(base::ExitCode::environment,
                 "cannot make folder '{}': {}; set output.dir to a folder that can be made", folder_.string(),
                 error.message());
    io::write_durably(path_.string(), chosen);
  });
}

}  // namespace shard8::train
