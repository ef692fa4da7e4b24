// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/mpi/group.hpp"
#include "profile/collective_log.hpp"
#include "tensor/tensor.hpp"

namespace shard8::comm {

std::uint64_t total_bytes(std::span<const tensor::Tensor> tensors);

/// What a call moves of one dtype.
struct DTypeBytes {
  std::string_view dtype;
  std::uint64_t bytes = 0;
};
/// Adds a tensor to `sizes`, a vector that begins empty and gets one entry for each dtype that has bytes, in the order
/// in which they come. If no tensor has bytes, it has one entry of 0 bytes with the first tensor's dtype.
template <class Sizes>
void add_bytes(Sizes& sizes, const tensor::Tensor& t) {
  const DTypeBytes more{name_of(t.dtype), t.bytes()};
  if (more.bytes == 0) {
    if (sizes.empty()) sizes.push_back(more);
    return;
  }
  if (sizes.size() == 1 && sizes.front().bytes == 0) sizes.clear();  // an entry of 0 bytes stands for none
  const auto found =
      std::find_if(sizes.begin(), sizes.end(), [&](const DTypeBytes& size) { return size.dtype == more.dtype; });
  if (found == sizes.end()) {
    sizes.push_back(more);
  } else {
    found->bytes += more.bytes;
  }
}
/// Adds all tensors of a call. A call of no tensors gets one entry of 0 bytes of the dtype "none".
template <class Sizes>
void add_all_bytes(Sizes& sizes, std::span<const tensor::Tensor> tensors) {
  for (const tensor::Tensor& t : tensors) add_bytes(sizes, t);
  if (sizes.empty()) sizes.push_back({"none", 0});
}

/// Tells the log's watcher of a call that is issued, once for each dtype, and the log's trace. Returns the trace's
/// handle of the call; 0: it is not traced.
std::uint64_t record_issue(const profile::CollectiveLog& log, profile::Collective op, const std::string& group,
                           int group_size, std::span<const DTypeBytes> sizes);
/// Records a call once for each dtype, with its share of the time by bytes.
void record_call(profile::CollectiveLog& log, profile::Collective op, const std::string& group, int group_size,
                 std::span<const DTypeBytes> sizes, double total_s, double exposed_s);

/// Each function throws Error(failed), which names the operation and the group: require_data for elements without
/// memory, require_rows for rows that do not divide by the ranks, require_summable for a dtype other than fp32 and
/// bf16, require_comparable for a dtype other than those and i32.
void require_data(const tensor::Tensor& t, const Group& group, std::string_view operation);
void require_rows(const tensor::Tensor& t, const Group& group, std::string_view operation);
void require_summable(const tensor::Tensor& t, const Group& group, std::string_view operation);
void require_comparable(const tensor::Tensor& t, const Group& group, std::string_view operation);
/// Throws Error(failed) unless the tensors of the item fit together, can be summed, and out has memory.
void require_item(const Communicator::ReduceScatterItem& item, const Group& group);

/// This rank's rows of a tensor that is gathered.
struct OwnRows {
  std::byte* place;       ///< where they belong in the whole
  const std::byte* data;  ///< where they are
  std::size_t bytes;

  bool elsewhere() const { return data != place; }
};

/// The own rows of tensor i of Communicator::all_gather_in_place(whole, own).
inline OwnRows own_rows(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own, std::size_t i,
                        int rank, int size) {
  const std::size_t bytes = whole[i].bytes() / static_cast<std::size_t>(size);
  std::byte* const place = whole[i].data + static_cast<std::size_t>(rank) * bytes;
  return {place, own.empty() || own[i].empty() ? place : own[i].data, bytes};
}

/// This rank's columns of a matrix that is gathered by columns (Communicator::all_gather_columns).
struct OwnColumns {
  std::byte* place;          ///< where the first row of them belongs in the whole
  const std::byte* data;     ///< where they are, row behind row
  std::size_t width, pitch;  ///< bytes of their rows, and from row to row of the whole
  std::size_t rows;
};

inline OwnColumns own_columns(const tensor::Tensor& whole, const tensor::Tensor& own, int rank) {
  const auto bytes = [](const tensor::Tensor& t) { return tensor::bytes_of(t.dtype, t.cols()); };
  const std::size_t width = bytes(own);
  return {whole.data + static_cast<std::size_t>(rank) * width, own.data, width, bytes(whole),
          static_cast<std::size_t>(own.rows())};
}

/// The rows of a reduce-scatter's whole that are summed on `rank`.
inline std::byte* rows_of(const Communicator::ReduceScatterItem& item, int rank) {
  return item.whole.data + static_cast<std::size_t>(rank) * item.out.bytes();
}

/// What this rank gives to one rank and gets from another in an all-to-all or a send_receive. If `to` is this rank, so
/// is `from`: the part is copied. The i-th part of every rank goes equally far: to − rank = rank − from (modulo the
/// ranks). `out` has as many bytes as the `in` of its sender.
struct PeerPart {
  int to = 0, from = 0;
  tensor::Tensor out = {}, in = {};
};

}  // namespace shard8::comm
