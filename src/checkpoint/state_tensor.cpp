// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/state_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "checkpoint/directory.hpp"
#include "tensor/transfer.hpp"

namespace shard8::checkpoint {

using tensor::Tensor;

std::string_view name_of(Content content) {
  switch (content) {
    case Content::master:
      return "master";
    case Content::master_remainder:
      return "master_remainder";
    case Content::exp_avg:
      return "exp_avg";
    case Content::exp_avg_sq:
      return "exp_avg_sq";
    case Content::fp8_rowwise:
      return "fp8_rowwise";
    case Content::fp8_rowwise_scale_inv:
      return "fp8_rowwise_scale_inv";
    case Content::fp8_columnwise:
      return "fp8_columnwise";
    case Content::fp8_columnwise_scale_inv:
      return "fp8_columnwise_scale_inv";
    case Content::fp8_scale:
      return "fp8_scale";
    case Content::fp8_amax_history:
      return "fp8_amax_history";
    case Content::fp8_history_entries:
      return "fp8_history_entries";
  }
  return "?";
}

io::StridedBox LocalPart::memory() const {
  const std::int64_t cols = local.cols();
  return {box, 0, transposed ? 1 : cols, transposed ? cols : 1};
}

std::vector<std::int64_t> StateTensor::extents() const {
  std::vector<std::int64_t> all;
  for (int d = 0; d < shape.rank(); ++d) all.push_back(shape[d]);
  return all;
}

std::string StateTensor::label() const { return fmt::format("{}, {}", name, name_of(content)); }

namespace {

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014), a bijection.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t bits_of(const std::byte* data, std::size_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, data, size);  // little-endian, as files are
  return bits;
}

}  // namespace

std::uint64_t hash_element(std::int64_t index, std::uint64_t bits) {
  return mix(mix(static_cast<std::uint64_t>(index)) ^ bits);
}

std::uint64_t hash_parts(const tensor::Exec& exec, const StateTensor& tensor) {
  constexpr std::int64_t kBytesAtOnce = std::int64_t{4} << 20;
  const std::int64_t whole_cols = tensor.shape.rank() == 1 ? 1 : tensor.shape[1];
  const std::size_t size = tensor::size_of(tensor.dtype);
  std::uint64_t sum = 0;
  std::vector<std::byte> bytes;
  for (const LocalPart& part : tensor.parts) {
    const std::int64_t rows = part.local.rows(), cols = part.local.cols();
    const std::int64_t rows_at_once =
        std::max(std::int64_t{1}, kBytesAtOnce / (cols * static_cast<std::int64_t>(size)));
    for (std::int64_t first = 0; first < rows; first += rows_at_once) {
      const Tensor panel = part.local.slice(first, std::min(rows_at_once, rows - first));
      bytes.resize(panel.bytes());
      if (tensor.in_host_memory)
        std::memcpy(bytes.data(), panel.data, panel.bytes());
      else
        tensor::to_host(exec, bytes.data(), panel);
      const std::byte* next = bytes.data();
      for (std::int64_t r = first; r < first + panel.rows(); ++r) {
        for (std::int64_t c = 0; c < cols; ++c, next += size) {
          const std::int64_t row = part.box.row0 + (part.transposed ? c : r);
          const std::int64_t col = part.box.col0 + (part.transposed ? r : c);
          sum += hash_element(row * whole_cols + col, bits_of(next, size));
        }
      }
    }
  }
  return sum;
}

void copy_transposed(std::byte* to, const std::byte* from, std::int64_t rows, std::int64_t cols, std::size_t size,
                     std::int64_t first, std::int64_t count) {
  const auto copy_as = [&](auto element) {
    using T = decltype(element);
    const auto* const data = reinterpret_cast<const T*>(from);
    auto* const elements = reinterpret_cast<T*>(to);
    std::int64_t col = first / rows, row = first % rows;
    for (std::int64_t i = 0; i < count; ++i) {
      elements[i] = data[row * cols + col];
      if (++row == rows) row = 0, ++col;
    }
  };
  switch (size) {
    case 1:
      return copy_as(std::uint8_t{});
    case 2:
      return copy_as(std::uint16_t{});
    case 4:
      return copy_as(std::uint32_t{});
    default:
      break;
  }
  base::fail(base::ExitCode::failed, "elements of {} bytes cannot be transposed", size);
}

namespace {

/// The rank whose file has this name, or -1.
std::int64_t rank_of(const std::string& name) {
  const std::size_t begin = name.find_first_of("0123456789");
  std::int64_t rank = -1;
  if (begin != std::string::npos) std::from_chars(name.data() + begin, name.data() + name.size(), rank);
  return rank >= 0 && name == rank_file(rank) ? rank : -1;
}

}  // namespace

BoxIndex::BoxIndex(const std::vector<std::string>& names, std::int64_t ranks, Open open, LikelyRanks likely)
    : ranks_(ranks), open_(std::move(open)), likely_(std::move(likely)), boxes_(names.size()) {
  for (std::size_t f = 0; f < names.size(); ++f)
    if (const std::int64_t rank = rank_of(names[f]); rank >= 0) file_of_rank_[rank] = f;
}

/// With a file for each node the nodes are taken to have the same number of ranks, one after the other.
std::size_t BoxIndex::file_of(std::int64_t rank) const {
  if (const auto found = file_of_rank_.find(rank); found != file_of_rank_.end()) return found->second;
  const auto files = static_cast<std::int64_t>(boxes_.size());
  return static_cast<std::size_t>(std::clamp<std::int64_t>(rank * files / ranks_, 0, files - 1));
}

void BoxIndex::open(std::size_t file) {
  if (boxes_[file] != nullptr) return;
  boxes_[file] = &open_(file);
  ++opened_;
  for (std::size_t b = 0; b < boxes_[file]->size(); ++b) {
    const io::ShardBox& box = (*boxes_[file])[b];
    auto& places = places_[{box.name, box.content}];
    const auto later =
        std::upper_bound(places.begin(), places.end(), file, [](std::size_t f, const Place& p) { return f < p.file; });
    places.insert(later, {file, b});
  }
}

void BoxIndex::open_all() {
  for (std::size_t file = 0; file < boxes_.size(); ++file) open(file);
}

const std::vector<BoxIndex::Place>& BoxIndex::boxes_of(const std::string& name, const std::string& content) const {
  static const std::vector<Place> none;
  const auto found = places_.find({name, content});
  return found == places_.end() ? none : found->second;
}

std::int64_t BoxIndex::elements(const std::vector<Place>& places, const io::Box& box) const {
  std::int64_t count = 0;
  for (const Place& place : places) count += io::intersect(at(place).box, box).count();
  return count;
}

std::vector<BoxIndex::Place> BoxIndex::find(const std::string& name, const std::string& content,
                                            const std::vector<std::int64_t>& shape, const io::Box& box) {
  const auto covered = [&] { return elements(boxes_of(name, content), box) >= box.count(); };
  if (!covered()) {
    std::size_t first = 0;
    if (likely_) {
      const auto ranks = likely_(name, content, shape, box);
      for (const std::int64_t rank : ranks) open(file_of(rank));
      if (!ranks.empty()) first = file_of(ranks.front());
    }
    // The other files, from the first likely one on in both directions.
    for (std::size_t distance = 0; distance < boxes_.size() && !covered(); ++distance) {
      if (first + distance < boxes_.size()) open(first + distance);
      if (distance <= first) open(first - distance);
    }
  }
  std::vector<Place> found;
  for (const Place& place : boxes_of(name, content))
    if (!io::intersect(at(place).box, box).empty()) found.push_back(place);
  return found;
}

}  // namespace shard8::checkpoint
