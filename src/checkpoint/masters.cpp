// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/masters.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/error.hpp"
#include "tensor/bfloat16.hpp"

namespace shard8::checkpoint {

namespace {

/// Elements of a split master that are joined at once. Chosen: their halves take 4 MiB each, a block of a file.
constexpr std::int64_t kPanel = std::int64_t{2} << 20;

}  // namespace

Masters::Masters(const Checkpoint& checkpoint, LikelyRanks likely)
    : TensorFile(checkpoint.folder), reader_(checkpoint.folder, checkpoint.manifest, std::move(likely)) {
  for (const ManifestTensor& t : reader_.manifest().tensors) {
    if (t.content != name_of(Content::master)) continue;
    const auto needed = is_split(t.name) ? tensor::DType::bf16 : tensor::DType::fp32;
    if (t.dtype != needed)
      base::fail(base::ExitCode::checkpoint, "checkpoint {}: the master of '{}' is {}, needed is {}: use another one",
                 checkpoint.folder, t.name, tensor::name_of(t.dtype), tensor::name_of(needed));
    add(t.name, t.shape);
  }
}

bool Masters::is_split(const std::string& name) const { return find(name, Content::master_remainder) != nullptr; }

void Masters::read(const ManifestTensor& tensor, const io::Box& box, std::byte* out,
                   std::int64_t row_stride_bytes) const {
  const std::lock_guard guard(mutex_);
  reader_.read(tensor, box, out, row_stride_bytes);
}

void Masters::read_checked(const std::string& name, const io::Box& box, float* out, std::int64_t row_stride) const {
  const ManifestTensor& master = *find(name, Content::master);
  const ManifestTensor* const remainder = find(name, Content::master_remainder);
  if (remainder == nullptr) {
    read(master, box, reinterpret_cast<std::byte*>(out), row_stride * static_cast<std::int64_t>(sizeof(float)));
    return;
  }
  const std::int64_t rows_at_once = std::clamp<std::int64_t>(kPanel / box.cols, 1, box.rows);
  std::vector<std::uint16_t> weights(static_cast<std::size_t>(rows_at_once * box.cols));
  std::vector<std::int16_t> remainders(weights.size());
  const auto stride = box.cols * static_cast<std::int64_t>(sizeof(std::uint16_t));
  for (std::int64_t first = 0; first < box.rows; first += rows_at_once) {
    const io::Box rows = io::clip_rows(box, box.row0 + first, rows_at_once);
    read(master, rows, reinterpret_cast<std::byte*>(weights.data()), stride);
    read(*remainder, rows, reinterpret_cast<std::byte*>(remainders.data()), stride);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      for (std::int64_t c = 0; c < rows.cols; ++c) {
        const auto i = static_cast<std::size_t>(r * rows.cols + c);
        out[(first + r) * row_stride + c] =
            tensor::join_halves(std::bit_cast<tensor::BFloat16>(weights[i]), remainders[i]);
      }
    }
  }
}

}  // namespace shard8::checkpoint
