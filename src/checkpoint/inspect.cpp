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

std::int64_t end_row(const io::Box& box) { return box.row0 + box.rows; }

/// Messages about the index of a file: a box of a tensor that the manifest does not have so.
std::string problem_of_box(const Checkpoint& checkpoint, const ManifestTensor* tensor, const io::ShardBox& box,
                           std::size_t file) {
  std::string wrong;
  if (tensor == nullptr)
    wrong = "its tensor is not in the manifest";
  else if (box.dtype != tensor::name_of(tensor->dtype) || box.shape != tensor->shape)
    wrong = "its dtype or shape is not that of the manifest";
  else
    return {};
  return fmt::format("{}/{}: {}; use another checkpoint", checkpoint.folder, dataset_of(checkpoint, box, file), wrong);
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

std::string problem_of_cover(const ManifestTensor& tensor, std::vector<PlacedBox> boxes, const Checkpoint& checkpoint) {
  const io::Box whole{0, tensor.shape[0], 0, tensor.shape.size() == 1 ? 1 : tensor.shape[1]};
  std::sort(boxes.begin(), boxes.end(), [](const PlacedBox& a, const PlacedBox& b) { return a.box.row0 < b.box.row0; });
  std::vector<const PlacedBox*> above;  // boxes that may reach the rows of the next one
  std::int64_t count = 0;
  for (const PlacedBox& placed : boxes) {
    const io::Box& box = placed.box;
    if (io::intersect(box, whole) != box) return dataset_of(checkpoint, tensor, placed) + " lies outside of it";
    std::erase_if(above, [&](const PlacedBox* other) { return end_row(other->box) <= box.row0; });
    for (const PlacedBox* other : above)
      if (!io::intersect(other->box, box).empty())
        return fmt::format("{} and {} overlap", dataset_of(checkpoint, tensor, *other),
                           dataset_of(checkpoint, tensor, placed));
    above.push_back(&placed);
    count += box.count();
  }
  if (count == whole.count()) return {};
  return fmt::format("{} of its {} elements are in no file", whole.count() - count, whole.count());
}

std::vector<std::string> problems_of_files(const Checkpoint& checkpoint) {
  const Manifest& m = checkpoint.manifest;
  std::vector<std::string> problems;
  std::map<std::pair<std::string, std::string>, const ManifestTensor*> known;
  for (const ManifestTensor& t : m.tensors) known[{t.name, t.content}] = &t;
  std::map<std::pair<std::string, std::string>, std::vector<PlacedBox>> boxes;
  bool all_known = true;  // whether all boxes of all tensors are in `boxes`
  for (std::size_t f = 0; f < m.files.size(); ++f) {
    bool opened = false;
    try {
      const io::ShardReader file = open_shard(checkpoint.folder, m, f);
      opened = true;
      for (std::size_t b = 0; b < file.boxes().size(); ++b) {
        const io::ShardBox& box = file.boxes()[b];
        const auto found = known.find({box.name, box.content});
        const auto problem = problem_of_box(checkpoint, found == known.end() ? nullptr : found->second, box, f);
        if (problem.empty()) {
          boxes[found->first].push_back({f, b, box.box});
        } else {
          problems.push_back(problem);
          all_known = false;
        }
      }
      file.verify_all();
    } catch (const base::Error& error) {
      problems.emplace_back(error.what());
      all_known = all_known && opened;
    }
  }
  if (!all_known) return problems;  // tensors would be told whose boxes are in a file that is told
  for (const auto& [key, tensor] : known) {
    const std::string problem = problem_of_cover(*tensor, boxes[key], checkpoint);
    if (!problem.empty())
      problems.push_back(fmt::format("{}: tensor {}, {}: {}; use another checkpoint", checkpoint.folder, tensor->name,
                                     tensor->content, problem));
  }
  return problems;
}

}  // namespace shard8::checkpoint
