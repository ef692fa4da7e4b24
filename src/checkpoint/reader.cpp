// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/reader.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "tensor/transfer.hpp"

namespace shard8::checkpoint {

namespace {

using base::ExitCode;

/// Largest buffer through which parts are read, in bytes. Chosen: several blocks of a file, so that a block is rarely
/// read twice.
constexpr std::int64_t kPanelBytes = std::int64_t{64} << 20;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return shape.size() == 1 ? fmt::format("({})", shape[0]) : fmt::format("({}, {})", shape[0], shape[1]);
}

}  // namespace

Reader::Reader(std::string folder, Manifest manifest) : folder_(std::move(folder)), manifest_(std::move(manifest)) {
  for (std::size_t f = 0; f < manifest_.files.size(); ++f) {
    const auto& file = *files_.emplace_back(
        std::make_unique<io::ShardReader>(folder_ + "/" + manifest_.files[f].file, manifest_.files[f]));
    const io::ShardIdentity& identity = file.identity();
    if (identity.run_id != manifest_.run || identity.step != manifest_.step)
      base::fail(ExitCode::checkpoint,
                 "{}/{} belongs to run {}, step {}, and the manifest to run {}, step {}: restore the right file, or "
                 "remove this checkpoint",
                 folder_, manifest_.files[f].file, identity.run_id, identity.step, manifest_.run, manifest_.step);
    for (std::size_t b = 0; b < file.boxes().size(); ++b)
      places_[{file.boxes()[b].name, file.boxes()[b].content}].push_back({f, b});
  }
}

const std::vector<Reader::Place>& Reader::boxes_of(const std::string& name, const std::string& content) const {
  static const std::vector<Place> none;
  const auto found = places_.find({name, content});
  return found == places_.end() ? none : found->second;
}

void Reader::require(const std::vector<StateTensor>& tensors) const {
  std::map<std::pair<std::string, std::string>, const ManifestTensor*> known;
  for (const ManifestTensor& t : manifest_.tensors) known[{t.name, t.content}] = &t;
  for (const StateTensor& t : tensors) {
    const auto found = known.find({t.name, std::string(name_of(t.content))});
    if (found == known.end())
      base::fail(ExitCode::checkpoint,
                 "{} has no tensor {}, which this deck needs: restart with the deck it was made "
                 "with, or with checkpoint.restart: none",
                 where(), t.label());
    const ManifestTensor& saved = *found->second;
    const auto shape = t.extents();
    if (saved.dtype != t.dtype || saved.shape != shape)
      base::fail(ExitCode::checkpoint,
                 "{}: tensor {} is {} of {}, and this deck needs {} of {}: restart with the deck it was made with, or "
                 "with checkpoint.restart: none",
                 where(), t.label(), shape_text(saved.shape), tensor::name_of(saved.dtype), shape_text(shape),
                 tensor::name_of(t.dtype));
  }
}

void Reader::read(const std::string& name, const std::string& content, const io::Box& box, std::byte* out,
                  std::int64_t row_stride_bytes) const {
  std::int64_t found = 0;
  for (const Place& place : boxes_of(name, content)) {
    const io::ShardBox& saved = files_[place.file]->boxes()[place.box];
    const io::Box wanted = io::intersect(saved.box, box);
    if (wanted.empty()) continue;
    std::byte* const to =
        out + (wanted.row0 - box.row0) * row_stride_bytes + (wanted.col0 - box.col0) * saved.element_bytes;
    files_[place.file]->read(place.box, wanted, to, row_stride_bytes);
    found += wanted.count();
  }
  if (found != box.count())
    base::fail(
        ExitCode::checkpoint,
        "{}: rows {} to {}, columns {} to {} of tensor {}, {} have {} elements in the shard files, not {}: remove "
        "this checkpoint",
        where(), box.row0, box.row0 + box.rows, box.col0, box.col0 + box.cols, name, content, found, box.count());
}

void Reader::restore(const tensor::Exec& exec, const std::vector<StateTensor>& tensors) const {
  for (const StateTensor& t : tensors)
    for (const LocalPart& part : t.parts) restore_part(exec, t, part);
  tensor::finish(exec);
}

/// In panels of rows of the part's memory. A transposed part is one panel, because its rows are columns of the file.
void Reader::restore_part(const tensor::Exec& exec, const StateTensor& t, const LocalPart& part) const {
  const std::size_t size = tensor::size_of(t.dtype);
  const std::string content(name_of(t.content));
  const std::int64_t row_bytes = part.box.cols * static_cast<std::int64_t>(size);
  const std::int64_t rows_at_once =
      part.transposed ? part.box.rows : std::clamp<std::int64_t>(kPanelBytes / row_bytes, 1, part.box.rows);
  std::vector<std::byte> panel, transposed;
  for (std::int64_t row = 0; row < part.box.rows; row += rows_at_once) {
    io::Box box = part.box;
    box.row0 += row;
    box.rows = std::min(rows_at_once, part.box.rows - row);
    panel.resize(static_cast<std::size_t>(box.rows * row_bytes));
    read(t.name, content, box, panel.data(), row_bytes);
    const std::byte* data = panel.data();
    tensor::Tensor to = part.local;
    if (part.transposed) {
      transposed.resize(panel.size());
      copy_transposed(transposed.data(), panel.data(), box.rows, box.cols, size, 0, box.count());
      data = transposed.data();
    } else {
      to = part.local.slice(row, box.rows);
    }
    if (t.in_host_memory) {
      std::memcpy(to.data, data, to.bytes());
    } else {
      tensor::to_device(exec, to, data);
    }
  }
}

void Reader::verify_rest(int index, int of) const {
  for (std::size_t f = static_cast<std::size_t>(index); f < files_.size(); f += static_cast<std::size_t>(of))
    files_[f]->verify_rest();
}

}  // namespace shard8::checkpoint
