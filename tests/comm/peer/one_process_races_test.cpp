// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// One process plays all ranks of a group on one device, with delays at random places of their streams. What a rank
// pushed is replaced as soon as its stream may, and what it has read is overwritten at once: a rank that comes too
// early or too late finds or leaves other bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "tests/comm/peer/one_process_sums.hpp"

namespace shard8::comm::tests {
namespace {

constexpr int kCalls = 1000, kOfBatch = 20;  ///< calls; those between which the host does not wait for the device

/// Memory of the host that copy engines read and write while the host goes on.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes) {
    void* memory = nullptr;
    SHARD8_CUDA_CHECK(cudaMallocHost(&memory, bytes));
    data_ = static_cast<std::byte*>(memory);
  }
  ~PinnedMemory() { cudaFreeHost(data_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

void copy(cudaStream_t stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  SHARD8_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}
void poison(cudaStream_t stream, std::byte* memory, std::size_t bytes) {
  SHARD8_CUDA_CHECK(cudaMemsetAsync(memory, 0xff, bytes, stream));
}

/// What happens at random: the same in every run.
class Chance {
 public:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  /// Every fourth time the stream has something else to do, for up to some ten microseconds.
  void delay(cudaStream_t stream) {
    if (below(4) != 0) return;
    for (int i = below(6); i-- > 0;) poison(stream, busy_.data(), kBusy);
  }
  /// The ranks of a group, in the order in which the host gives them their calls.
  std::vector<int> order(int size) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::shuffle(ranks.begin(), ranks.end(), random_);
    return ranks;
  }

 private:
  static constexpr std::size_t kBusy = std::size_t{8} << 20;
  std::mt19937 random_;
  Memory busy_{kBusy};
};

enum class Gather { copied, rows_copied, returned, rows_returned, in_pieces };

/// Ranks that gather parts of kBytes, a matrix of kRows rows.
struct Gathers {
  static constexpr std::size_t kRows = 61, kRowBytes = 1072, kBytes = kRows * kRowBytes;

  explicit Gathers(int size)
      : n(static_cast<std::size_t>(size)),
        ranks(size, kBytes * n),
        inputs(kOfBatch * n * kBytes),
        seen(kOfBatch * n * n * kBytes) {
    std::mt19937 random(7);
    std::generate_n(inputs.data(), kOfBatch * n * kBytes, [&] { return static_cast<std::byte>(random() % 255); });
    for (int r = 0; r < size; ++r) sources.push_back(std::make_unique<Memory>(kBytes));
  }
  const std::byte* input(int row) const { return inputs.data() + static_cast<std::size_t>(row) * n * kBytes; }
  std::byte* seen_by(int call, int rank) const {
    return seen.data() + (static_cast<std::size_t>(call) * n + static_cast<std::size_t>(rank)) * n * kBytes;
  }

  void add(int r, int to, Gather kind) {
    const std::byte* from = sources[static_cast<std::size_t>(r)]->data();
    const auto rank = static_cast<std::size_t>(r);
    if (kind == Gather::rows_copied || kind == Gather::rows_returned)
      ranks[r].add_rows(to, rank * kRowBytes, n * kRowBytes, from, kRowBytes, kRows);
    else
      ranks[r].add(to, rank * kBytes, from, kBytes);
  }
  void whole(int r, Gather kind) {
    const auto rank = static_cast<std::size_t>(r);
    const bool returned = kind == Gather::returned || kind == Gather::rows_returned;
    for (int k = 1; k < ranks.size() + (returned ? 0 : 1); ++k) add(r, ranks[r].peer(k), kind);
    if (kind == Gather::returned) ranks[r].add_return(rank * kBytes, kBytes);
    if (kind == Gather::rows_returned) ranks[r].add_return_of_rows(rank * kRowBytes, n * kRowBytes, kRowBytes, kRows);
    ranks[r].push();
  }
  /// Each piece is copied to `to` as soon as it was waited for.
  void in_pieces(int r, int pieces, Chance& chance, std::byte* to) {
    const cudaStream_t stream = ranks.stream(r);
    const auto first = [&](int piece) {
      return kBytes * static_cast<std::size_t>(piece) / static_cast<unsigned>(pieces);
    };
    const auto place = [&](int of) { return static_cast<std::size_t>(of) * kBytes; };
    ranks[r].tell_ready();
    chance.delay(stream);
    ranks[r].await_ready();
    for (int k = 1; k < ranks.size(); ++k) {
      for (int i = 0; i < pieces; ++i) {
        chance.delay(stream);
        ranks[r].add(ranks[r].peer(k), place(r) + first(i), sources[static_cast<std::size_t>(r)]->data() + first(i),
                     first(i + 1) - first(i));
        ranks[r].push_to(ranks[r].peer(k), i);
      }
    }
    copy(stream, to + place(r), sources[static_cast<std::size_t>(r)]->data(), kBytes);
    for (int k = 1; k < ranks.size(); ++k) {
      const int from = (r - k + ranks.size()) % ranks.size();
      for (int i = 0; i < pieces; ++i) {
        ranks[r].await_part(from, i);
        chance.delay(stream);
        copy(stream, to + place(from) + first(i), ranks[r].data() + place(from) + first(i), first(i + 1) - first(i));
      }
    }
  }

  std::size_t n;
  Ranks ranks;
  PinnedMemory inputs, seen;
  std::vector<std::unique_ptr<Memory>> sources;
};

/// CUDA loads a kernel at its first launch, and must not do so while a stream waits.
void load_copies_within_a_rank() {
  Ranks one(1, Gathers::kBytes);
  const Memory from(Gathers::kBytes);
  for (const bool in_rows : {true, false}) {
    if (in_rows)
      one[0].add_rows(0, 0, Gathers::kRowBytes, from.data(), Gathers::kRowBytes, Gathers::kRows);
    else
      one[0].add(0, 0, from.data(), Gathers::kBytes);
    one[0].push();
  }
  poison(one.stream(0), one[0].data(), Gathers::kBytes);
  SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
}

TEST(OneProcessRaces, of_gathers) {
  load_copies_within_a_rank();
  for (const int size : {2, 3, 4, 8}) {
    Chance chance;
    for (int i = 0; i < 100; ++i) chance.delay(nullptr);  // loads the kernel
    Gathers gathers(size);
    auto& ranks = gathers.ranks;
    for (int batch = 0; batch < kCalls / kOfBatch; ++batch) {
      std::vector<Gather> kinds;
      std::vector<int> inputs;
      for (int call = 0; call < kOfBatch; ++call) {
        const auto kind = kinds.emplace_back(static_cast<Gather>(chance.below(5)));
        const std::byte* const input = gathers.input(inputs.emplace_back(chance.below(kOfBatch)));
        const int pieces = 1 + chance.below(3);
        for (const int r : chance.order(size)) {
          const cudaStream_t stream = ranks.stream(r);
          const auto rank = static_cast<std::size_t>(r);
          chance.delay(stream);
          copy(stream, gathers.sources[rank]->data(), input + rank * Gathers::kBytes, Gathers::kBytes);
          std::byte* const seen = gathers.seen_by(call, r);
          if (kind == Gather::in_pieces) {
            gathers.in_pieces(r, pieces, chance, seen);
          } else {
            gathers.whole(r, kind);
            chance.delay(stream);
            copy(stream, seen, ranks[r].data(), gathers.n * Gathers::kBytes);
          }
          poison(stream, ranks[r].data(), gathers.n * Gathers::kBytes);
        }
      }
      SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
      for (int call = 0; call < kOfBatch; ++call) {
        const Gather kind = kinds[static_cast<std::size_t>(call)];
        const std::byte* const input = gathers.input(inputs[static_cast<std::size_t>(call)]);
        std::vector<std::byte> expected(input, input + gathers.n * Gathers::kBytes);
        if (kind == Gather::rows_copied || kind == Gather::rows_returned)
          expected = side_by_side(expected, gathers.n, Gathers::kRowBytes);
        for (int r = 0; r < size; ++r)
          ASSERT_EQ(std::memcmp(gathers.seen_by(call, r), expected.data(), expected.size()), 0)
              << size << " ranks, rank " << r << ", call " << batch * kOfBatch + call << " of kind "
              << static_cast<int>(kind);
      }
    }
  }
}

enum class Scatter { summed, left_to_reader, in_pieces, in_pieces_left_to_reader };

TEST(OneProcessRaces, of_sums) {
  constexpr int kInputs = 4;
  constexpr std::int64_t kRows = Scatters::kRows;
  constexpr std::size_t kBytes = kRows * sizeof(float);
  for (const int size : {2, 3, 4, 8}) {
    const auto n = static_cast<std::size_t>(size);
    Chance chance;
    for (int i = 0; i < 100; ++i) chance.delay(nullptr);  // loads the kernel
    Scatters ranks(size);
    ranks.load_kernel();
    const Parts addends(size, kRows);
    const std::size_t received = Communicator::reduce_memory_bytes(kBytes, size);
    const PinnedMemory inputs(kInputs * n * n * kBytes), seen(kOfBatch * n * (n + 1) * kBytes);
    const auto input = [&](int salt, std::size_t r) {
      return inputs.data() + (static_cast<std::size_t>(salt) * n + r) * n * kBytes;
    };
    const auto seen_by = [&](int call, std::size_t r) {
      return seen.data() + (static_cast<std::size_t>(call) * n + r) * (n + 1) * kBytes;
    };
    std::vector<std::vector<float>> sums;  // of each input and rank
    for (int salt = 0; salt < kInputs; ++salt) {
      for (int r = 0; r < size; ++r) {
        Buffer whole(tensor::Shape{kRows * size}, tensor::DType::fp32);
        whole.fill(r, salt);
        std::memcpy(input(salt, static_cast<std::size_t>(r)), whole.bytes().data(), n * kBytes);
        auto& sum = sums.emplace_back();
        for (std::int64_t i = 0; i < kRows; ++i) {
          float total = value(0, r * kRows + i, salt);
          for (int from = 1; from < size; ++from) total += value(from, r * kRows + i, salt);
          sum.push_back(total);
        }
      }
    }
    struct Call {
      int salt;
      bool adds;
      std::vector<int> summands;  ///< of each rank
    };
    for (int batch = 0; batch < kCalls / kOfBatch; ++batch) {
      std::vector<Call> calls;
      for (int call = 0; call < kOfBatch; ++call) {
        auto kind = static_cast<Scatter>(chance.below(4));
        const bool in_pieces = kind == Scatter::in_pieces || kind == Scatter::in_pieces_left_to_reader;
        bool adds = chance.below(2) == 0 && kind != Scatter::left_to_reader;
        if (size + (adds ? 1 : 0) > tensor::Summands::kMost) kind = in_pieces ? Scatter::in_pieces : Scatter::summed;
        if (kind == Scatter::summed) adds = false;
        const int pieces = 1 + chance.below(3);
        Call& of = calls.emplace_back(Call{chance.below(kInputs), adds, std::vector<int>(n, 1)});
        for (const int r : chance.order(size)) {
          const auto rank = static_cast<std::size_t>(r);
          peer::PushSums& memory = *ranks.sums[rank];
          Communicator::ReduceScatterItem item = ranks.items[rank];
          if (adds) item.addend = {const_cast<std::byte*>(addends.of(r)), {kRows}, tensor::DType::fp32};
          const cudaStream_t stream = ranks.streams[rank]->get();
          chance.delay(stream);
          copy(stream, item.whole.data, input(of.salt, rank), n * kBytes);
          poison(stream, item.out.data, kBytes);
          tensor::Summands summands = item.out;
          if (kind == Scatter::summed) memory.reduce_scatter({&item, 1});
          if (kind == Scatter::left_to_reader) summands = memory.push_summands(item);
          if (in_pieces) {
            memory.begin(item);
            for (int k = 1; k <= size; ++k) {
              for (std::int64_t i = 0; i < pieces; ++i) {
                chance.delay(stream);
                const std::int64_t first = kRows * i / pieces;
                memory.give((r + k) % size, first, kRows * (i + 1) / pieces - first);
              }
            }
            chance.delay(stream);
            if (kind == Scatter::in_pieces)
              memory.finish();
            else
              summands = memory.finish_summands();
          }
          chance.delay(stream);
          of.summands[rank] = summands.count();
          for (int k = 0; k < summands.count(); ++k)
            copy(stream, seen_by(call, rank) + static_cast<std::size_t>(k) * kBytes, summands[k].data, kBytes);
          poison(stream, memory.data(), received);
        }
      }
      SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
      for (int call = 0; call < kOfBatch; ++call) {
        const Call& of = calls[static_cast<std::size_t>(call)];
        for (std::size_t r = 0; r < n; ++r) {
          std::vector<float> found(kRows), summand(kRows);
          for (int k = 0; k < of.summands[r]; ++k) {
            std::memcpy(summand.data(), seen_by(call, r) + static_cast<std::size_t>(k) * kBytes, kBytes);
            for (std::size_t i = 0; i < summand.size(); ++i) found[i] = k == 0 ? summand[i] : found[i] + summand[i];
          }
          std::vector<float> expected = sums[static_cast<std::size_t>(of.salt) * n + r];
          for (std::size_t i = 0; i < expected.size() && of.adds; ++i)
            expected[i] += value(static_cast<int>(r), static_cast<std::int64_t>(i));
          ASSERT_EQ(std::memcmp(found.data(), expected.data(), kBytes), 0)
              << size << " ranks, rank " << r << ", call " << batch * kOfBatch + call << ", " << of.summands[r]
              << " summands";
        }
      }
    }
  }
}

}  // namespace
}  // namespace shard8::comm::tests
