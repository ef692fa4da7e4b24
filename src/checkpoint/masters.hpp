// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "checkpoint/find.hpp"
#include "checkpoint/reader.hpp"
#include "io/tensor_file.hpp"

namespace shard8::checkpoint {

/// The master weights of a checkpoint in fp32, by their Hugging Face names. A bf16 master is joined with its remainder,
/// bit for bit. Reads the blocks that hold the box that is asked for, and checks their digests. Errors are those of
/// Reader.
class Masters final : public io::TensorFile {
 public:
  explicit Masters(const Checkpoint& checkpoint);

  const Reader& reader() const { return reader_; }
  /// Whether the master is stored in two halves.
  bool is_split(const std::string& name) const { return split_.contains(name); }

 private:
  void read_checked(const std::string& name, const io::Box& box, float* out, std::int64_t row_stride) const override;

  Reader reader_;
  std::set<std::string> split_;
};

}  // namespace shard8::checkpoint
