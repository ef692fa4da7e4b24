// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "tensor/dtype.hpp"

namespace shard8::checkpoint {

namespace {

std::vector<Snapshot::Piece> pieces_of(const std::vector<StateTensor>& tensors, const base::Place& place) {
  std::vector<Snapshot::Piece> pieces;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (!tensors[t].counts(place)) continue;
    for (std::size_t p = 0; p < tensors[t].parts.size(); ++p)
      pieces.push_back({t, p, tensors[t].parts[p].local.bytes()});
  }
  return pieces;
}

std::size_t total(const std::vector<Snapshot::Piece>& pieces) {
  std::size_t bytes = 0;
  for (const auto& piece : pieces) bytes += tensor::aligned(piece.bytes);
  return bytes;
}

int group_count(const std::vector<StateTensor>& tensors) {
  int count = 0;
  for (const StateTensor& t : tensors) count = std::max(count, t.group + 1);
  return count;
}

}  // namespace

Snapshot::Snapshot(const std::vector<StateTensor>& tensors, const base::Place& place)
    : tensors_(tensors),
      pieces_(pieces_of(tensors, place)),
      groups_(static_cast<std::size_t>(group_count(tensors))),
      copies_(total(pieces_), group_count(tensors)),
      sources_(pieces_.size()),
      changed_(groups_.size()) {
  std::size_t offset = 0;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    offsets_.push_back(offset);
    offset += tensor::aligned(pieces_[i].bytes);
    groups_[static_cast<std::size_t>(tensor_of(pieces_[i]).group)].push_back(i);
  }
}

std::size_t Snapshot::bytes(const std::vector<StateTensor>& tensors, const base::Place& place) {
  return total(pieces_of(tensors, place));
}

void Snapshot::take(const tensor::Exec& exec) {
  SHARD8_REQUIRE(!held_, "a snapshot of the training state is taken while one is held");
  copies_.begin(exec);
  changed_.assign(changed_.size(), false);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const std::byte* data = part_of(pieces_[i]).local.data;
    sources_[i] = {data, 0, false};
  }
  if (copies_.concurrent()) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const std::size_t i : groups_[g]) copy(i);
      copies_.end_group(static_cast<int>(g));
    }
  }
  held_ = true;
}

/// Copies a piece, or what is left of it to be read.
void Snapshot::copy(std::size_t piece) {
  Source& source = sources_[piece];
  const Piece& p = pieces_[piece];
  std::byte* const to = copies_.data() + offsets_[piece];
  if (tensor_of(p).in_host_memory || !copies_.concurrent()) {
    const std::size_t read = tensor::bytes_of(tensor_of(p).dtype, source.read);
    const std::size_t begin = part_of(p).transposed ? 0 : read;
    std::memcpy(to + begin, part_of(p).local.data + begin, p.bytes - begin);
  } else {
    copies_.copy(to, part_of(p).local);
  }
  source.data = to;
  source.copied = true;
}

bool Snapshot::holds(int group) const {
  const auto g = static_cast<std::size_t>(group);
  return held_ && g < groups_.size() && !changed_[g] && !groups_[g].empty();
}

void Snapshot::before_change(const tensor::Exec& exec, int group) {
  if (!holds(group)) return;
  const auto g = static_cast<std::size_t>(group);
  changed_[g] = true;
  if (copies_.concurrent()) return copies_.hold(exec, group);
  for (const std::size_t i : groups_[g]) {
    const std::lock_guard lock(mutex_);
    if (!sources_[i].copied && sources_[i].read < part_of(pieces_[i]).box.count()) copy(i);
  }
}

void Snapshot::release() { held_ = false; }

void Snapshot::read(std::size_t piece, std::int64_t first, std::int64_t count, std::vector<std::byte>& buffer,
                    const Use& use) {
  const Piece& p = pieces_[piece];
  const LocalPart& part = part_of(p);
  const std::size_t size = tensor::size_of(tensor_of(p).dtype);
  if (copies_.concurrent()) copies_.wait(tensor_of(p).group);
  const std::size_t offset = static_cast<std::size_t>(first) * size, bytes = static_cast<std::size_t>(count) * size;
  Source& source = sources_[piece];
  std::unique_lock lock(mutex_);
  SHARD8_REQUIRE(held_ && first >= source.read && first + count <= part.box.count(),
                 "elements {} to {} of {} are read of a snapshot after {}", first, first + count, tensor_of(p).label(),
                 source.read);
  const bool in_place = !part.transposed, was_copied = source.copied;
  const std::byte* data = source.data + offset;
  if (!in_place) {
    buffer.resize(bytes);
    copy_transposed(buffer.data(), source.data, part.local.rows(), part.local.cols(), size, first, count);
    data = buffer.data();
  }
  lock.unlock();  // use() may wait for a disk
  use({data, bytes});
  lock.lock();
  if (in_place && !was_copied && source.copied) {  // the tensor may have changed meanwhile
    data = source.data + offset;
    lock.unlock();
    use({data, bytes});
    lock.lock();
  }
  source.read = first + count;
}

}  // namespace shard8::checkpoint
