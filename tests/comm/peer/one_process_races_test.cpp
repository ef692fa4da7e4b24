// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// One process plays all ranks of a group on one device, with delays at random places of their streams. What a rank
// pushed is replaced as soon as its stream may, and what it has read is overwritten at once: a rank that comes too
// early or too late finds or leaves other bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tests/comm/peer/one_process.hpp"

namespace shard8::comm::tests {
namespace {

constexpr int kPlayedCalls = 1000,
              kPlayedOfBatch = 20;  ///< calls; those between which the host does not wait for the device

enum class Gather { copied, rows_copied, returned, rows_returned, in_pieces };
bool by_rows(Gather kind) { return kind == Gather::rows_copied || kind == Gather::rows_returned; }

/// Ranks that gather parts of kBytes, a matrix of kRows rows.
struct Gathers {
  static constexpr std::size_t kRows = 61, kRowBytes = 1072, kBytes = kRows * kRowBytes;

  explicit Gathers(int size)
      : n(static_cast<std::size_t>(size)),
        ranks(size, kBytes * n),
        host(kPlayedOfBatch * n * kBytes),
        inputs(host.size()),
        seen(kPlayedOfBatch * n * n * kBytes) {
    std::mt19937 random(7);
    std::generate(host.begin(), host.end(), [&] { return static_cast<std::byte>(random() % 255); });
    SHARD8_CUDA_CHECK(cudaMemcpy(inputs.data(), host.data(), host.size(), cudaMemcpyHostToDevice));
    for (int r = 0; r < size; ++r) sources.push_back(std::make_unique<Memory>(kBytes));
    load_kernels();
  }
  std::byte* seen_by(int call, int rank) const {
    return seen.data() + (static_cast<std::size_t>(call) * n + static_cast<std::size_t>(rank)) * n * kBytes;
  }
  const std::byte* source(int r) const { return sources[static_cast<std::size_t>(r)]->data(); }
  /// Rank r has other bytes to push, of the `input`-th of kPlayedOfBatch.
  void renew(int r, int input) {
    const auto part = static_cast<std::size_t>(input) * n + static_cast<std::size_t>(r);
    copy(ranks.stream(r), sources[static_cast<std::size_t>(r)]->data(), inputs.data() + part * kBytes, kBytes);
  }

  void add(int r, int to, Gather kind) {
    const auto rank = static_cast<std::size_t>(r);
    if (by_rows(kind))
      ranks[r].add_rows(to, rank * kRowBytes, n * kRowBytes, source(r), kRowBytes, kRows);
    else
      ranks[r].add(to, rank * kBytes, source(r), kBytes);
  }
  void whole(int r, Gather kind) {
    const auto rank = static_cast<std::size_t>(r);
    const bool returned = kind == Gather::returned || kind == Gather::rows_returned;
    for (int k = 1; k < ranks.size() + (returned ? 0 : 1); ++k) add(r, ranks[r].peer(k), kind);
    if (kind == Gather::returned) ranks[r].add_return(rank * kBytes, kBytes);
    // One by one, which takes long: a peer that may use its memory too early overwrites the last ones.
    for (std::size_t row = 0; row < kRows && kind == Gather::rows_returned; ++row)
      ranks[r].add_return_of_rows((row * n + rank) * kRowBytes, n * kRowBytes, kRowBytes, 1);
    ranks[r].push();
  }
  /// The part of `from` in the memory of rank r is copied to `to`, and overwritten.
  void take(int r, int from, Gather kind, std::byte* to) {
    const cudaStream_t stream = ranks.stream(r);
    const auto part = static_cast<std::size_t>(from);
    if (by_rows(kind)) {
      std::byte* const at = ranks[r].data() + part * kRowBytes;
      SHARD8_CUDA_CHECK(cudaMemcpy2DAsync(to + part * kBytes, kRowBytes, at, n * kRowBytes, kRowBytes, kRows,
                                          cudaMemcpyDeviceToDevice, stream));
      SHARD8_CUDA_CHECK(cudaMemset2DAsync(at, n * kRowBytes, 0xff, kRowBytes, kRows, stream));
    } else {
      copy(stream, to + part * kBytes, ranks[r].data() + part * kBytes, kBytes);
      poison(stream, ranks[r].data() + part * kBytes, kBytes);
    }
  }
  /// Each piece is taken as soon as it was waited for.
  void in_pieces(int r, int pieces, Chance& chance, std::byte* to) {
    const cudaStream_t stream = ranks.stream(r);
    const auto first = [&](int piece) {
      return kRows * static_cast<std::size_t>(piece) / static_cast<std::size_t>(pieces) * kRowBytes;
    };
    const auto place = [](int of) { return static_cast<std::size_t>(of) * kBytes; };
    ranks[r].tell_ready();
    chance.delay(stream);
    ranks[r].await_ready();
    for (int k = 1; k < ranks.size(); ++k) {
      for (int i = 0; i < pieces; ++i) {
        chance.delay(stream);
        ranks[r].add(ranks[r].peer(k), place(r) + first(i), source(r) + first(i), first(i + 1) - first(i));
        ranks[r].push_to(ranks[r].peer(k), i);
      }
    }
    copy(stream, to + place(r), source(r), kBytes);
    for (int k = 1; k < ranks.size(); ++k) {
      const int from = (r - k + ranks.size()) % ranks.size();
      for (int i = 0; i < pieces; ++i) {
        ranks[r].await_part(from, i);
        chance.delay(stream);
        copy(stream, to + place(from) + first(i), ranks[r].data() + place(from) + first(i), first(i + 1) - first(i));
        poison(stream, ranks[r].data() + place(from) + first(i), first(i + 1) - first(i));
      }
    }
  }

  std::size_t n;
  Ranks ranks;
  std::vector<std::byte> host;
  Memory inputs, seen;
  std::vector<std::unique_ptr<Memory>> sources;

 private:
  /// Those that copy and overwrite within a rank.
  void load_kernels() {
    Ranks one(1, kBytes);
    one[0].add_rows(0, 0, kRowBytes, source(0), kRowBytes, kRows);
    one[0].push();
    one[0].add(0, 0, source(0), kBytes);
    one[0].push();
    for (const Gather kind : {Gather::copied, Gather::rows_copied}) take(0, 0, kind, seen.data());
    SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
  }
};

TEST(OneProcessRaces, of_gathers) {
  for (const int size : {2, 3, 4, 8}) {
    Chance chance;
    Gathers gathers(size);
    const std::size_t bytes = gathers.n * Gathers::kBytes;
    for (int batch = 0; batch < kPlayedCalls / kPlayedOfBatch; ++batch) {
      std::vector<Gather> kinds;
      std::vector<int> inputs;
      for (int call = 0; call < kPlayedOfBatch; ++call) {
        const Gather kind = kinds.emplace_back(static_cast<Gather>(chance.below(5)));
        const int input = inputs.emplace_back(chance.below(kPlayedOfBatch)), pieces = 1 + chance.below(3);
        for (const int r : chance.order(size)) {
          chance.delay(gathers.ranks.stream(r));
          gathers.renew(r, input);
          std::byte* const seen = gathers.seen_by(call, r);
          if (kind == Gather::in_pieces) {
            gathers.in_pieces(r, pieces, chance, seen);
            continue;
          }
          gathers.whole(r, kind);
          for (int k = 1; k <= size; ++k) {  // first the part of the rank whose first peer this one is
            chance.delay(gathers.ranks.stream(r));
            gathers.take(r, (r - k + size) % size, kind, seen);
          }
        }
      }
      const std::vector<std::byte> seen = download(gathers.seen.data(), kPlayedOfBatch * gathers.n * bytes);
      for (std::size_t i = 0; i < kPlayedOfBatch * gathers.n; ++i) {
        const std::size_t call = i / gathers.n;
        const std::byte* const expected = gathers.host.data() + static_cast<std::size_t>(inputs[call]) * bytes;
        ASSERT_EQ(std::memcmp(seen.data() + i * bytes, expected, bytes), 0)
            << size << " ranks, rank " << i % gathers.n << ", call " << batch * kPlayedOfBatch + static_cast<int>(call)
            << " of kind " << static_cast<int>(kinds[call]);
      }
    }
  }
}

enum class Scatter { whole, whole_left_to_reader, in_pieces, in_pieces_left_to_reader };

/// Ranks that sum kInputs inputs.
struct Sums {
  static constexpr int kInputs = 8;
  static constexpr std::int64_t kRows = Scatters::kRows;
  static constexpr std::size_t kBytes = kRows * sizeof(float);
  static constexpr std::size_t kPlace = (kBytes + 255) / 256 * 256;  ///< of a partial sum that was seen

  explicit Sums(int size)
      : n(static_cast<std::size_t>(size)),
        ranks(size),
        addends(size, kRows),
        inputs(kInputs * n * n * kPlace),
        seen(place(kPlayedOfBatch, 0)) {
    for (int input = 0; input < kInputs; ++input) {
      for (int r = 0; r < size; ++r) {
        Buffer whole(tensor::Shape{kRows * size}, tensor::DType::fp32);
        whole.fill(r, input);
        SHARD8_CUDA_CHECK(cudaMemcpy(of(input, static_cast<std::size_t>(r)), whole.bytes().data(), n * kBytes,
                                     cudaMemcpyHostToDevice));
        auto& sum = expected.emplace_back();
        for (std::int64_t i = 0; i < kRows; ++i) {
          float total = value(0, r * kRows + i, input);
          for (int from = 1; from < size; ++from) total += value(from, r * kRows + i, input);
          sum.push_back(total);
        }
      }
    }
    ranks.load_kernels();
    copy(nullptr, ranks.items[0].whole.data, of(0, 0), n * kBytes);  // loads a kernel
    SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
  }
  std::byte* of(int input, std::size_t r) const {
    return inputs.data() + (static_cast<std::size_t>(input) * n + r) * n * kPlace;
  }
  /// Where the partial sums that rank r sees in a call are copied to: of all ranks, and an addend.
  std::size_t place(int call, std::size_t r) const {
    return (static_cast<std::size_t>(call) * n + r) * (n + 1) * kPlace;
  }

  /// A call of rank r. Its partial sums, or their sum, are copied to seen, and overwritten. Returns how many there are.
  int reduce_scatter(int r, int call, int input, Scatter kind, bool adds, int pieces, Chance& chance) {
    const auto rank = static_cast<std::size_t>(r);
    const cudaStream_t stream = ranks.streams[rank]->get();
    peer::PushSums& memory = *ranks.sums[rank];
    Communicator::ReduceScatterItem item = ranks.items[rank];
    if (adds) item.addend = {const_cast<std::byte*>(addends.of(r)), {kRows}, tensor::DType::fp32};
    chance.delay(stream);
    copy(stream, item.whole.data, of(input, rank), n * kBytes);
    poison(stream, item.out.data, kBytes);
    tensor::PartialSums partial_sums = item.out;
    if (kind == Scatter::whole) {
      memory.reduce_scatter({&item, 1});
    } else if (kind == Scatter::whole_left_to_reader) {
      partial_sums = memory.push_partial_sums(item);
    } else {
      memory.begin(item);
      for (int k = 1; k <= ranks_count(); ++k) {
        for (std::int64_t i = 0; i < pieces; ++i) {
          chance.delay(stream);
          const std::int64_t first = kRows * i / pieces;
          memory.give((r + k) % ranks_count(), first, kRows * (i + 1) / pieces - first);
        }
      }
      chance.delay(stream);
      if (kind == Scatter::in_pieces)
        memory.finish();
      else
        partial_sums = memory.finish_partial_sums();
    }
    chance.delay(stream);
    for (int k = 0; k < partial_sums.count(); ++k)
      copy(stream, seen.data() + place(call, rank) + static_cast<std::size_t>(k) * kPlace, partial_sums[k].data,
           kBytes);
    poison(stream, memory.data(), Communicator::reduce_memory_bytes(kBytes, ranks_count()));
    return partial_sums.count();
  }
  int ranks_count() const { return static_cast<int>(n); }

  std::size_t n;
  Scatters ranks;
  Parts addends;
  Memory inputs, seen;
  std::vector<std::vector<float>> expected;  ///< of each input and rank, without the addend
};

TEST(OneProcessRaces, of_sums) {
  constexpr auto kRows = static_cast<std::size_t>(Sums::kRows);
  for (const int size : {2, 3, 4, 8}) {
    Chance chance;
    Sums sums(size);
    struct Call {
      int input;
      bool adds;
      std::vector<int> partial_sums;  ///< of each rank
    };
    for (int batch = 0; batch < kPlayedCalls / kPlayedOfBatch; ++batch) {
      std::vector<Call> calls;
      for (int call = 0; call < kPlayedOfBatch; ++call) {
        auto kind = static_cast<Scatter>(chance.below(4));
        const bool adds = chance.below(2) == 0 && kind != Scatter::whole_left_to_reader;
        if (size + (adds ? 1 : 0) > tensor::PartialSums::kMost) {
          if (kind == Scatter::whole_left_to_reader) kind = Scatter::whole;
          if (kind == Scatter::in_pieces_left_to_reader) kind = Scatter::in_pieces;
        }
        const int input = chance.below(Sums::kInputs), pieces = 1 + chance.below(3);
        Call& now = calls.emplace_back(Call{input, adds, std::vector<int>(sums.n)});
        for (const int r : chance.order(size))
          now.partial_sums[static_cast<std::size_t>(r)] =
              sums.reduce_scatter(r, call, input, kind, adds, pieces, chance);
      }
      const std::vector<std::byte> seen = download(sums.seen.data(), sums.place(kPlayedOfBatch, 0));
      for (int call = 0; call < kPlayedOfBatch; ++call) {
        const Call& was = calls[static_cast<std::size_t>(call)];
        for (std::size_t r = 0; r < sums.n; ++r) {
          std::vector<float> found(kRows), partial_sum(kRows);
          for (int k = 0; k < was.partial_sums[r]; ++k) {
            std::memcpy(partial_sum.data(),
                        seen.data() + sums.place(call, r) + static_cast<std::size_t>(k) * Sums::kPlace, Sums::kBytes);
            for (std::size_t i = 0; i < kRows; ++i) found[i] = k == 0 ? partial_sum[i] : found[i] + partial_sum[i];
          }
          std::vector<float> expected = sums.expected[static_cast<std::size_t>(was.input) * sums.n + r];
          for (std::size_t i = 0; i < kRows && was.adds; ++i)
            expected[i] += value(static_cast<int>(r), static_cast<std::int64_t>(i));
          ASSERT_EQ(std::memcmp(found.data(), expected.data(), Sums::kBytes), 0)
              << size << " ranks, rank " << r << ", call " << batch * kPlayedOfBatch + call << ", "
              << was.partial_sums[r] << " partial sums";
        }
      }
    }
  }
}

}  // namespace
}  // namespace shard8::comm::tests
