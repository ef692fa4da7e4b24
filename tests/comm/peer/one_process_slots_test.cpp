// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// One process plays all ranks of a group on one device, which push parts of different sizes to each other's slots.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/error.hpp"
#include "comm/peer/peer_memory.hpp"
#include "tests/comm/peer/one_process.hpp"

namespace shard8::comm::tests {
namespace {

using peer::SlotMemory;
using tensor::Tensor;

constexpr std::size_t kMost = 4000;  ///< bytes of a part, at most

/// Bytes that rank a sends to rank b, some of them 0.
std::size_t sent(int a, int b, int call) {
  return static_cast<std::size_t>((a * 977 + b * 353 + call * 131) % 3 == 0 ? 0
                                                                            : 1 + (a * 1301 + b * 411 + call) % 4000);
}

/// The ranks of a group, each with memory for `slots` peers, and tensors with a place of kMost bytes for each rank.
struct Exchangers {
  Exchangers(int size, int slots) {
    const auto n = static_cast<std::size_t>(size);
    const std::size_t bytes = static_cast<std::size_t>(slots) * 4096, all = PeerBlock::memory_bytes(bytes, size);
    std::vector<std::byte*> base;
    for (std::size_t r = 0; r < n; ++r) {
      base.push_back(memory.emplace_back(std::make_unique<Memory>(all))->data());
      in.push_back(std::make_unique<Memory>(n * kMost));
      out.push_back(std::make_unique<Memory>(n * kMost));
      Buffer values({static_cast<std::int64_t>(n * kMost)}, tensor::DType::u8);
      values.fill(static_cast<int>(r));
      SHARD8_CUDA_CHECK(cudaMemcpy(in[r]->data(), values.bytes().data(), n * kMost, cudaMemcpyHostToDevice));
      given.push_back(values.bytes());
    }
    for (int r = 0; r < size; ++r) {
      streams.push_back(std::make_unique<Stream>());
      slots_of.push_back(
          std::make_unique<SlotMemory>(std::make_shared<PeerAddresses>(r, base, all), bytes, streams.back()->get()));
    }
  }

  /// The part of rank r that goes `distance` ranks further.
  PeerPart part(int r, int distance, int call) const {
    const int n = static_cast<int>(in.size()), to = (r + distance) % n, from = (r - distance + n) % n;
    const auto of = [](const std::unique_ptr<Memory>& wholes, int place, std::size_t bytes) {
      return Tensor{wholes->data() + static_cast<std::size_t>(place) * kMost,
                    {static_cast<std::int64_t>(bytes)},
                    tensor::DType::u8};
    };
    const auto i = static_cast<std::size_t>(r);
    return {to, from, of(out[i], from, sent(from, r, call)), of(in[i], to, sent(r, to, call))};
  }

  /// What the part of rank `from` must be at rank r.
  std::vector<std::byte> expected(int from, int r, int call) const {
    const auto first = given[static_cast<std::size_t>(from)].begin() + r * static_cast<std::ptrdiff_t>(kMost);
    return {first, first + static_cast<std::ptrdiff_t>(sent(from, r, call))};
  }

  std::vector<std::unique_ptr<Memory>> memory, in, out;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<SlotMemory>> slots_of;
  std::vector<std::vector<std::byte>> given;
};

TEST(OneProcessSlots, parts_of_all_sizes_arrive) {
  for (const int size : {2, 3, 4, 8}) {
    Exchangers ranks(size, size - 1);
    for (int call = 0; call < 4; ++call) {
      const bool all = call != 2;  // the other calls go to the next rank alone
      for (int r = 0; r < size; ++r) {
        std::vector<PeerPart> parts;
        for (int k = 1; k <= (all ? size : 1); ++k) parts.push_back(ranks.part(r, k, call));
        ranks.slots_of[static_cast<std::size_t>(r)]->exchange(parts);
      }
      for (int r = 0; r < size; ++r) {
        for (int k = 1; k <= (all ? size : 1); ++k) {
          const PeerPart part = ranks.part(r, k, call);
          EXPECT_EQ(download(part.out.data, part.out.bytes()), ranks.expected(part.from, r, call))
              << size << " ranks, rank " << r << ", call " << call;
        }
      }
    }
  }
}

TEST(OneProcessSlots, a_part_that_does_not_fit_is_an_error) {
  Exchangers ranks(2, 1);
  PeerPart part = ranks.part(0, 1, 0);
  part.in.shape = {5000};
  EXPECT_THROW(ranks.slots_of[0]->require_room({&part, 1}), base::Error);
}

}  // namespace
}  // namespace shard8::comm::tests
