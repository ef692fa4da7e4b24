// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "data/dataset.hpp"
#include "data/dataset_kinds.hpp"
#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"

using namespace shard8;

namespace {

std::vector<std::int64_t> order(std::int64_t size, std::uint64_t seed, std::uint64_t epoch) {
  const data::Permutation permutation(size, seed, epoch);
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < size; ++i) out.push_back(permutation(i));
  return out;
}

}  // namespace

TEST(Permutation, IsABijection) {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 100, 1000, 1024, 4097, 65536, 65537}) {
    std::vector<int> hits(static_cast<std::size_t>(size));
    for (const auto to : order(size, 99, 2)) {
      ASSERT_GE(to, 0) << size;
      ASSERT_LT(to, size) << size;
      ++hits[static_cast<std::size_t>(to)];
    }
    for (const auto count : hits) ASSERT_EQ(count, 1) << size;
  }
}

TEST(Permutation, StaysInsideHugeSizes) {
  for (const std::int64_t size : {(std::int64_t{1} << 40) + 1, std::int64_t{1} << 62, INT64_MAX}) {
    const data::Permutation permutation(size, 1, 0);
    for (const std::int64_t i : {std::int64_t{0}, size / 2, size - 1}) {
      EXPECT_GE(permutation(i), 0);
      EXPECT_LT(permutation(i), size);
    }
  }
}

TEST(Permutation, DependsOnSeedAndEpochAlone) {
  const auto reference = order(1000, 5, 7);
  EXPECT_EQ(order(1000, 5, 7), reference);
  for (std::uint64_t other = 0; other < 20; ++other) {
    if (other != 7) {
      EXPECT_NE(order(1000, 5, other), reference) << other;
    }
    if (other != 5) {
      EXPECT_NE(order(1000, other, 7), reference) << other;
    }
  }
  EXPECT_NE(order(1000, 7, 5), reference);
}

// The image of an element is uniform over epochs. A chi-square of 15 degrees of freedom is above 45 with a
// probability of 1e-4; seed and epochs are fixed, so the test always computes the same values.
TEST(Permutation, ShufflesEvenly) {
  constexpr int kCells = 16, kDraws = 16'000;
  for (const std::int64_t from : {0, 1, 500, 999}) {
    std::vector<double> cells(kCells);
    for (std::uint64_t epoch = 0; epoch < kDraws; ++epoch) {
      const auto to = data::Permutation(1000, 3, epoch)(from);
      ++cells[static_cast<std::size_t>(to * kCells / 1000)];
    }
    double chi = 0.0;
    for (int cell = 0; cell < kCells; ++cell) {
      // 1000 values do not divide evenly into 16 cells.
      const int values = ((cell + 1) * 1000 + kCells - 1) / kCells - (cell * 1000 + kCells - 1) / kCells;
      const double expected = kDraws * values / 1000.0;
      const double difference = cells[static_cast<std::size_t>(cell)] - expected;
      chi += difference * difference / expected;
    }
    EXPECT_LT(chi, 45.0) << from;
  }
}

// The expected values come from the same formulas written in Python. A change of them would silently change the order
// of samples in every run.
TEST(Permutation, StaysWhatItWas) {
  EXPECT_EQ(order(10, 1234, 0), (std::vector<std::int64_t>{4, 2, 7, 8, 1, 5, 6, 3, 9, 0}));
  EXPECT_EQ(order(10, 1234, 1), (std::vector<std::int64_t>{2, 5, 7, 9, 6, 1, 0, 4, 8, 3}));
  const auto thousand = order(1000, 7, 3);
  EXPECT_EQ(std::vector(thousand.begin(), thousand.begin() + 8),
            (std::vector<std::int64_t>{117, 668, 222, 263, 422, 14, 317, 374}));
}

TEST(Permutation, RefusesWhatIsOutside) {
  EXPECT_THROW(data::Permutation(0, 1, 1), base::Error);
  EXPECT_THROW(data::Permutation(5, 1, 1)(5), base::Error);
  EXPECT_THROW(data::Permutation(5, 1, 1)(-1), base::Error);
}

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
