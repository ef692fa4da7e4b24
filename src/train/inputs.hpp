// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/manifest.hpp"
#include "comm/communicator.hpp"
#include "data/batch.hpp"
#include "data/dataset.hpp"
#include "deck/config.hpp"
#include "io/io_thread.hpp"
#include "io/tensor_file.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// Data by content; nothing for synthetic data. Reads a bounded sample. One rank calls the function. `path`: where the
/// data lie. `say` gets warnings, such as data that look unfinished. Errors are those of data::Dataset::inspect().
std::optional<checkpoint::ManifestInput> input_of(const data::Dataset& dataset, const std::string& path,
                                                  const std::function<void(const std::string&)>& say);

/// Initial weights by content. Reads a bounded sample. One rank calls the function. Errors are those of
/// reading_weights().
checkpoint::ManifestInput input_of(const io::TensorFile& file);

/// The unigram entropy of what is trained, in nats, which rank 0 finds (data::unigram_entropy); with a file of tokens
/// only if the deck sets verify.unigram_ratio_max. Once `goes_on` ends the reading on rank 0 the result is
/// that of a part. Collective; errors of data::unigram_entropy() are agreed.
std::optional<double> unigram_entropy(const comm::Communicator& world, const data::Dataset& dataset,
                                      const deck::Config& config, const data::GoesOn& goes_on);

/// What is validated, as Manifest::validation. Reads a sample of data.validation_path and passes its warnings to `say`;
/// a share of data.path has the content `data`, which was looked at. Errors are those of Dataset::inspect().
std::optional<checkpoint::ManifestInput> validation_of(const data::Loader& loader, const deck::Config& config,
                                                       const std::optional<checkpoint::ManifestInput>& data,
                                                       const std::function<void(const std::string&)>& say);

/// Runs an action that reads what model.init_file names, and returns its result. What fails there is the fault of that
/// input, so an Error(failed) becomes Error(code) with the key's name.
template <class Action>
auto reading_weights(base::ExitCode code, Action&& action) {
  try {
    return std::forward<Action>(action)();
  } catch (const base::Error& error) {
    if (error.code() != base::ExitCode::failed) throw;
    base::fail(code, "model.init_file: {}", error.what());
  }
}

/// Opens the weights of model.init_file and checks that they are those of the deck's model. The file is one that
/// io::open_tensor_file() opens, or a checkpoint, a folder of checkpoints or an output.dir, as
/// checkpoint::open_checkpoint() finds them: then its masters are the weights.
///
/// TensorFile::spec() of the result says what was chosen: the file, or the folder of the checkpoint.
///
/// Error(deck) if a file cannot be opened or is damaged; with all differences, if the config.json in the folder of a
/// .safetensors file, or a checkpoint's deck, describes another model; or with the first tensors that do not fit, as
/// model::check_tensors() says. Error(checkpoint) if a checkpoint cannot be used. `say` is told of checkpoints that are
/// passed over because they are not usable, of a choice between two files, and of tensors that are not read.
std::unique_ptr<io::TensorFile> open_initial_weights(io::IoThread& io, const deck::ModelConfig& model,
                                                     const std::function<void(const std::string&)>& say);

/// Opens the initial weights on all ranks of `world`. Rank 0 alone looks for the checkpoint, reads its manifest, and
/// compares. Errors are AgreedErrors. Collective.
std::unique_ptr<io::TensorFile> open_initial_weights(const comm::Communicator& world, io::IoThread& io,
                                                     const Setup& setup,
                                                     const std::function<void(const std::string&)>& say);

}  // namespace shard8::train
