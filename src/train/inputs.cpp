// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/inputs.hpp"

#include <array>

#include "comm/agree.hpp"
#include "io/digest.hpp"
#include "train/initial_weights.hpp"

namespace shard8::train {

namespace {

checkpoint::ManifestInput input_of(const std::string& path, const io::Fingerprint& print) {
  return {path, print.length, print.samples, print.digest};
}

}  // namespace

std::optional<checkpoint::ManifestInput> input_of(const data::Dataset& dataset, const std::string& path,
                                                  const std::function<void(const std::string&)>& say) {
  const data::Inspection found = dataset.inspect();
  for (const std::string& warning : found.warnings) say(warning);
  if (!found.fingerprint) return std::nullopt;
  return input_of(path, *found.fingerprint);
}

checkpoint::ManifestInput input_of(const io::TensorFile& file) {
  return reading_weights(base::ExitCode::deck, [&] { return input_of(file.spec(), io::fingerprint_of(file)); });
}

void inspect_validation(const data::Dataset& dataset, const deck::Config& config,
                        const std::function<void(const std::string&)>& say) {
  if (config.data.validation_path.empty()) return;
  for (const std::string& warning : dataset.inspect().warnings) say(warning);
}

std::optional<double> unigram_entropy(const comm::Communicator& world, const data::Dataset& dataset,
                                      const deck::Config& config) {
  if (config.data.kind == deck::DataKind::tokens && config.verify.unigram_ratio_max <= 0) return std::nullopt;
  std::array<double, 1> entropy{0};
  comm::agree_on_root(world, 0, [&] { entropy[0] = data::unigram_entropy(dataset); });
  world.all_reduce(entropy, comm::Communicator::Reduce::sum);
  return entropy[0];
}

}  // namespace shard8::train
