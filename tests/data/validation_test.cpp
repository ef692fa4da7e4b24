// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "data/batch.hpp"
#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"

using namespace shard8;

namespace {

using data::Part;

constexpr std::int64_t kSeq = 4, kSamples = 23;

deck::DataConfig of(deck::DataKind kind, const std::string& path, std::int64_t batch, double validation) {
  deck::DataConfig config;
  config.kind = kind;
  config.path = path;
  config.batch = batch;
  config.validation = validation;
  return config;
}

/// The data below: token i of a stream is i.
std::vector<std::int32_t> ascending(std::int64_t count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i);
  return tokens;
}

std::string write_stream(const test::TempFolder& folder, const char* name, std::int64_t samples) {
  test::H5Writer file(folder / name);
  file.dataset("tokens", H5T_STD_I32LE, {static_cast<hsize_t>(samples * kSeq + 1)}, ascending(samples * kSeq + 1));
  file.close();
  return (folder / name) + ":/tokens";
}

/// The first tokens of the sequences of `steps` steps, from the loaders of all data ranks; padding is left out.
std::vector<std::int32_t> first_tokens(const deck::DataConfig& config, Part part, std::int64_t vocab,
                                       std::int64_t ranks, std::int64_t steps) {
  io::IoThread io;
  std::vector<std::int32_t> found;
  std::vector<std::unique_ptr<data::Loader>> loaders;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    loaders.push_back(std::make_unique<data::Loader>(config, kSeq, vocab, ranks, rank, io, "", part));
  for (std::int64_t step = 0; step < steps; ++step) {
    std::int64_t real = 0;
    for (const auto& loader : loaders) {
      EXPECT_LE(loader->micro_batches_in(step), loader->micro_batches());
      for (std::int64_t m = 0; m < loader->micro_batches(); ++m) {
        const data::MicroBatch batch = loader->get(step, m);
        EXPECT_TRUE(m < loader->micro_batches_in(step) || batch.sequences == 0);
        for (std::int64_t s = 0; s < loader->micro_batch(); ++s) {
          const auto at = static_cast<std::size_t>(s * kSeq);
          EXPECT_EQ(batch.weights[at], s < batch.sequences ? 1.0f : 0.0f);
          if (s < batch.sequences) found.push_back(batch.tokens[at]);
        }
        real += batch.sequences;
      }
    }
    EXPECT_EQ(real, loaders.front()->sequences_in(step));
  }
  return found;
}

std::set<std::int32_t> set_of(const std::vector<std::int32_t>& values) { return {values.begin(), values.end()}; }

}  // namespace

TEST(Validation, TheShareThatAnErrorAdvisesIsAccepted) {
  const test::TempFolder folder;
  io::IoThread io;
  for (const std::int64_t samples : {2, 3, 7, 62, 1000}) {
    const std::string path = write_stream(folder, (std::to_string(samples) + ".h5").c_str(), samples);
    deck::DataConfig config = of(deck::DataKind::tokens, path, 1, 0.9999999);
    try {
      data::open_dataset(config, kSeq, 1 << 20, io);
      ADD_FAILURE() << samples;
    } catch (const base::Error& error) {
      const std::string what = error.what(), before = "set data.validation to at most ";
      const auto at = what.find(before);
      ASSERT_NE(at, std::string::npos) << what;
      config.validation = std::stod(what.substr(at + before.size()));
    }
    EXPECT_EQ(data::open_dataset(config, kSeq, 1 << 20, io, {}, Part::validation)->sequences(), samples - 1);
  }
}

TEST(Validation, TheShareIsRoundedUp) {
  const auto kept = [](std::int64_t total, double share) { return data::divide(total, share).validation; };
  EXPECT_EQ(kept(100, 0), 0);
  EXPECT_EQ(kept(100, 0.07), 7);  // 0.07 * 100 is 7.000000000000001 in doubles
  EXPECT_EQ(kept(100, 0.071), 8);
  EXPECT_EQ(kept(100, 1e-9), 1);
  EXPECT_EQ(kept(1000000007, 0.1), 100000001);
  EXPECT_EQ(kept(3, 1), 3);
  EXPECT_EQ(data::divide(23, 0.2).training, 18);
}

TEST(Validation, NoSampleOfAStreamIsBothTrainedAndValidated) {
  const test::TempFolder folder;
  const std::string stream = write_stream(folder, "stream.h5", kSamples);
  for (const double share : {0.01, 0.2, 0.5, 0.95}) {
    for (const std::int64_t ranks : {1, 3}) {
      deck::DataConfig config = of(deck::DataKind::tokens, stream, 5, share);
      config.micro_batch = 1;
      const auto [training, validation] = data::divide(kSamples, share);
      const std::int64_t batches = (validation + 4) / 5;
      const auto trained = set_of(first_tokens(config, Part::training, 1000, ranks, 40));
      const auto validated = first_tokens(config, Part::validation, 1000, ranks, batches);
      EXPECT_EQ(static_cast<std::int64_t>(trained.size()), training);
      EXPECT_EQ(static_cast<std::int64_t>(validated.size()), validation);
      for (const std::int32_t token : trained) EXPECT_LT(token, training * kSeq);
      const auto all = set_of(validated);
      EXPECT_EQ(*all.begin(), training * kSeq);
      EXPECT_EQ(*all.rbegin(), (kSamples - 1) * kSeq);
      EXPECT_TRUE(ranks > 1 || std::is_sorted(validated.begin(), validated.end()));
    }
  }
}

TEST(Validation, TheLastSlabsAreKept) {
  const test::TempFolder folder;
  test::H5Writer file(folder / "slabs.h5");
  file.dataset("tokens", H5T_STD_I32LE, {10, 3, kSeq + 1}, ascending(10 * 3 * (kSeq + 1)));
  file.close();
  const deck::DataConfig config = of(deck::DataKind::tokens, (folder / "slabs.h5") + ":/tokens", 3, 0.25);
  io::IoThread io;
  EXPECT_EQ(data::open_dataset(config, kSeq, 1000, io)->steps_available(), 7);
  EXPECT_EQ(data::open_dataset(config, kSeq, 1000, io, "", Part::validation)->steps_available(), 3);
  const auto trained = first_tokens(config, Part::training, 1000, 1, 7);
  const auto validated = first_tokens(config, Part::validation, 1000, 1, 3);
  EXPECT_EQ(trained.back(), 20 * (kSeq + 1));
  EXPECT_EQ(validated.front(), 21 * (kSeq + 1));
  EXPECT_EQ(validated.back(), 29 * (kSeq + 1));
}

TEST(Validation, TextAndAPathOfItsOwn) {
  const test::TempFolder folder;
  test::write_bytes(folder / "training", std::string(81, 'a'));
  test::write_bytes(folder / "validation", std::string(29, 'b'));
  deck::DataConfig config = of(deck::DataKind::bytes, folder / "training", 3, 0);
  config.validation_path = folder / "validation";
  EXPECT_EQ(set_of(first_tokens(config, Part::training, 256, 1, 10)), std::set<std::int32_t>{'a'});
  EXPECT_EQ(first_tokens(config, Part::validation, 256, 2, 3), std::vector<std::int32_t>(7, 'b'));
  io::IoThread io;
  EXPECT_EQ(data::open_dataset(config, kSeq, 256, io, "", Part::validation)->sequences(), 7);
}

TEST(Validation, AShortPathOfItsOwnIsNoFaultOfTraining) {
  const test::TempFolder folder;
  test::write_bytes(folder / "training", std::string(81, 'a'));
  test::write_bytes(folder / "validation", "");
  deck::DataConfig config = of(deck::DataKind::bytes, folder / "training", 3, 0);
  config.validation_path = folder / "validation";
  io::IoThread io;
  test::expect_error(
      [&] { data::open_dataset(config, kSeq, 256, io, "", Part::validation); }, base::ExitCode::deck,
      {"holds 0 tokens, but validation needs at least seq+1 = 5", "give more data in data.validation_path"});
}

// The losses of a training are judged by the entropy of what it trains on.
TEST(Validation, TokensOfTheTrainingAreCounted) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto count = [&](const deck::DataConfig& config, Part part = Part::training) {
    std::uint64_t sum = 0;
    const auto dataset = data::open_dataset(config, kSeq, 1000, io, "", part);
    for (const std::uint64_t n : dataset->histogram()) sum += n;
    return sum;
  };
  const std::string stream = write_stream(folder, "stream.h5", 20);
  test::write_bytes(folder / "text", std::string(60, 'a') + std::string(21, 'b'));
  test::H5Writer file(folder / "slabs.h5");
  file.dataset("tokens", H5T_STD_I32LE, {10, 3, kSeq + 1}, ascending(10 * 3 * (kSeq + 1)));
  file.close();
  EXPECT_EQ(count(of(deck::DataKind::tokens, stream, 3, 0)), 81u);
  EXPECT_EQ(count(of(deck::DataKind::tokens, stream, 3, 0.25)), 61u);  // 15 samples, and the target of the last token
  const deck::DataConfig text = of(deck::DataKind::bytes, folder / "text", 3, 0.25);
  EXPECT_EQ(count(of(deck::DataKind::bytes, folder / "text", 3, 0)), 81u);
  EXPECT_EQ(count(text), 61u);
  EXPECT_EQ(data::open_dataset(text, kSeq, 1000, io)->histogram()['b'], 1u);
  const std::string slabs = (folder / "slabs.h5") + ":/tokens";
  EXPECT_EQ(count(of(deck::DataKind::tokens, slabs, 3, 0)), 150u);
  EXPECT_EQ(count(of(deck::DataKind::tokens, slabs, 3, 0.3)), 105u);
  EXPECT_EQ(count(of(deck::DataKind::tokens, slabs, 3, 0.3), Part::validation), 150u);
}

TEST(Validation, SyntheticTokensAreOthers) {
  const deck::DataConfig config = of(deck::DataKind::synthetic, "", 50, 0.5);
  const auto trained = first_tokens(config, Part::training, 1 << 30, 1, 20);
  const auto validated = first_tokens(config, Part::validation, 1 << 30, 1, 20);
  EXPECT_EQ(trained.size(), 1000u);
  auto both = set_of(trained);
  for (const std::int32_t token : validated) EXPECT_FALSE(both.contains(token));
  EXPECT_EQ(set_of(validated), set_of(first_tokens(config, Part::validation, 1 << 30, 4, 20)));
}

TEST(Validation, NothingLeftToTrain) {
  const test::TempFolder folder;
  const deck::DataConfig config = of(deck::DataKind::tokens, write_stream(folder, "short.h5", 3), 1, 0.9);
  io::IoThread io;
  try {
    data::open_dataset(config, kSeq, 1000, io);
    FAIL() << "accepted";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::deck);
    EXPECT_NE(std::string(error.what()).find("ceil(0.9 * 3) = 3 of 3 samples"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("at most 0.666666"), std::string::npos) << error.what();
  }
}
