// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"

using namespace shard8;

namespace {

double entropy_of(deck::DataKind kind, const std::string& path, std::int64_t batch, std::int64_t seq,
                  std::int64_t vocab) {
  io::IoThread io;
  deck::DataConfig config;
  config.kind = kind;
  config.path = path;
  config.batch = batch;
  return data::unigram_entropy(*data::open_dataset(config, seq, vocab, io));
}

}  // namespace

TEST(Entropy, OfCounts) {
  const auto of = [](std::vector<std::uint64_t> counts) { return data::entropy_nats(counts); };
  EXPECT_DOUBLE_EQ(of({}), 0.0);
  EXPECT_DOUBLE_EQ(of({0, 9, 0}), 0.0);
  EXPECT_DOUBLE_EQ(of({5, 5}), std::log(2.0));
  EXPECT_DOUBLE_EQ(of({1, 0, 3}), -(0.25 * std::log(0.25) + 0.75 * std::log(0.75)));
  EXPECT_DOUBLE_EQ(of(std::vector<std::uint64_t>(50'000, 1'000'000'000'000)), std::log(50'000.0));
}

TEST(Entropy, OfAText) {
  const test::TempFolder folder;
  // Letters of abracadabra: a 5, b 2, r 2, c 1, d 1, together 11.
  test::write_bytes(folder / "text", "abracadabra");
  const auto term = [](double count) { return -count / 11.0 * std::log(count / 11.0); };
  EXPECT_NEAR(entropy_of(deck::DataKind::bytes, folder / "text", 1, 4, 256), term(5) + 2 * term(2) + 2 * term(1),
              1e-15);
}

TEST(Entropy, OfALongTextInPieces) {
  const test::TempFolder folder;
  std::string text(9'000'000, 'x');
  for (std::size_t i = 0; i < text.size(); i += 4) text[i] = '\xff';
  test::write_bytes(folder / "a", text);
  test::write_bytes(folder / "b", "\n");
  const double n = 9'000'001.0;
  const auto term = [n](double count) { return -count / n * std::log(count / n); };
  EXPECT_NEAR(entropy_of(deck::DataKind::bytes, folder.path(), 1, 4, 256), term(6'750'000) + term(2'250'000) + term(1),
              1e-14);
}

// The expected values are NumPy's -sum(p·ln p) over all tokens of tests/gold/*_tiny.h5.
TEST(Entropy, OfTheGold) {
  const std::string gold = SHARD8_SOURCE_DIR "/tests/gold/";
  EXPECT_NEAR(entropy_of(deck::DataKind::tokens, gold + "llama_tiny.h5:/tokens", 8, 32, 256), 4.939124931471237, 1e-13);
  EXPECT_NEAR(entropy_of(deck::DataKind::tokens, gold + "gpt2_tiny.h5:/tokens", 8, 32, 256), 4.845408257143507, 1e-13);
}

TEST(Entropy, OfSyntheticDataIsExact) {
  EXPECT_EQ(entropy_of(deck::DataKind::synthetic, "", 1, 4, 50'257), std::log(50'257.0));
}

TEST(Entropy, RefusesTokensOutsideTheVocabulary) {
  const std::string gold = SHARD8_SOURCE_DIR "/tests/gold/llama_tiny.h5:/tokens";
  test::expect_error([&] { entropy_of(deck::DataKind::tokens, gold, 8, 32, 255); }, base::ExitCode::failed,
                     {"slab 0, sequence", "token 255", "0 to 254"});
  const test::TempFolder folder;
  test::H5Writer writer(folder / "t.h5");
  writer.dataset<std::int32_t>("t", H5T_STD_I32LE, {4}, {1, 2, -3, 4});
  writer.close();
  test::expect_error([&] { entropy_of(deck::DataKind::tokens, folder / "t.h5:/t", 1, 3, 9); }, base::ExitCode::failed,
                     {"t.h5:/t': position 2: token -3"});
}
