// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/directory.hpp"
#include "checkpoint/reader.hpp"
#include "io/tensor_file.hpp"
#include "tensor/dtype.hpp"

namespace shard8::checkpoint {

/// The master weights of a checkpoint in fp32, by their Hugging Face names. A bf16 master is joined with its remainder,
/// bit for bit. Reads the blocks that hold the requested box, and checks their digests. Errors are those of Reader.
class Masters final : public io::TensorFile {
 public:
  /// `likely` only decides which shard files are opened first.
  explicit Masters(const Checkpoint& checkpoint, LikelyRanks likely = {});

  /// Whether the master is stored in two halves.
  bool is_split(const std::string& name) const;

  /// The tensor of any content as the manifest describes it; null if there is none.
  const ManifestTensor* find(const std::string& name, Content content) const { return reader_.find(name, content); }
  /// Reads a box of a tensor of find(), as Reader::read().
  void read(const ManifestTensor& tensor, const io::Box& box, std::byte* out, std::int64_t row_stride_bytes) const;

 private:
  void read_checked(const std::string& name, const io::Box& box, float* out, std::int64_t row_stride) const override;

  mutable std::mutex mutex_;  // of reader_, which opens files when they are first needed
  mutable Reader reader_;
};

struct ExportOptions {
  tensor::DType dtype = tensor::DType::fp32;  ///< fp32, or bf16: values are rounded to nearest even
  bool replace = false;                       ///< whether files of an earlier export may be replaced
  /// Bytes of tensors in a file; a larger tensor has a file of its own. The default is that of Hugging Face, 5 GB.
  std::uint64_t largest_file = 5'000'000'000;
};

struct Exported {
  std::vector<std::string> files;  ///< names of the files in the folder
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;  ///< of the values
};

/// Writes all tensors of `weights` to `folder` as Hugging Face Transformers reads them: model.safetensors, or
/// model-00001-of-0000N.safetensors and model.safetensors.index.json, and config.json with the text `config`. The
/// folder is made if it is missing. About 64 MiB, or a row, of values are in memory at once.
///
/// Files have names that end in .tmp until all of them are written, so an export that fails changes nothing. With
/// `replace` files of an earlier export are removed before the new ones are renamed. Error(deck) if there are such
/// files and `replace` is false, Error(environment) or Error(failed) if a file cannot be written, and those of
/// `weights`.
Exported export_weights(const io::TensorFile& weights, const std::string& folder, const std::string& config,
                        const ExportOptions& options);

}  // namespace shard8::checkpoint
