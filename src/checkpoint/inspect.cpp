// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/inspect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/state_tensor.hpp"

namespace shard8::checkpoint {

namespace {

/// Bytes of a box that are read at once. Chosen: 16 blocks of a file, so that few blocks are read twice.
constexpr auto kPanelBytes = static_cast<std::int64_t>(16 * io::kShardBlock);

/// The sum of the hashes of a box's elements.
std::uint64_t hash_of(const io::ShardReader& file, std::size_t index) {
  const io::ShardBox& box = file.boxes()[index];
  const auto size = static_cast<std::size_t>(box.element_bytes);
  const std::int64_t whole_cols = box.shape.size() == 1 ? 1 : box.shape[1];
  const std::int64_t row_bytes = box.box.cols * box.element_bytes;
  const std::int64_t rows_at_once = std::max<std::int64_t>(1, kPanelBytes / row_bytes);
  std::vector<std::byte> panel;
  std::uint64_t sum = 0;
  for (std::int64_t first = 0; first < box.box.rows; first += rows_at_once) {
    const io::Box rows = io::clip_rows(box.box, box.box.row0 + first, rows_at_once);
    panel.resize(static_cast<std::size_t>(rows.rows * row_bytes));
    file.read(index, rows, panel.data(), row_bytes);
    const std::byte* next = panel.data();
    for (std::int64_t r = rows.row0; r < rows.row0 + rows.rows; ++r) {
      for (std::int64_t c = rows.col0; c < rows.col0 + rows.cols; ++c, next += size) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, next, size);
        sum += hash_element(r * whole_cols + c, bits);
      }
    }
  }
  return sum;
}

std::string dataset(const Checkpoint& checkpoint, std::size_t file, const std::string& name, const std::string& content,
                    const io::Box& box) {
  return fmt::format("{}: /tensors/{}/{}/r{}_c{}", checkpoint.manifest.files[file].file, name, content, box.row0,
                     box.col0);
}

}  // namespace

std::string dataset_of(const Checkpoint& checkpoint, const io::ShardBox& box, std::size_t file) {
  return dataset(checkpoint, file, box.name, box.content, box.box);
}

std::string dataset_of(const Checkpoint& checkpoint, const ManifestTensor& tensor, const PlacedBox& box) {
  return dataset(checkpoint, box.file, tensor.name, tensor.content, box.box);
}

std::vector<TensorSummary> summarise(const Checkpoint& checkpoint, bool hashes) {
  std::map<std::pair<std::string, std::string>, std::size_t> index;
  std::vector<TensorSummary> all;
  for (const ManifestTensor& t : checkpoint.manifest.tensors) {
    index[{t.name, t.content}] = all.size();
    auto& summary = all.emplace_back();
    summary.tensor = t;
    if (hashes) summary.hash = 0;
  }
  for (std::size_t f = 0; f < checkpoint.manifest.files.size(); ++f) {
    const io::ShardReader file = open_shard(checkpoint.folder, checkpoint.manifest, f);
    for (std::size_t b = 0; b < file.boxes().size(); ++b) {
      const io::ShardBox& box = file.boxes()[b];
      const auto found = index.find({box.name, box.content});
      if (found == index.end())
        base::fail(base::ExitCode::checkpoint, "{}/{}: its tensor is not in the manifest: use another checkpoint",
                   checkpoint.folder, dataset_of(checkpoint, box, f));
      TensorSummary& tensor = all[found->second];
      if (hashes) *tensor.hash += hash_of(file, b);
      tensor.bytes += box.bytes();
      tensor.boxes.push_back({f, b, box.box});
    }
  }
  for (TensorSummary& t : all)
    std::sort(t.boxes.begin(), t.boxes.end(), [](const PlacedBox& a, const PlacedBox& b) {
      return std::tuple(a.box.row0, a.box.col0) < std::tuple(b.box.row0, b.box.col0);
    });
  return all;
}

}  // namespace shard8::checkpoint
