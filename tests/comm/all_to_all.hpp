// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/comm/buffer.hpp"

namespace shard8::comm::tests {

/// Rows that rank a of a group sends to rank b.
using Counts = std::int64_t (*)(int a, int b);
inline std::int64_t equal_counts(int, int) { return 40; }
inline std::int64_t unequal_counts(int a, int b) { return (a * 7 + b * 13) % 5 == 0 ? 0 : 20 * a + 7 * b + 1; }
/// Only rank 0 gets something.
inline std::int64_t counts_to_one(int a, int b) { return b == 0 ? 20 * a + 4 : 0; }
inline std::int64_t counts_of_none(int, int) { return 0; }

inline constexpr Counts kCounts[] = {&equal_counts, &unequal_counts, &counts_to_one};
inline constexpr tensor::DType kExchanged[] = {tensor::DType::fp32, tensor::DType::bf16, tensor::DType::e4m3,
                                               tensor::DType::e5m2, tensor::DType::i32,  tensor::DType::e8m0};

/// One item of an all-to-all of `group`, whose ranks are those of `comm`, with the data of this rank on the host.
struct AllToAll {
  AllToAll(const Communicator& group, tensor::DType dtype, std::int64_t width, Counts counts, int salt,
           MPI_Comm comm = MPI_COMM_WORLD)
      : in({0}, dtype), out({0}, dtype), width_(width), comm_(comm) {
    std::int64_t given = 0, got = 0;
    for (int r = 0; r < group.size(); ++r) {
      send_rows.push_back(counts(group.rank(), r));
      receive_rows.push_back(counts(r, group.rank()));
      given += send_rows.back();
      got += receive_rows.back();
    }
    in = Buffer({given, width}, dtype);
    in.fill(group.rank(), salt);
    out = Buffer({got, width}, dtype);
  }
  Communicator::AllToAllItem item() { return {out.tensor(), in.tensor(), receive_rows, send_rows}; }

  /// What plain MPI makes of `in`.
  std::vector<std::byte> expected() const {
    const auto layout = [&](const std::vector<std::int64_t>& rows) {
      std::vector<int> counts, first;
      int next = 0;
      for (const std::int64_t n : rows) {
        first.push_back(next);
        counts.push_back(static_cast<int>(n * width_) * static_cast<int>(size_of(in.dtype())));
        next += counts.back();
      }
      return std::pair{counts, first};
    };
    const auto [send, send_first] = layout(send_rows);
    const auto [receive, receive_first] = layout(receive_rows);
    std::vector<std::byte> got(out.bytes().size());
    MPI_Alltoallv(in.bytes().data(), send.data(), send_first.data(), MPI_BYTE, got.data(), receive.data(),
                  receive_first.data(), MPI_BYTE, comm_);
    return got;
  }

  Buffer in, out;
  std::vector<std::int64_t> send_rows, receive_rows;

 private:
  std::int64_t width_;
  MPI_Comm comm_;
};

/// One item of a send_receive over all ranks in the order of the world. Ranks send different numbers of rows; rank 1
/// sends none.
struct Shift {
  Shift(const Communicator& group, tensor::DType dtype, int distance, int salt)
      : in({0}, dtype), out({0}, dtype), to_(wrapped(group, distance)), from_(wrapped(group, -distance)) {
    const auto rows = [](int rank) { return rank == 1 ? 0 : std::int64_t{300} * (rank + 1); };
    in = Buffer({rows(group.rank()), 5}, dtype);
    in.fill(group.rank(), salt);
    out = Buffer({rows(from_), 5}, dtype);
  }

  Communicator::SendReceiveItem item() { return {out.tensor(), in.tensor()}; }

  std::vector<std::byte> expected() const {
    std::vector<std::byte> got(out.bytes().size());
    MPI_Sendrecv(in.bytes().data(), static_cast<int>(in.bytes().size()), MPI_BYTE, to_, 0, got.data(),
                 static_cast<int>(got.size()), MPI_BYTE, from_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return got;
  }

  Buffer in, out;

 private:
  static int wrapped(const Communicator& group, int distance) {
    return ((group.rank() + distance) % group.size() + group.size()) % group.size();
  }
  int to_, from_;
};

}  // namespace shard8::comm::tests
