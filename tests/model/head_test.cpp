// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "model/linear.hpp"
#include "model/vocabulary.hpp"
#include "tests/model/module.hpp"

// How the head cuts its tokens, and that a direct gather of its input changes no bit.

namespace shard8 {
namespace {

using tensor::DType;
using tensor::Tensor;
using tests::Module;

constexpr int kRoot = 2;

int world_size() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

/// A model whose head has `rows` rows of the vocabulary on each rank, but for the last one, which has fewer.
deck::ModelConfig model_of(deck::Arch arch, std::int64_t rows, std::int64_t seq) {
  deck::ModelConfig config = tests::small_model(arch);
  config.hidden = config.ffn = 24;
  config.heads = config.kv_heads = 12;
  config.vocab = rows * world_size() - 1;
  config.seq = seq;
  return config;
}

/// Rows of a vocabulary of which the logits of `tokens` tokens fill the memory of a chunk on hosts.
std::int64_t rows_for(std::int64_t tokens) { return (std::int64_t{8} << 20) / tokens; }

struct Case {
  const char* name;
  std::int64_t rows, seq;
};

/// With 4 sequences, so that the ranks have `seq` tokens or a few more.
std::vector<Case> cases() {
  const std::int64_t local = 120 * 4 / world_size();
  return {{"all tokens in a chunk", 41, 6},
          {"chunks of one or several ranks", rows_for(local * std::max(1, world_size() - 1)), 120},
          {"chunks of a part of a rank's tokens", rows_for(local * 2 / 3), 120}};
}

TEST(HeadChunks, EachTokenOnce) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto dims = model::Dims::make(model_of(deck::Arch::llama, c.rows, c.seq), 4, world_size(), DType::fp32);
    const auto chunks = model::HeadChunks::make(dims);
    const std::int64_t local = dims.tokens_local();
    std::int64_t first = 0;
    for (; first < dims.tokens(); first += chunks.size(first)) {
      const std::int64_t n = chunks.size(first);
      ASSERT_GT(n, 0);
      ASSERT_LE(n, chunks.most);
      EXPECT_TRUE(n < local ? first / local == (first + n - 1) / local : first % local == 0 && n % local == 0)
          << n << " tokens from " << first << " on are not of whole ranks, nor of one rank";
      EXPECT_EQ(chunks.last(first), first + n == dims.tokens());
    }
    EXPECT_EQ(first, dims.tokens());
  }
  const auto size_of = [](const Case& c) {
    const auto dims = model::Dims::make(model_of(deck::Arch::llama, c.rows, c.seq), 4, world_size(), DType::fp32);
    return std::pair{model::HeadChunks::make(dims).most, dims.tokens_local()};
  };
  const auto [all, local] = size_of(cases()[0]);
  EXPECT_EQ(all, local * world_size());
  const auto [some, of_rank] = size_of(cases()[1]);
  EXPECT_EQ(some, of_rank * std::max(1, world_size() - 1));
  EXPECT_LT(some, of_rank * world_size());
  const auto [part, whole] = size_of(cases()[2]);
  EXPECT_EQ(part, whole / 2);
}

/// Of every rank of every group: own tokens first, each rank once, and as few calls as splits say.
TEST(Arrival, EachRankOnce) {
  for (int size = 2; size <= 9; ++size)
    for (int splits = 0; splits < size; ++splits)
      for (int ranks = 1; ranks <= size; ++ranks)
        for (int rank = 0; rank < size; ++rank) {
          SCOPED_TRACE(fmt::format("rank {} of {}, {} splits, of {} ranks", rank, size, splits, ranks));
          std::vector<int> read;
          int calls = 0;
          model::for_each_arrival(rank, size, splits, ranks, [&](int first, int count) {
            EXPECT_TRUE(splits > 0 || count == 1);
            for (int r = 0; r < count; ++r) read.push_back(first + r);
            ++calls;
          });
          EXPECT_TRUE(rank >= ranks || read.front() == rank);
          std::sort(read.begin(), read.end());
          ASSERT_EQ(static_cast<int>(read.size()), ranks);
          for (int r = 0; r < ranks; ++r) EXPECT_EQ(read[static_cast<std::size_t>(r)], r);
          const int groups = splits == 0 ? size - 1 : splits, ends = rank == 0 || rank == size - 1 ? 0 : 1;
          EXPECT_LE(calls, 1 + groups + ends);
          EXPECT_TRUE(ranks < size || ends > 0 || calls == 1 + groups) << calls << " calls";
        }
}

TEST(Departure, ChunksCoverEachTokenOnce) {
  for (const std::int64_t tokens : {1, 127, 128, 129, 1000, 8192})
    for (int chunks = 1; chunks <= 5; ++chunks) {
      SCOPED_TRACE(fmt::format("{} tokens in {} chunks", tokens, chunks));
      std::int64_t end = 0;
      int calls = 0;
      model::for_each_chunk_of_rank(tokens, chunks, [&](std::int64_t first, std::int64_t count) {
        EXPECT_EQ(first, end);
        EXPECT_EQ(first % 128, 0);
        EXPECT_GT(count, 0);
        end = first + count;
        ++calls;
      });
      EXPECT_EQ(end, tokens);
      EXPECT_LE(calls, chunks);
      EXPECT_TRUE(tokens < 8192 || calls == chunks) << calls << " calls";
    }
}

std::string bytes_of(const Tensor& t) { return {reinterpret_cast<const char*>(t.data), t.bytes()}; }

/// The bytes of everything that the head computes: loss, gradients of its input, its norm and its weight. Two
/// micro-batches, the second of which adds to the first.
std::string run(const deck::ModelConfig& config, DType compute, profile::ExchangeMethod method, bool in_window) {
  Module m(config, compute, 4, std::int64_t{160} << 20);
  const bool gpt2 = config.arch == deck::Arch::gpt2;
  model::Dims dims = m.dims;
  dims.overlap.methods[profile::Exchange::head_fprop] = method;
  const auto own = static_cast<std::size_t>(dims.tokens_local() * dims.hidden) * tensor::size_of(compute);
  const auto window = in_window ? m.group.parts_memory(own, 0) : nullptr;
  EXPECT_EQ(window != nullptr, in_window);
  const model::LossHead head(dims, m.rank());
  auto scratch = model::LossHead::allocate_scratch(dims, m.arena());
  const auto exchanged = model::LinearScratch::allocate_exchanged(dims, {}, m.arena());
  scratch.gathered = exchanged.gathered;
  scratch.partial = exchanged.partial;
  std::memset(scratch.gathered.data, 0xff, scratch.gathered.bytes());  // NaN
  const Tensor ids = m.arena().allocate({dims.tokens()}, DType::i32);
  const Tensor token_weights = m.arena().allocate({dims.tokens()}, DType::fp32);
  for (std::int64_t t = 0; t < dims.tokens(); ++t) {
    ids.as<std::int32_t>()[t] = static_cast<std::int32_t>(t * 37 % config.vocab);
    token_weights.as<float>()[t] = t % 5 == 0 ? 0.0F : 1.0F;
  }
  const auto w = m.weights(kRoot);
  const auto dw = m.gradients(kRoot);
  const Tensor none, dx = m.output(dims.tokens_local(), dims.hidden);
  double loss = 0;
  for (const bool second : {false, true}) {
    const Tensor x = m.put_tokens(m.random(dims.tokens(), dims.hidden, second ? 2 : 1));
    head.forward_backward(m.context, {reinterpret_cast<std::byte*>(&loss), {sizeof loss}, DType::u8}, dx,
                          {{dw[0], gpt2 ? dw[1] : none}, dw.back(), second}, x, {ids, token_weights},
                          {{w[0], gpt2 ? w[1] : none}, w.back()}, scratch, 0.25F);
  }
  EXPECT_TRUE(std::isfinite(loss));
  std::string bytes(reinterpret_cast<const char*>(&loss), sizeof loss);
  for (const Tensor& t : dw) bytes += bytes_of(t);
  return bytes + bytes_of(dx);
}

TEST(HeadInput, DirectAndRingChangeNoBit) {
  using Method = profile::ExchangeMethod;
  for (const Case& c : cases()) {
    for (const auto& [arch, compute] :
         {std::pair{deck::Arch::llama, DType::bf16}, std::pair{deck::Arch::gpt2, DType::fp32}}) {
      if (c.rows > 100 && arch == deck::Arch::gpt2) continue;  // the slow cases once
      SCOPED_TRACE(fmt::format("{}, {}", c.name, tensor::name_of(compute)));
      const auto config = model_of(arch, c.rows, c.seq);
      const std::string plain = run(config, compute, Method::off, false);
      EXPECT_TRUE(run(config, compute, Method::direct, false) == plain) << "by messages";
      EXPECT_TRUE(run(config, compute, Method::direct, true) == plain) << "in a window";
      if (!tensor::kDevice) {
        EXPECT_TRUE(run(config, compute, Method::ring, false) == plain) << "round a ring";
      }
    }
  }
}

}  // namespace
}  // namespace shard8
