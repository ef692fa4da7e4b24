// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>

#include "io/token_file.hpp"
#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"

using namespace shard8;

namespace {

const std::string kGold = SHARD8_SOURCE_DIR "/tests/gold/llama_tiny.h5:/tokens";

deck::DataConfig config(deck::DataKind kind, const std::string& path, std::int64_t batch, std::uint64_t seed = 1234) {
  deck::DataConfig out;
  out.kind = kind;
  out.path = path;
  out.batch = batch;
  out.seed = seed;
  return out;
}

std::vector<std::int32_t> read_from(const data::Dataset& dataset, std::int64_t first_sequence,
                                    const data::SequenceNumbers& numbers) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(numbers.count * (dataset.seq() + 1)));
  dataset.read(out, first_sequence, numbers);
  return out;
}

/// Sequences of a step of a training that begins with step 0 and keeps its batch.
std::vector<std::int32_t> read(const data::Dataset& dataset, std::int64_t step, const data::SequenceNumbers& numbers) {
  return read_from(dataset, step * dataset.batch(), numbers);
}

std::vector<std::int32_t> read_step(const data::Dataset& dataset, std::int64_t step) {
  return read(dataset, step, {0, dataset.batch(), 1});
}

/// Expects that each choice of sequences reads the same sequences as a read of the whole step.
void expect_sequences_agree(const data::Dataset& dataset, std::int64_t step) {
  const auto whole = read_step(dataset, step);
  const auto width = static_cast<std::size_t>(dataset.seq() + 1);
  for (const data::SequenceNumbers numbers :
       {data::SequenceNumbers{0, 1, 1}, {1, 2, 3}, {dataset.batch() - 1, 1, 9}, {2, 3, 1}, {0, 0, 1}}) {
    const auto part = read(dataset, step, numbers);
    for (std::int64_t k = 0; k < numbers.count; ++k) {
      const auto at = static_cast<std::size_t>(numbers.first + k * numbers.stride) * width;
      for (std::size_t t = 0; t < width; ++t) {
        ASSERT_EQ(part[static_cast<std::size_t>(k) * width + t], whole[at + t]);
      }
    }
  }
}

/// The samples of a step, for a stream of the tokens 0, 1, 2, ...: the first token tells the number of its sample.
std::vector<std::int64_t> samples_of_step(const data::Dataset& dataset, std::int64_t step) {
  const auto tokens = read_step(dataset, step);
  const auto width = static_cast<std::size_t>(dataset.seq() + 1);
  std::vector<std::int64_t> out;
  for (std::size_t at = 0; at < tokens.size(); at += width) {
    EXPECT_EQ(tokens[at] % dataset.seq(), 0);
    for (std::size_t t = 0; t < width; ++t) {
      EXPECT_EQ(tokens[at + t], tokens[at] + static_cast<std::int32_t>(t));
    }
    out.push_back(tokens[at] / dataset.seq());
  }
  return out;
}

/// Writes a file t.h5:/t with the tokens 0, 1, ..., length-1 and returns its path.
std::string counting_stream(const test::TempFolder& folder, std::int64_t length) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
  std::iota(tokens.begin(), tokens.end(), 0);
  test::H5Writer writer(folder / "t.h5");
  writer.dataset("t", H5T_STD_U32LE, {static_cast<hsize_t>(length)}, tokens);
  writer.close();
  return folder / "t.h5:/t";
}

}  // namespace

// Samples have seq + 1 tokens and overlap by one; tokens left over at the end are not used. A step of 7 samples does
// not divide an epoch of 33, so some steps span two epochs.
TEST(Stream, EverySampleOnceAnEpoch) {
  const test::TempFolder folder;
  io::IoThread io;
  constexpr std::int64_t kSeq = 3, kSamples = 33, kBatch = 7;
  for (const std::int64_t rest : {1, 2, 3}) {
    const auto path = counting_stream(folder, kSamples * kSeq + rest);
    const auto dataset = data::open_dataset(config(deck::DataKind::tokens, path, kBatch), kSeq, 1000, io);
    ASSERT_NE(dataset->description().find("33 samples of 3 tokens"), std::string::npos) << dataset->description();
    EXPECT_EQ(dataset->steps_available(), std::nullopt);
    std::vector<std::int64_t> seen;
    for (std::int64_t step = 0; step < kSamples; ++step) {  // kBatch epochs
      for (const auto sample : samples_of_step(*dataset, step)) seen.push_back(sample);
    }
    std::vector<std::vector<std::int64_t>> epochs;
    for (std::int64_t epoch = 0; epoch < kBatch; ++epoch) {
      epochs.emplace_back(seen.begin() + epoch * kSamples, seen.begin() + (epoch + 1) * kSamples);
      auto sorted = epochs.back();
      std::sort(sorted.begin(), sorted.end());
      for (std::int64_t i = 0; i < kSamples; ++i) {
        ASSERT_EQ(sorted[static_cast<std::size_t>(i)], i) << "epoch " << epoch;
      }
    }
    for (std::size_t i = 0; i < epochs.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) EXPECT_NE(epochs[i], epochs[j]);
    }
  }
}

TEST(Stream, OrderIsOneOfStepAndSeed) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto path = counting_stream(folder, 1001);
  const auto open = [&](std::int64_t batch, std::uint64_t seed) {
    return data::open_dataset(config(deck::DataKind::tokens, path, batch, seed), 4, 1001, io);
  };
  const auto reference = open(6, 3);
  expect_sequences_agree(*reference, 17);
  EXPECT_EQ(samples_of_step(*open(6, 3), 17), samples_of_step(*reference, 17));
  EXPECT_NE(samples_of_step(*open(6, 4), 17), samples_of_step(*reference, 17));
  // A larger batch takes longer pieces of the same sequence of samples.
  auto joined = samples_of_step(*reference, 34);
  for (const auto sample : samples_of_step(*reference, 35)) joined.push_back(sample);
  EXPECT_EQ(samples_of_step(*open(12, 3), 17), joined);
}

// A sequence depends on its number alone: which step it belongs to, and the batch, are of no influence.
TEST(Stream, StepsBeginAnywhere) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto path = counting_stream(folder, 301);
  for (const auto kind : {deck::DataKind::tokens, deck::DataKind::synthetic}) {
    const auto small = data::open_dataset(config(kind, path, 4), 3, 1000, io);
    const auto large = data::open_dataset(config(kind, path, 9), 3, 1000, io);
    for (const std::int64_t first : {0, 1, 5, 95, 99, 100, 12'345}) {
      const auto expected = read_from(*large, first, {0, 9, 1});
      for (std::int64_t k = 0; k < 9; ++k) {
        EXPECT_EQ(read_from(*small, first + k, {0, 1, 1}),
                  std::vector(expected.begin() + k * 4, expected.begin() + (k + 1) * 4));
      }
    }
    EXPECT_THROW(read_from(*small, -1, {1, 1, 1}), base::Error);
  }
}

TEST(Stream, BatchesLargerThanTheDataGoOn) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto path = counting_stream(folder, 9);  // two samples of four tokens
  const auto dataset = data::open_dataset(config(deck::DataKind::tokens, path, 8), 4, 9, io);
  const auto samples = samples_of_step(*dataset, 5);
  for (std::size_t i = 0; i < 8; i += 2) EXPECT_EQ(samples[i] + samples[i + 1], 1);
}

TEST(Stream, TooShortIsADeckError) {
  const test::TempFolder folder;
  io::IoThread io;
  test::write_bytes(folder / "empty", "");
  test::write_bytes(folder / "short", "12345678");
  const auto open = [&](deck::DataKind kind, const std::string& path, std::int64_t seq) {
    return [&io, kind, path, seq] { data::open_dataset(config(kind, path, 1), seq, 300, io); };
  };
  const auto code = base::ExitCode::deck;
  test::expect_error(open(deck::DataKind::bytes, folder / "empty", 8), code,
                     {"empty': holds 0 tokens", "needs at least seq+1 = 9", "model.seq = 8"});
  test::expect_error(open(deck::DataKind::bytes, folder / "short", 8), code,
                     {"short': holds 8 tokens", "needs at least seq+1 = 9"});
  open(deck::DataKind::bytes, folder / "short", 7)();
  test::expect_error(open(deck::DataKind::tokens, counting_stream(folder, 5), 5), code,
                     {"t.h5:/t': holds 5 tokens", "needs at least seq+1 = 6"});
  std::filesystem::create_directory(folder / "nothing");
  test::expect_error(open(deck::DataKind::bytes, folder / "nothing", 5), code, {"nothing': holds 0 tokens"});
}

TEST(Stream, TokensOutsideTheVocabulary) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto path = counting_stream(folder, 41);
  const auto dataset = data::open_dataset(config(deck::DataKind::tokens, path, 10), 4, 38, io);
  test::expect_error([&] { read_step(*dataset, 0); }, base::ExitCode::failed,
                     {"t.h5:/t': position 38: token 38 is outside the vocabulary", "0 to 37 (model.vocab = 38)"});
}

TEST(Bytes, FilesOfAFolderInBytewiseOrder) {
  const test::TempFolder folder;
  io::IoThread io;
  test::write_bytes(folder / "b", "5678");
  test::write_bytes(folder / "Z", "01");
  test::write_bytes(folder / "a", "");
  test::write_bytes(folder / "a0", "234");
  test::write_bytes(folder / "\xc3\xa4", "9\xff");
  test::write_bytes(folder / ".hidden", "no");
  const auto dataset = data::open_dataset(config(deck::DataKind::bytes, folder.path(), 1), 10, 256, io);
  const auto tokens = read_step(*dataset, 0);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 255}));
  EXPECT_NE(dataset->description().find("11 bytes in 5 files (1 empty), 1 samples of 10 tokens"), std::string::npos)
      << dataset->description();
  const auto listed =
      data::open_dataset(config(deck::DataKind::bytes, folder.path(), 1), 10, 256, io, dataset->listing());
  EXPECT_EQ(listed->description(), dataset->description());
  EXPECT_EQ(read_step(*listed, 0), tokens);
}

// A few files stay open; many files are opened for each read. Both must read the same tokens.
TEST(Bytes, ManyFilesReadAsOne) {
  const test::TempFolder many;
  const test::TempFolder one;
  io::IoThread io;
  std::string joined;
  for (int i = 0; i < 300; ++i) {
    const std::string text(static_cast<std::size_t>(i % 7), static_cast<char>(i));
    test::write_bytes(many / std::to_string(1000 + i), text);
    joined += text;
  }
  test::write_bytes(one / "text", joined);
  const auto open = [&](const std::string& path) {
    return data::open_dataset(config(deck::DataKind::bytes, path, 9), 20, 256, io);
  };
  const auto a = open(many.path());
  const auto b = open(one / "text");
  for (std::int64_t step = 0; step < 12; ++step) EXPECT_EQ(read_step(*a, step), read_step(*b, step));
  EXPECT_EQ(a->histogram(), b->histogram());
  expect_sequences_agree(*a, 3);
}

TEST(Bytes, CountsUntilItIsToldToEnd) {
  const test::TempFolder folder;
  io::IoThread io;
  constexpr std::size_t kBytes = std::size_t{9} << 20;  // three pieces
  test::write_bytes(folder / "text", std::string(kBytes, 'a'));
  const auto dataset = data::open_dataset(config(deck::DataKind::bytes, folder / "text", 9), 20, 256, io);
  int asked = 0;
  EXPECT_LT(dataset->histogram([&] { return ++asked < 2; })['a'], kBytes);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(dataset->histogram()['a'], kBytes);
}

TEST(Counted, EverythingOrAPieceOfEachStratum) {
  const auto pieces_of = [](std::int64_t total) {
    std::vector<std::pair<std::int64_t, std::int64_t>> pieces;
    data::for_counted(total, {}, [&](std::int64_t first, std::int64_t count) { pieces.emplace_back(first, count); });
    return pieces;
  };
  EXPECT_TRUE(pieces_of(0).empty());
  for (const std::int64_t total : {std::int64_t{1}, data::kMostCounted - 1, data::kMostCounted}) {
    std::int64_t next = 0;
    for (const auto& [first, count] : pieces_of(total)) {
      EXPECT_EQ(first, next);
      next += count;
    }
    EXPECT_EQ(next, total);
  }
  for (const std::int64_t total : {data::kMostCounted + 1, data::kMostCounted + 255, std::int64_t{3} << 40}) {
    const auto pieces = pieces_of(total);
    ASSERT_EQ(pieces.size(), 256u);
    std::int64_t sum = 0, next = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto [first, count] = pieces[i];
      EXPECT_GE(first, next) << "piece " << i << " of " << total;
      next = total / 256 * static_cast<std::int64_t>(i + 1) + std::min<std::int64_t>(i + 1, total % 256);
      EXPECT_LE(first + count, next) << "piece " << i << " of " << total;
      sum += count;
    }
    EXPECT_EQ(next, total);
    EXPECT_EQ(sum, data::kMostCounted);
    EXPECT_EQ(pieces_of(total), pieces);
  }
}

// Half of the text is one letter, half is two: a sample of pieces has them in the same shares.
TEST(Counted, ASampleHasTheSharesOfTheWhole) {
  const test::TempFolder folder;
  io::IoThread io;
  constexpr std::size_t kHalf = std::size_t{48} << 20;
  std::string text(kHalf, 'a');
  for (std::size_t i = 0; i < kHalf; ++i) text += i % 2 == 0 ? 'b' : 'c';
  test::write_bytes(folder / "text", text);
  const auto dataset = data::open_dataset(config(deck::DataKind::bytes, folder / "text", 9), 20, 256, io);
  EXPECT_EQ(dataset->countable(), static_cast<std::int64_t>(text.size()));
  const auto counts = dataset->histogram();
  EXPECT_EQ(counts['a'] + counts['b'] + counts['c'], static_cast<std::uint64_t>(data::kMostCounted));
  EXPECT_NEAR(data::entropy_nats(counts), 1.5 * std::log(2.0), 0.01);
}

TEST(Bytes, SaysWhatIsWrong) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto code = base::ExitCode::deck;
  const auto open = [&](const std::string& path, std::int64_t vocab) {
    data::open_dataset(config(deck::DataKind::bytes, path, 1), 2, vocab, io);
  };
  test::expect_error([&] { open(folder / "x", 255); }, code, {"model.vocab >= 256", "model.vocab = 255"});
  test::expect_error([&] { open(folder / "x", 256); }, code, {"x': cannot open", "No such file"});
  std::filesystem::create_directory(folder / "inner");
  test::expect_error([&] { open(folder.path(), 256); }, code, {"holds 'inner'", "without its subfolders"});
  std::filesystem::remove(folder / "inner");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  test::expect_error(
      [&] { open(folder.path(), 256); }, code,
      {"holds 'pipe', which is a FIFO, a socket or a device", "move it elsewhere, or give another folder"});
  std::filesystem::remove(folder / "pipe");
  test::write_bytes(folder / "text", "0123456789");
  const auto dataset = data::open_dataset(config(deck::DataKind::bytes, folder.path(), 5), 2, 256, io);
  std::filesystem::resize_file(folder / "text", 4);
  test::expect_error([&] { read_step(*dataset, 0); }, base::ExitCode::failed,
                     {"text': has 4 bytes, and had 10 when the run began"});
}

// Other ranks than the one that looked at a folder open the files that they read, and no others.
TEST(Bytes, ARankOpensTheFilesThatItReads) {
  const test::TempFolder folder;
  io::IoThread io;
  for (int i = 0; i < 200; ++i)
    test::write_bytes(folder / std::to_string(1000 + i), std::string(30, static_cast<char>(i)));
  test::write_bytes(folder / "a\nb", "0123456789");
  for (const bool few : {false, true}) {
    if (few)
      for (int i = 20; i < 200; ++i) std::filesystem::remove(folder / std::to_string(1000 + i));
    const auto looked = data::open_dataset(config(deck::DataKind::bytes, folder.path(), 1), 29, 256, io);
    const std::string listing = looked->listing();
    const auto told = data::open_dataset(config(deck::DataKind::bytes, folder.path(), 1), 29, 256, io, listing);
    EXPECT_EQ(told->description(), looked->description());
    EXPECT_EQ(told->listing(), listing);
    for (std::int64_t step = 0; step < 10; ++step) EXPECT_EQ(read_step(*told, step), read_step(*looked, step));
    const auto moved = folder / "moved";
    std::filesystem::rename(folder / "1005", moved);
    const auto late = data::open_dataset(config(deck::DataKind::bytes, folder.path(), 1), 29, 256, io, listing);
    int failed = 0;
    for (std::int64_t step = 0; step < 100; ++step) {
      try {
        read_step(*late, step);
      } catch (const base::Error& error) {
        EXPECT_NE(std::string(error.what()).find("1005'"), std::string::npos) << error.what();
        ++failed;
      }
    }
    EXPECT_GT(failed, 0);
    EXPECT_LT(failed, 50);
    std::filesystem::rename(moved, folder / "1005");
  }
}

TEST(Slabs, AreConsumedAsTheyAre) {
  io::IoThread io;
  const io::TokenFile file(io, kGold);
  const auto dataset = data::open_dataset(config(deck::DataKind::tokens, kGold, 8), 32, 256, io);
  EXPECT_EQ(dataset->steps_available(), 20);
  EXPECT_NE(dataset->description().find("20 slabs of 8 sequences"), std::string::npos) << dataset->description();
  for (const std::int64_t step : {0, 7, 19}) {
    std::vector<std::int32_t> slab(8 * 33);
    const std::vector<io::Range> ranges = {{step, 1, 1}, {0, 8, 1}, {0, 33, 1}};
    file.read(slab, ranges);
    EXPECT_EQ(read_step(*dataset, step), slab);
    expect_sequences_agree(*dataset, step);
  }
}

TEST(Slabs, SayWhatIsWrong) {
  io::IoThread io;
  const auto code = base::ExitCode::deck;
  const auto open = [&](std::int64_t batch, std::int64_t seq, std::int64_t vocab) {
    return data::open_dataset(config(deck::DataKind::tokens, kGold, batch), seq, vocab, io);
  };
  test::expect_error([&] { open(4, 32, 256); }, code,
                     {"shape (20, 8, 33)", "slabs of 8 sequences of 33 tokens", "data.batch = 4",
                      "set data.batch = 8 and model.seq = 32"});
  test::expect_error([&] { open(8, 33, 256); }, code, {"model.seq + 1 = 34"});
  test::expect_error([&] { read_step(*open(8, 32, 256), 20); }, base::ExitCode::failed,
                     {"needs slab 20", "there are 20 slabs", "run.steps"});
  const auto gold = open(8, 32, 256);
  EXPECT_EQ(read_from(*gold, 16, {1, 3, 2}), read(*gold, 2, {1, 3, 2}));
  for (const std::int64_t first : {1, 7, 20, 8 * 20 + 4}) {
    test::expect_error(
        [&] {
          read_from(*gold, first, {0, 1, 1});
        },
        base::ExitCode::failed, {"sequence " + std::to_string(first), "inside a slab of 8 sequences", "data.batch"});
  }
  EXPECT_THROW(read_from(*gold, -8, {0, 1, 1}), base::Error);
  const auto small = open(8, 32, 255);
  std::string message;
  for (std::int64_t step = 0; step < 20 && message.empty(); ++step) {
    try {
      read(*small, step, {1, 3, 2});
    } catch (const base::Error& error) {
      message = error.what();
      // The position in the message is that of the token.
      long s = -1, b = -1, t = -1;
      const auto at = message.find("slab ");
      ASSERT_EQ(std::sscanf(message.c_str() + at, "slab %ld, sequence %ld, position %ld", &s, &b, &t), 3) << message;
      const auto slab = read_step(*open(8, 32, 256), s);
      EXPECT_EQ(s, step);
      EXPECT_EQ(b % 2, 1);
      EXPECT_EQ(slab[static_cast<std::size_t>(b * 33 + t)], 255);
    }
  }
  EXPECT_NE(message.find("token 255 is outside"), std::string::npos) << message;

  const test::TempFolder folder;
  test::H5Writer writer(folder / "t.h5");
  writer.dataset<std::int32_t>("flat", H5T_STD_I32LE, {2, 2}, {1, 2, 3, 4});
  writer.close();
  test::expect_error([&] { data::open_dataset(config(deck::DataKind::tokens, folder / "t.h5:/flat", 1), 1, 9, io); },
                     code, {"has 2 dimensions (shape (2, 2))", "one (a stream", "three"});
}

TEST(Synthetic, IsUniformAndNeverRepeats) {
  io::IoThread io;
  constexpr std::int64_t kVocab = 11, kSeq = 99, kBatch = 10, kSteps = 20;
  const auto dataset = data::open_dataset(config(deck::DataKind::synthetic, "", kBatch), kSeq, kVocab, io);
  EXPECT_EQ(dataset->steps_available(), std::nullopt);
  expect_sequences_agree(*dataset, 3);
  std::vector<double> counts(kVocab);
  std::map<std::vector<std::int32_t>, int> sequences;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const auto tokens = read_step(*dataset, step);
    for (const auto token : tokens) {
      ASSERT_GE(token, 0);
      ASSERT_LT(token, kVocab);
      ++counts[static_cast<std::size_t>(token)];
    }
    for (auto at = tokens.begin(); at != tokens.end(); at += kSeq + 1) {
      ++sequences[std::vector(at, at + kSeq + 1)];
    }
  }
  EXPECT_EQ(sequences.size(), static_cast<std::size_t>(kBatch * kSteps));
  // Chi-square of 10 degrees of freedom: above 36 with a probability of 1e-4.
  constexpr double kExpected = kSteps * kBatch * (kSeq + 1) / double{kVocab};
  double chi = 0.0;
  for (const auto count : counts) chi += (count - kExpected) * (count - kExpected) / kExpected;
  EXPECT_LT(chi, 36.0);
}

TEST(Synthetic, DependsOnTheSeedAndReachesTheWholeVocabulary) {
  io::IoThread io;
  const auto open = [&](std::uint64_t seed, std::int64_t vocab) {
    return data::open_dataset(config(deck::DataKind::synthetic, "", 4, seed), 8, vocab, io);
  };
  EXPECT_EQ(read_step(*open(1, 1000), 5), read_step(*open(1, 1000), 5));
  EXPECT_NE(read_step(*open(1, 1000), 5), read_step(*open(2, 1000), 5));
  for (const auto token : read_step(*open(1, 1), 0)) EXPECT_EQ(token, 0);
  std::int32_t largest = 0;
  for (std::int64_t step = 0; step < 50; ++step) {
    for (const auto token : read_step(*open(1, 128'256), step)) largest = std::max(largest, token);
  }
  EXPECT_GT(largest, 127'000);
  EXPECT_LT(largest, 128'256);
}
