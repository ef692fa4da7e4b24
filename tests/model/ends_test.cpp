// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/linear.hpp"
#include "model/vocabulary.hpp"
#include "tests/model/module.hpp"
#include "tests/model/reference/reference.hpp"
#include "tests/support/compare.hpp"

// Embedding and head, which are sharded over the vocabulary.

namespace shard8 {
namespace {

using tensor::DType;
using tensor::Tensor;
using tests::Matrix;
using tests::Module;
using tests::Setting;

constexpr int kEmbedding = 0, kRoot = 2;

/// Tokens of the whole vocabulary: the first and the last of every rank's range for 1, 2 and 4 ranks, repeated tokens,
/// and tokens spread over the vocabulary.
std::vector<std::int32_t> tokens_of(const Module& m) {
  const auto vocab = static_cast<std::int32_t>(m.model.vocab);
  std::vector<std::int32_t> tokens{0, vocab - 1, 0};
  for (const std::int32_t ranks : {2, 4})
    for (std::int32_t r = 1; r < ranks; ++r)
      for (const std::int32_t at : {-1, 0})
        tokens.push_back(std::min(vocab - 1, r * ((vocab + ranks - 1) / ranks) + at));
  for (std::int32_t t = 0; static_cast<std::int64_t>(tokens.size()) < m.dims.tokens(); ++t)
    tokens.push_back((t * 37 + 11) % vocab);
  tokens.resize(static_cast<std::size_t>(m.dims.tokens()));
  return tokens;
}

Tensor put_tokens_i32(Module& m, const std::vector<std::int32_t>& tokens) {
  const Tensor t = m.arena().allocate({static_cast<std::int64_t>(tokens.size())}, DType::i32);
  std::memcpy(t.data, tokens.data(), t.bytes());
  return t;
}

void run_embedding(const Setting& setting, std::int64_t vocab) {
  auto config = tests::small_model(setting.arch);
  config.vocab = vocab;
  Module m(config, setting.compute);
  const bool gpt2 = setting.arch == deck::Arch::gpt2;
  const auto tokens = tokens_of(m);
  tests::reference::Graph graph;
  const auto leaves = leaves_of(graph, m, kEmbedding);
  auto y = tests::reference::embedding(graph, leaves[0], tokens);
  if (gpt2) y = tests::reference::positions(graph, y, leaves[1], m.model.seq);
  const Matrix dy = m.random(y->value.rows, y->value.cols, 2);
  graph.backward(y, dy);

  const auto w = m.weights(kEmbedding);
  const auto dw = m.gradients(kEmbedding);
  const auto bind = [&](const std::vector<Tensor>& t) {
    return model::Embedding::Weights{t[0], gpt2 ? t[1] : Tensor{}};
  };
  const model::Embedding module(m.dims, m.rank());
  const model::Embedding::Scratch scratch{m.output(m.dims.tokens(), m.dims.hidden)};
  const Tensor ids = put_tokens_i32(m, tokens), x = m.output(m.dims.tokens_local(), m.dims.hidden);
  module.forward(m.context, x, ids, bind(w), scratch);
  m.expect_close("x", m.whole_tokens(x), y->value);
  module.backward(m.context, bind(dw), m.put_tokens(dy), ids, scratch);
  m.expect_gradients(kEmbedding, dw, leaves);
}

/// `accumulate`: the head's gradient is added to.
void run_head(const Setting& setting, const deck::ModelConfig& config, bool accumulate,
              std::int64_t arena_bytes = std::int64_t{4} << 20) {
  Module m(config, setting.compute, 4, arena_bytes);
  const bool gpt2 = setting.arch == deck::Arch::gpt2;
  const auto targets = tokens_of(m);
  std::vector<double> weights(targets.size(), 1);
  for (std::size_t i = 0; i < weights.size(); i += 5) weights[i] = 0;  // padding
  const double scale = 0.25;
  tests::reference::Graph graph;
  const auto leaves = leaves_of(graph, m, kRoot);
  const auto x = graph.leaf(m.random(m.dims.tokens(), m.dims.hidden, 1));
  const tests::reference::Affine norm{leaves[0], gpt2 ? leaves[1] : nullptr};
  const auto y = tests::reference::head_loss(graph, tests::reference::norm(graph, m.model, x, norm), leaves.back(),
                                             targets, weights);
  graph.backward(y, Matrix(1, 1, scale));

  const auto w = m.weights(kRoot);
  const auto dw = m.gradients(kRoot);
  if (accumulate) std::memset(dw.back().data, 0, dw.back().bytes());
  const model::LossHead module(m.dims, m.rank());
  auto scratch = model::LossHead::allocate_scratch(m.dims, m.arena());
  const auto exchanged = model::LinearScratch::allocate_exchanged(m.dims, {}, m.arena());
  scratch.gathered = exchanged.gathered;
  scratch.partial = exchanged.partial;
  const Tensor ids = put_tokens_i32(m, targets), my_x = m.put_tokens(x->value);
  const Tensor token_weights = m.arena().allocate({m.dims.tokens()}, DType::fp32);
  for (std::size_t i = 0; i < weights.size(); ++i) token_weights.as<float>()[i] = static_cast<float>(weights[i]);
  const Tensor dx = m.output(m.dims.tokens_local(), m.dims.hidden);
  const Tensor none;
  double loss = 0;
  module.forward_backward(m.context, {reinterpret_cast<std::byte*>(&loss), {sizeof loss}, DType::u8}, dx,
                          {{dw[0], gpt2 ? dw[1] : none}, dw.back(), accumulate}, my_x, {ids, token_weights},
                          {{w[0], gpt2 ? w[1] : none}, w.back()}, scratch, static_cast<float>(scale));
  // Logits are fp32 with both compute types; with bf16 the normed input is rounded before.
  EXPECT_NEAR(loss, y->value(0, 0), (setting.compute == DType::bf16 ? 1e-3 : 2e-7) * y->value(0, 0));
  std::array<double, 2> ends{loss, -loss};
  MPI_Allreduce(MPI_IN_PLACE, ends.data(), 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  EXPECT_EQ(ends[0], -ends[1]) << "the loss differs between tensor ranks";
  m.expect_close("dx", m.whole_tokens(dx), x->gradient);
  m.expect_gradients(kRoot, dw, leaves);
}

TEST(Embedding, CutOverAVocabularyThatDoesNotDivide) {
  for (const Setting& setting : tests::settings()) {
    SCOPED_TRACE(name_of(setting));
    run_embedding(setting, 257);
  }
}

// Nine rows on four ranks: three for each of the first three, none for the last.
TEST(Embedding, ARankWithoutRows) {
  for (const Setting& setting : tests::settings()) {
    SCOPED_TRACE(name_of(setting));
    run_embedding(setting, 9);
  }
}

TEST(LossHead, CutOverAVocabularyThatDoesNotDivide) {
  for (const Setting& setting : tests::settings()) {
    SCOPED_TRACE(name_of(setting));
    run_head(setting, tests::small_model(setting.arch), false);
    run_head(setting, tests::small_model(setting.arch), true);
  }
}

TEST(LossHead, ARankWithoutRows) {
  for (const Setting& setting : tests::settings()) {
    SCOPED_TRACE(name_of(setting));
    auto config = tests::small_model(setting.arch);
    config.vocab = 9;
    run_head(setting, config, false);
  }
}

// So many tokens and rows that the head computes several chunks; the last one is short with one rank and with four.
TEST(LossHead, InSeveralChunks) {
  auto config = tests::small_model(deck::Arch::llama);
  config.hidden = 8;
  config.heads = config.kv_heads = 4;
  config.seq = 512;
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  config.vocab = 4100 * ranks + 1;
  const auto dims = model::Dims::make(config, 4, ranks, DType::fp32);
  const auto chunks = model::HeadChunks::make(dims);
  ASSERT_LT(chunks.most, dims.tokens());
  ASSERT_EQ(dims.tokens() % chunks.most == 0, ranks == 2);
  run_head({}, config, false, std::int64_t{48} << 20);
}

}  // namespace
}  // namespace shard8
