// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "checkpoint/manifest.hpp"
#include "comm/communicator.hpp"
#include "data/dataset.hpp"
#include "deck/config.hpp"
#include "io/tensor_file.hpp"

namespace shard8::train {

/// Data by content; nothing for synthetic data. Reads a bounded sample. One rank calls it. `path`: where the data lie.
/// `say` gets warnings, such as data that look unfinished. Errors are those of data::Dataset::inspect().
std::optional<checkpoint::ManifestInput> input_of(const data::Dataset& dataset, const std::string& path,
                                                  const std::function<void(const std::string&)>& say);

/// Initial weights by content. Reads a bounded sample. One rank calls it. Errors are those of reading_weights().
checkpoint::ManifestInput input_of(const io::TensorFile& file);

/// The unigram entropy of the data, in nats, which rank 0 finds. It reads the whole data, so with a file of tokens it
/// is found only if the deck sets verify.unigram_ratio_max. Collective; errors of data::unigram_entropy() are agreed.
std::optional<double> unigram_entropy(const comm::Communicator& world, const data::Dataset& dataset,
                                      const deck::Config& config);

/// Reads a sample of data.validation_path and passes its warnings to `say`; a share of data.path is looked at with the
/// data. Errors are those of Dataset::inspect().
void inspect_validation(const data::Dataset& dataset, const deck::Config& config,
                        const std::function<void(const std::string&)>& say);

}  // namespace shard8::train
