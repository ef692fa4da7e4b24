// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/box_index.hpp"

#include <algorithm>
#include <charconv>

#include "checkpoint/directory.hpp"

namespace shard8::checkpoint {

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
