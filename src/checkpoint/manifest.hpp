// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/axes.hpp"
#include "io/box.hpp"
#include "tensor/dtype.hpp"

namespace shard8::checkpoint {

/// The format version that this program writes. The program reads versions 1 to this one. Every version, newer ones
/// too, is a JSON object with an integer "format", and ends with the line of its digest. Version 1 names no parent, no
/// inputs and no loss, and its data cursor counts steps.
inline constexpr std::int64_t kManifestFormat = 2;

/// The manifest's name in the folder of a checkpoint.
inline constexpr std::string_view kManifestFile = "manifest.json";

/// What the manifest holds of one shard file; its name is in the checkpoint's folder, without '/'.
using io::ShardSummary;

/// One persistent tensor. The boxes of a tensor are in the indexes of the shard files.
struct ManifestTensor {
  std::string name;     ///< as in Hugging Face checkpoints
  std::string content;  ///< name_of(Content)
  tensor::DType dtype = tensor::DType::fp32;
  std::vector<std::int64_t> shape;  ///< of the whole tensor, one or two dimensions
  bool operator==(const ManifestTensor&) const = default;
};

/// One key of the resolved deck, in UTF-8.
struct ManifestKey {
  std::string key;     ///< "group.key"
  std::string value;   ///< as a deck spells it, without quotes
  std::string origin;  ///< "default", "deck" or "command line"
  bool operator==(const ManifestKey&) const = default;
};

/// The checkpoint of another training with which a training began.
struct Parent {
  std::string run;        ///< id of the other training
  std::int64_t step = 0;  ///< steps done in that checkpoint
  bool operator==(const Parent&) const = default;
};

/// An input of a training, by its content (io::Fingerprint), and where it lay when it was read.
struct ManifestInput {
  std::string path;
  std::uint64_t length = 0;  ///< elements: tokens, or values of weights
  std::int64_t samples = 0;  ///< samples of data, or tensors of weights
  std::string digest;        ///< 32 hexadecimal digits
  bool operator==(const ManifestInput&) const = default;
};

/// What a checkpoint has in addition to the data in its shard files.
struct Manifest {
  std::int64_t format = kManifestFormat;
  std::string program, git_hash;  ///< of the program that wrote it
  std::string run;                ///< id of the training; each shard file carries it as well
  std::optional<Parent> parent;   ///< none: the training began at step 0
  /// 1 + the largest one in the directory when this was written (Directory::next_serial). The serial orders checkpoints
  /// by when they were written, without clocks: a run that was restarted from step 100 writes step 150 after an old
  /// step 300.
  std::int64_t serial = 1;
  std::int64_t step = 0;  ///< steps done
  base::Extents mesh;
  /// The data cursor: which samples come next follows from the number of sequences that were trained and this seed.
  std::int64_t sequences = 0;
  std::uint64_t data_seed = 0;
  std::optional<ManifestInput> data;  ///< none: the data are synthetic, or the format is 1
  /// What a validation computes the loss of; `samples` are the sequences of one validation, and synthetic data have the
  /// length 0 and the digest 0. None: the training does not validate, or an early version wrote this.
  std::optional<ManifestInput> validation;
  std::optional<ManifestInput> weights;  ///< initial weights; none: they were random, or the format is 1
  std::optional<double> loss;            ///< of the last step; none: the format is 1
  /// The seed of the initial values. Random numbers are counter-based: no generator has a state.
  std::uint64_t init_seed = 0;
  std::string plan;  ///< what was chosen by timing, as train::SavedChoices; empty: nothing
  std::vector<ManifestKey> deck;
  std::vector<ManifestTensor> tensors;  ///< no two have the same name and content
  std::vector<ShardSummary> files;      ///< no two have the same name
  bool operator==(const Manifest&) const = default;
};

/// The text of a manifest: JSON with one tensor, file or key a line. The last key, "digest", is the XXH3-128 of all
/// bytes before its line.
std::string manifest_text(const Manifest& manifest);

/// The manifest of a text. Error(checkpoint) names `path`, what is wrong and what to do: a digest that does not match,
/// a newer format version, JSON with missing, unknown or repeated keys or values out of bounds.
Manifest parse_manifest(std::string_view text, const std::string& path);

/// The bytes of FOLDER/manifest.json. Error(checkpoint) if it is missing, cannot be read, or is larger than 256 MiB.
std::string read_manifest_text(const std::string& folder);

/// The manifest of the checkpoint in a folder. Errors are those of the two functions above.
Manifest read_manifest(const std::string& folder);

/// Writes FOLDER/manifest.json durably. The manifest is first read back from its text: Error(failed) if it differs,
/// Error(checkpoint) if parse_manifest() refuses it. Error(environment) if it cannot be written.
void write_manifest(const std::string& folder, const Manifest& manifest);

}  // namespace shard8::checkpoint
