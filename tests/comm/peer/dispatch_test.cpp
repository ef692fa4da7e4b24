// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// One process plays all ranks of an expert group on one device. They dispatch rows to their experts through each
// other's memory, which send them back unchanged, with delays at random places of the ranks' streams. What has been
// read is overwritten at once.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "comm/peer/peer_memory.hpp"
#include "kernels/moe.hpp"
#include "tensor/runtime.hpp"
#include "tests/comm/peer/one_process.hpp"

namespace shard8::comm::tests {
namespace {

using kernels::MoeDispatch;
using kernels::RankAddresses;
using peer::PushedMemory;
using tensor::DType;
using tensor::Tensor;
using Ints = std::vector<std::int32_t>;
using PeersRead = Communicator::PeersRead;

constexpr int kCalls = 1000, kOfBatch = 20;  ///< dispatches; those between which the host does not wait for the device
constexpr int kInputs = 4;
constexpr std::int64_t kTokens = 90, kPerToken = 2, kPairs = kTokens * kPerToken, kLocal = 4, kMultiple = 16;
constexpr std::int64_t kHidden = 264, kRoundRows = 384;  ///< twice the mean
constexpr std::size_t kRowBytes = kHidden * 2;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// A tensor with memory of its own.
class Owned {
 public:
  Owned(const tensor::Shape& shape, DType dtype)
      : memory_(at(shape.count()) * size_of(dtype)), tensor_{memory_.data(), shape, dtype} {}
  template <class T>
  Owned(const tensor::Shape& shape, DType dtype, const std::vector<T>& elements) : Owned(shape, dtype) {
    SHARD8_CUDA_CHECK(cudaMemcpy(tensor_.data, elements.data(), tensor_.bytes(), cudaMemcpyHostToDevice));
  }
  operator const Tensor&() const { return tensor_; }  // NOLINT: passed to kernels as it is

 private:
  Memory memory_;
  Tensor tensor_;
};

/// What a rank dispatches, and on the host what must come back.
struct Input {
  std::unique_ptr<Owned> counts, source, tokens, values;
  std::vector<std::byte> rows, numbers;
};

/// Where things lie in the memory of each rank.
struct Layout {
  static constexpr std::size_t kNumbers = kRoundRows * kRowBytes, kReturned = kNumbers + kRoundRows * 4,
                               kReturnedNumbers = kReturned + kPairs * kRowBytes,
                               kBytes = kReturnedNumbers + kPairs * 4;
};

class Group {
 public:
  explicit Group(int size)
      : size_(size),
        n_(at(size)),
        rounds_((size * kPairs + kLocal * kMultiple) / kRoundRows + 1),
        seen_(kOfBatch * n_ * kSeen) {
    const std::size_t all = PeerBlock::memory_bytes(Layout::kBytes, size);
    std::vector<std::byte*> base;
    for (int r = 0; r < size; ++r) base.push_back(memory_.emplace_back(std::make_unique<Memory>(all))->data());
    for (int r = 0; r < size; ++r) {
      streams_.push_back(std::make_unique<Stream>());
      const cudaStream_t stream = streams_.back()->get();
      execs_.push_back(std::make_unique<tensor::StreamExec>(stream));
      ranks_.push_back(
          std::make_unique<PushedMemory>(std::make_shared<PeerAddresses>(r, base, all), Layout::kBytes, stream));
      first_.push_back(std::make_unique<Owned>(tensor::Shape{rounds_, kLocal}, DType::i32));
      rows_.push_back(std::make_unique<Owned>(tensor::Shape{rounds_, kLocal}, DType::i32));
      end_.push_back(std::make_unique<Owned>(tensor::Shape{rounds_}, DType::i32));
      table_.push_back(std::make_unique<Owned>(
          tensor::Shape{kernels::moe_dispatch_table_count(size, size * kLocal, rounds_)}, DType::i32));
    }
    std::mt19937 random(11);
    for (int i = 0; i < kInputs; ++i) make_input(i, random);
    load_kernels();
  }

  /// Rank r dispatches an input, in all rounds, and gets the rows back. In every round the other kind of push has come
  /// to its end since what is written was read, so no push must wait for peers that read.
  void dispatch(int r, int call, int input, Chance& chance) {
    const std::size_t rank = at(r);
    const cudaStream_t stream = streams_[rank]->get();
    const auto waits = [&] { return chance.below(3) == 0 ? PeersRead::waited_for : PeersRead::known; };
    const MoeDispatch with = dispatch_of(rank, input);
    kernels::moe_rounds(execs_[rank]->get(), with);
    for (std::int64_t k = 0; k < rounds_; ++k) {
      chance.delay(stream);
      ranks_[rank]->begin(waits());
      chance.delay(stream);
      send(rank, input, with, k);
      ranks_[rank]->end();
      chance.delay(stream);
      ranks_[rank]->begin(waits());
      chance.delay(stream);
      send_back(rank, with, k);
      poison(stream, ranks_[rank]->data(), Layout::kReturned);
      ranks_[rank]->end();
    }
    chance.delay(stream);
    std::byte* const returned = ranks_[rank]->data() + Layout::kReturned;
    copy(stream, seen_.data() + seen(call, r), returned, kSeen);
    poison(stream, returned, kSeen);
  }

  /// Checks what the ranks have got back in a batch, whose calls had these inputs.
  void expect(const std::vector<int>& inputs) const {
    const auto got = download(seen_.data(), seen(static_cast<int>(inputs.size()), 0));
    for (std::size_t call = 0; call < inputs.size(); ++call) {
      for (int r = 0; r < size_; ++r) {
        const Input& was = inputs_[at(inputs[call]) * n_ + at(r)];
        const std::byte* const rows = got.data() + seen(static_cast<int>(call), r);
        ASSERT_EQ(std::memcmp(rows, was.rows.data(), was.rows.size()), 0) << size_ << " ranks, rank " << r;
        ASSERT_EQ(std::memcmp(rows + kPairs * kRowBytes, was.numbers.data(), was.numbers.size()), 0)
            << size_ << " ranks, numbers of rank " << r;
      }
    }
  }

 private:
  static constexpr std::size_t kSeen = Layout::kBytes - Layout::kReturned;
  std::size_t seen(int call, int rank) const { return (at(call) * n_ + at(rank)) * kSeen; }

  void make_input(int number, std::mt19937& random) {
    const std::int64_t experts = size_ * kLocal;
    // Of input 0 experts are chosen alike; of others the lower ones more often, and of the last one rank 0 has all.
    const std::int64_t popular = number + 1 == kInputs ? kLocal : std::max<std::int64_t>(experts / (number + 1), 3);
    Ints counts(at(experts * size_));
    std::vector<Ints> sources;
    for (int r = 0; r < size_; ++r) {
      std::vector<std::pair<std::int64_t, std::int32_t>> pairs;
      for (std::int64_t t = 0; t < kTokens; ++t) {
        const auto expert = static_cast<std::int64_t>(random() % static_cast<unsigned>(popular));
        if (random() % 6 == 0) continue;  // padding
        for (std::int64_t k = 0; k < kPerToken; ++k)
          pairs.emplace_back((expert + k) % popular, static_cast<std::int32_t>(t * kPerToken + k));
      }
      std::ranges::sort(pairs);
      auto& source = sources.emplace_back();
      for (const auto& [expert, pair] : pairs) {
        ++counts[at(r * experts + expert)];
        source.push_back(pair);
      }
    }
    for (int r = 0; r < size_; ++r) {
      std::vector<std::byte> tokens(at(kTokens) * kRowBytes), values(at(kPairs) * 4);
      for (auto* bytes : {&tokens, &values})
        for (auto& byte : *bytes) byte = static_cast<std::byte>(random() % 255);
      Input& input = inputs_.emplace_back();
      input.rows.assign(at(kPairs) * kRowBytes, std::byte{0xff});
      input.numbers.assign(at(kPairs) * 4, std::byte{0xff});
      Ints& source = sources[at(r)];
      for (std::size_t p = 0; p < source.size(); ++p) {
        std::memcpy(input.rows.data() + p * kRowBytes, tokens.data() + at(source[p] / kPerToken) * kRowBytes,
                    kRowBytes);
        std::memcpy(input.numbers.data() + p * 4, values.data() + at(source[p]) * 4, 4);
      }
      source.resize(at(kPairs), -1);  // never read
      input.counts = std::make_unique<Owned>(tensor::Shape{size_, experts}, DType::i32, counts);
      input.source = std::make_unique<Owned>(tensor::Shape{kPairs}, DType::i32, source);
      input.tokens = std::make_unique<Owned>(tensor::Shape{kTokens, kHidden}, DType::bf16, tokens);
      input.values = std::make_unique<Owned>(tensor::Shape{kPairs}, DType::fp32, values);
    }
  }

  MoeDispatch dispatch_of(std::size_t rank, int input) const {
    return {*inputs_[at(input) * n_ + rank].counts,
            static_cast<int>(rank),
            kRoundRows,
            kMultiple,
            *first_[rank],
            *rows_[rank],
            *end_[rank],
            *table_[rank]};
  }
  RankAddresses addresses(std::size_t rank, std::size_t offset) const {
    RankAddresses all;
    for (int r = 0; r < size_; ++r) all.of[r] = ranks_[rank]->of(r) + offset;
    return all;
  }
  void send(std::size_t rank, int input, const MoeDispatch& with, std::int64_t k) const {
    const Input& own = inputs_[at(input) * n_ + rank];
    std::byte* const data = ranks_[rank]->data();
    for (const kernels::DispatchPart& part : parts_of(with, k))
      kernels::moe_push_rows(execs_[rank]->get(), addresses(rank, 0), addresses(rank, Layout::kNumbers), with, part,
                             *own.tokens, *own.source, *own.values);
    kernels::moe_zero_padding(execs_[rank]->get(), received(data), numbers(data), with, k);
  }
  void send_back(std::size_t rank, const MoeDispatch& with, std::int64_t k) const {
    std::byte* const data = ranks_[rank]->data();
    for (const kernels::DispatchPart& part : parts_of(with, k))
      kernels::moe_push_results(execs_[rank]->get(), addresses(rank, Layout::kReturned),
                                addresses(rank, Layout::kReturnedNumbers), with, part, received(data), numbers(data));
  }
  /// Every other round goes in two parts, one of them on a few multiprocessors.
  static std::vector<kernels::DispatchPart> parts_of(const MoeDispatch& with, std::int64_t k) {
    if (k % 2 == 0) return {kernels::DispatchPart::whole(with, k)};
    const std::int64_t half = with.local() / 2;
    return {{k, 0, half, 0}, {k, half, with.local() - half, 2}};
  }
  static Tensor received(std::byte* data) { return {data, {kRoundRows, kHidden}, DType::bf16}; }
  static Tensor numbers(std::byte* data) { return {data + Layout::kNumbers, {kRoundRows}, DType::fp32}; }

  /// CUDA must not load a kernel while a stream waits, nor Kokkos take memory for one. So each rank's instance runs all
  /// kernels once, without waiting.
  void load_kernels() {
    const Stream stream;
    Memory own(PeerBlock::memory_bytes(256, 1));
    PushedMemory alone(std::make_shared<PeerAddresses>(0, std::vector{own.data()}, PeerBlock::memory_bytes(256, 1)),
                       256, stream.get());
    for (const PeersRead peers_read : {PeersRead::waited_for, PeersRead::known}) {
      alone.begin(peers_read);
      alone.end();
    }
    for (std::size_t rank = 0; rank < n_; ++rank) {
      const MoeDispatch with = dispatch_of(rank, 0);
      kernels::moe_rounds(execs_[rank]->get(), with);
      for (std::int64_t k = 0; k < 2; ++k) {
        send(rank, 0, with, k);
        send_back(rank, with, k);
      }
      copy(streams_[rank]->get(), seen_.data(), ranks_[rank]->data(), 16);
      SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
    }
    for (const auto& rank : ranks_) poison(nullptr, rank->data(), Layout::kBytes);
    SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
  }

  int size_;
  std::size_t n_;
  std::int64_t rounds_;
  Memory seen_;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<tensor::StreamExec>> execs_;
  std::vector<std::unique_ptr<PushedMemory>> ranks_;
  std::vector<std::unique_ptr<Owned>> first_, rows_, end_, table_;
  std::vector<Input> inputs_;
};

TEST(DispatchRaces, of_all_ranks_to_all_experts) {
  for (const int size : {2, 4, 8}) {
    Chance chance;
    Group group(size);
    for (int batch = 0; batch < kCalls / kOfBatch; ++batch) {
      std::vector<int> inputs;
      for (int call = 0; call < kOfBatch; ++call) {
        const int input = inputs.emplace_back(chance.below(kInputs));
        for (const int r : chance.order(size)) group.dispatch(r, call, input, chance);
      }
      group.expect(inputs);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace shard8::comm::tests
