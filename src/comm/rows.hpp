// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "comm/communicator.hpp"
#include "tensor/tensor.hpp"

/// Which rows of a whole tensor belong to which rank.

namespace shard8::comm {

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
