// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint/reader.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"
#include "tensor/float8.hpp"
#include "tensor/transfer.hpp"

namespace shard8::checkpoint {
namespace {

using base::ExitCode;
using tensor::BFloat16;

template <class T>
T element(const std::byte* bytes, std::int64_t i) {
  T value;
  std::memcpy(&value, bytes + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

/// out[i] = f(i)
template <class F>
void fill(std::byte* out, std::int64_t count, const F& f) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = f(i);
    std::memcpy(out + static_cast<std::size_t>(i) * sizeof(value), &value, sizeof(value));
  }
}

/// Converts `count` elements. `remainder` is read by `join` alone. `how` must not be Conversion::none.
void convert(Conversion how, std::byte* out, const std::byte* in, const std::byte* remainder, std::int64_t count) {
  switch (how) {
    case Conversion::widen:
      return fill(out, count, [in](std::int64_t i) { return static_cast<float>(element<BFloat16>(in, i)); });
    case Conversion::round:
      return fill(out, count, [in](std::int64_t i) { return BFloat16(element<float>(in, i)); });
    case Conversion::join:
      return fill(out, count, [in, remainder](std::int64_t i) {
        return tensor::join_halves(element<BFloat16>(in, i), element<std::int16_t>(remainder, i));
      });
    case Conversion::upper_half:
      return fill(out, count, [in](std::int64_t i) { return tensor::split_halves(element<float>(in, i)).weight; });
    case Conversion::lower_half:
      return fill(out, count, [in](std::int64_t i) { return tensor::split_halves(element<float>(in, i)).remainder; });
    case Conversion::none:
      break;
  }
  base::fail(base::ExitCode::failed, "elements of the same dtype are not converted");
}

/// Largest buffer through which parts are read, in bytes. Chosen: several blocks of a file, so that a block is rarely
/// read twice.
constexpr std::int64_t kPanelBytes = std::int64_t{64} << 20;

/// Files that are open at the same time. Chosen: far below the usual limit of 1,024 descriptors a process.
constexpr std::size_t kMostDescriptors = 64;

std::vector<std::string> names_of(const std::vector<ShardSummary>& files) {
  std::vector<std::string> names;
  for (const ShardSummary& file : files) names.push_back(file.file);
  return names;
}

std::string shape_in_brackets(const std::vector<std::int64_t>& shape) {
  return shape.size() == 1 ? fmt::format("({})", shape[0]) : fmt::format("({}, {})", shape[0], shape[1]);
}

}  // namespace

io::ShardReader open_shard(const std::string& folder, const Manifest& manifest, std::size_t file) {
  const std::string path = folder + "/" + manifest.files[file].file;
  io::ShardReader reader(path, manifest.files[file]);
  const io::ShardIdentity& identity = reader.identity();
  if (identity.run_id != manifest.run || identity.step != manifest.step)
    base::fail(ExitCode::checkpoint,
               "'{}': belongs to run {}, step {}, and the manifest to run {}, step {}: copy the right file, or remove "
               "this checkpoint",
               path, base::quotable(identity.run_id), identity.step, base::quotable(manifest.run), manifest.step);
  return reader;
}

Reader::Reader(std::string folder, Manifest manifest, LikelyRanks likely)
    : folder_(std::move(folder)),
      manifest_(std::move(manifest)),
      files_(manifest_.files.size()),
      index_(
          names_of(manifest_.files), manifest_.mesh.ranks(),
          [this](std::size_t f) -> const std::vector<io::ShardBox>& { return file(f).boxes(); }, std::move(likely)) {
  for (const ManifestTensor& t : manifest_.tensors) tensors_[{t.name, t.content}] = &t;
}

io::ShardReader& Reader::file(std::size_t f) {
  if (!files_[f]) {
    auto opened = std::make_unique<io::ShardReader>(open_shard(folder_, manifest_, f));
    require_boxes(*opened, f);
    files_[f] = std::move(opened);
  }
  if (descriptors_.empty() || descriptors_.back() != f) {
    std::erase(descriptors_, f);
    descriptors_.push_back(f);
  }
  if (descriptors_.size() > kMostDescriptors) {
    files_[descriptors_.front()]->release();
    descriptors_.pop_front();
  }
  return *files_[f];
}

void Reader::require_boxes(const io::ShardReader& in, std::size_t f) const {
  for (const io::ShardBox& box : in.boxes()) {
    const auto found = tensors_.find({box.name, box.content});
    if (found != tensors_.end() && found->second->shape == box.shape &&
        tensor::name_of(found->second->dtype) == box.dtype)
      continue;
    base::fail(ExitCode::checkpoint,
               "{}/{}: {} is {} of {}, and the manifest {}: copy the checkpoint again, or remove it", folder_,
               manifest_.files[f].file, box.label(), shape_in_brackets(box.shape), box.dtype,
               found == tensors_.end() ? "has no such tensor" : "says another shape or dtype");
  }
}

const std::vector<Reader::Place>& Reader::boxes_of(const std::string& name, const std::string& content) {
  index_.open_all();
  return index_.boxes_of(name, content);
}

const ManifestTensor* Reader::find(const std::string& name, Content content) const {
  const auto found = tensors_.find({name, std::string(name_of(content))});
  return found == tensors_.end() ? nullptr : found->second;
}

Reader::Source Reader::source_of(const StateTensor& t) const {
  using tensor::DType;
  const ManifestTensor* const same = find(t.name, t.content);
  if (t.content == Content::master_remainder && same == nullptr) {
    const ManifestTensor* const master = find(t.name, Content::master);
    if (master != nullptr && master->dtype == DType::fp32) return {master, nullptr, Conversion::lower_half};
  }
  if (same == nullptr)
    base::fail(ExitCode::checkpoint,
               "{} has no tensor {}, which this deck needs: restart with the deck it was made "
               "with, or with checkpoint.restart: none",
               where(), t.label());
  const bool widens = same->dtype == DType::bf16 && t.dtype == DType::fp32;
  const bool narrows = same->dtype == DType::fp32 && t.dtype == DType::bf16;
  if (t.content == Content::exp_avg || t.content == Content::exp_avg_sq) {
    if (widens) return {same, nullptr, Conversion::widen};
    if (narrows) return {same, nullptr, Conversion::round};
  }
  if (t.content == Content::master) {
    const ManifestTensor* const remainder = find(t.name, Content::master_remainder);
    if (widens && remainder != nullptr) return {same, remainder, Conversion::join};
    if (narrows) return {same, nullptr, Conversion::upper_half};
  }
  return {same, nullptr, Conversion::none};
}

void Reader::require(const std::vector<StateTensor>& tensors) const {
  for (const StateTensor& t : tensors) {
    const Source source = source_of(t);
    const ManifestTensor& in_files = *source.tensor;
    const auto shape = t.extents();
    const bool other_dtype = source.how == Conversion::none && in_files.dtype != t.dtype;
    if (other_dtype || in_files.shape != shape)
      base::fail(ExitCode::checkpoint,
                 "{}: tensor {} is {} of {}, and this deck needs {} of {}: restart with the deck it was made with, or "
                 "with checkpoint.restart: none",
                 where(), t.label(), shape_in_brackets(in_files.shape), tensor::name_of(in_files.dtype),
                 shape_in_brackets(shape), tensor::name_of(t.dtype));
  }
}

void Reader::read(const ManifestTensor& tensor, const io::Box& box, std::byte* out, std::int64_t row_stride_bytes) {
  std::int64_t found = 0;
  for (const Place& place : index_.find(tensor.name, tensor.content, tensor.shape, box)) {
    const io::ShardReader& from = file(place.file);
    const io::ShardBox& in_file = from.boxes()[place.box];
    const io::Box wanted = io::intersect(in_file.box, box);
    std::byte* const to =
        out + (wanted.row0 - box.row0) * row_stride_bytes + (wanted.col0 - box.col0) * in_file.element_bytes;
    from.read(place.box, wanted, to, row_stride_bytes);
    found += wanted.count();
  }
  if (found != box.count())
    base::fail(
        ExitCode::checkpoint,
        "{}: rows {} to {}, columns {} to {} of tensor {}, {} have {} elements in the shard files, not {}: remove "
        "this checkpoint",
        where(), box.row0, box.row0 + box.rows, box.col0, box.col0 + box.cols, tensor.name, tensor.content, found,
        box.count());
}

void Reader::read_converted(const Source& source, const io::Box& box, std::byte* out) {
  const auto row_bytes = [&](const ManifestTensor& t) {
    return static_cast<std::int64_t>(tensor::bytes_of(t.dtype, box.cols));
  };
  if (source.how == Conversion::none) return read(*source.tensor, box, out, row_bytes(*source.tensor));
  const auto read_all = [&](const ManifestTensor& t) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(box.rows * row_bytes(t)));
    read(t, box, bytes.data(), row_bytes(t));
    return bytes;
  };
  const std::vector<std::byte> in = read_all(*source.tensor);
  const std::vector<std::byte> remainder =
      source.remainder == nullptr ? std::vector<std::byte>() : read_all(*source.remainder);
  convert(source.how, out, in.data(), remainder.data(), box.count());
}

void Reader::restore(const tensor::Exec& exec, const std::vector<StateTensor>& tensors) {
  for (const StateTensor& t : tensors)
    for (const LocalPart& part : t.parts) restore_part(exec, t, part);
  tensor::finish(exec);
}

/// Restores a part in panels of rows of the part's memory. A transposed part is one panel, because its rows are columns
/// of the file.
void Reader::restore_part(const tensor::Exec& exec, const StateTensor& t, const LocalPart& part) {
  const std::size_t size = tensor::size_of(t.dtype);
  const Source source = source_of(t);
  const std::int64_t row_bytes = part.box.cols * static_cast<std::int64_t>(size);
  const std::int64_t rows_at_once =
      part.transposed ? part.box.rows : std::clamp<std::int64_t>(kPanelBytes / row_bytes, 1, part.box.rows);
  std::vector<std::byte> panel, transposed;
  for (std::int64_t row = 0; row < part.box.rows; row += rows_at_once) {
    io::Box box = part.box;
    box.row0 += row;
    box.rows = std::min(rows_at_once, part.box.rows - row);
    panel.resize(static_cast<std::size_t>(box.rows * row_bytes));
    read_converted(source, box, panel.data());
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

void Reader::verify_rest(int index, int of) {
  for (std::size_t f = static_cast<std::size_t>(index); f < files_.size(); f += static_cast<std::size_t>(of))
    file(f).verify_rest();
}

}  // namespace shard8::checkpoint
