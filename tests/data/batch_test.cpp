// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "data/batch.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"

using namespace shard8;

namespace {

const std::string kGold = SHARD8_SOURCE_DIR "/tests/gold/llama_tiny.h5:/tokens";

struct Source {
  deck::DataConfig config;
  std::int64_t seq = 0;
  std::int64_t vocab = 0;
};

Source synthetic(std::int64_t batch) {
  Source out;
  out.config.kind = deck::DataKind::synthetic;
  out.config.batch = batch;
  out.seq = 5;
  out.vocab = 1000;
  return out;
}

Source gold() {
  Source out;
  out.config.kind = deck::DataKind::tokens;
  out.config.path = kGold;
  out.config.batch = 8;
  out.seq = 32;
  out.vocab = 256;
  return out;
}

Source text(const test::TempFolder& folder, std::int64_t batch) {
  Source out;
  std::string bytes(1000, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  test::write_bytes(folder / "text", bytes);
  out.config.kind = deck::DataKind::bytes;
  out.config.path = folder / "text";
  out.config.batch = batch;
  out.seq = 13;
  out.vocab = 256;
  return out;
}

/// The sequences that all data ranks load for a step, in the order of the batch: (batch, seq + 1). Checks shapes,
/// targets, weights and padding of each micro-batch.
std::vector<std::int32_t> gather_step(const Source& source, std::int64_t data_ranks, std::int64_t micro_batch,
                                      std::int64_t step, io::IoThread& io) {
  const auto batch = source.config.batch;
  const auto seq = static_cast<std::size_t>(source.seq);
  std::vector<std::int32_t> out(static_cast<std::size_t>(batch) * (seq + 1), -1);
  std::int64_t count = -1;
  for (std::int64_t p = 0; p < data_ranks; ++p) {
    auto config = source.config;
    config.micro_batch = micro_batch;
    data::Loader loader(config, source.seq, source.vocab, data_ranks, p, io);
    const auto mb = loader.micro_batch();
    if (micro_batch > 0) {
      EXPECT_EQ(mb, micro_batch);
    }
    if (count < 0) count = loader.micro_batches();
    EXPECT_EQ(loader.micro_batches(), count) << "the same on every rank";
    EXPECT_EQ(count, (batch + data_ranks * mb - 1) / (data_ranks * mb));
    EXPECT_EQ(loader.tokens_per_step(), batch * source.seq);
    for (std::int64_t j = 0; j < count; ++j) {
      const auto part = loader.get(step, j);
      const auto size = static_cast<std::size_t>(mb) * seq;
      EXPECT_EQ(part.tokens.size(), size);
      EXPECT_EQ(part.targets.size(), size);
      EXPECT_EQ(part.weights.size(), size);
      for (std::int64_t k = 0; k < mb; ++k) {
        const std::int64_t number = p + (j * mb + k) * data_ranks;
        const bool real = number < batch;
        EXPECT_EQ(real, k < part.sequences);
        for (std::size_t t = 0; t < seq; ++t) {
          const auto at = static_cast<std::size_t>(k) * seq + t;
          EXPECT_EQ(part.weights[at], real ? 1.0f : 0.0f);
          if (!real) {
            EXPECT_EQ(part.tokens[at], 0);
            EXPECT_EQ(part.targets[at], 0);
            continue;
          }
          if (t + 1 < seq) {
            EXPECT_EQ(part.targets[at], part.tokens[at + 1]);
          }
          auto* const sequence = out.data() + static_cast<std::size_t>(number) * (seq + 1);
          EXPECT_TRUE(sequence[t] == -1 || sequence[t] == part.tokens[at]) << "read twice";
          sequence[t] = part.tokens[at];
          sequence[t + 1] = part.targets[at];
        }
      }
    }
  }
  return out;
}

}  // namespace

TEST(Loader, AStepIsTheSameForAnyRanksAndMicroBatch) {
  const test::TempFolder folder;
  io::IoThread io;
  for (const auto& source : {synthetic(7), gold(), text(folder, 6), text(folder, 1)}) {
    const auto dataset = data::open_dataset(source.config, source.seq, source.vocab, io);
    for (const std::int64_t step : {0, 4, 19}) {
      const auto batch = source.config.batch;
      std::vector<std::int32_t> expected(static_cast<std::size_t>(batch * (source.seq + 1)));
      dataset->read(expected, step * batch, {0, batch, 1});
      for (const std::int64_t data_ranks : {1, 2, 3, 5, 9}) {
        for (const std::int64_t micro_batch : {0, 1, 2, 3, 8}) {
          ASSERT_EQ(gather_step(source, data_ranks, micro_batch, step, io), expected)
              << "P " << data_ranks << ", micro_batch " << micro_batch << ", step " << step;
        }
      }
    }
  }
}

TEST(Loader, PadsWithWeightZero) {
  io::IoThread io;
  auto source = synthetic(5);
  source.config.micro_batch = 2;
  // Rank 0 of 2: samples 0, 2, 4; rank 1: 1, 3. Both run two micro-batches of two.
  data::Loader first(source.config, source.seq, source.vocab, 2, 0, io);
  data::Loader second(source.config, source.seq, source.vocab, 2, 1, io);
  const auto sum = [](const data::MicroBatch& part) {
    return std::accumulate(part.weights.begin(), part.weights.end(), 0.0f);
  };
  EXPECT_EQ(sum(first.get(0, 0)), 10.0f);
  EXPECT_EQ(sum(first.get(0, 1)), 5.0f);
  EXPECT_EQ(first.get(0, 1).sequences, 1);
  EXPECT_EQ(sum(second.get(0, 0)), 10.0f);
  EXPECT_EQ(sum(second.get(0, 1)), 0.0f);
  EXPECT_EQ(second.get(0, 1).sequences, 0);
  // More ranks than samples: the last rank has padding alone.
  source.config.micro_batch = 0;
  data::Loader idle(source.config, source.seq, source.vocab, 8, 7, io);
  EXPECT_EQ(idle.micro_batch(), 1);
  EXPECT_EQ(idle.micro_batches(), 1);
  EXPECT_EQ(sum(idle.get(0, 0)), 0.0f);
}

TEST(Loader, StepsInAnyOrder) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto source = text(folder, 4);
  const auto fresh = [&](std::int64_t step) {
    data::Loader loader(source.config, source.seq, source.vocab, 1, 0, io);
    const auto part = loader.get(step, 0);
    return std::vector(part.tokens.begin(), part.tokens.end());
  };
  data::Loader loader(source.config, source.seq, source.vocab, 1, 0, io);
  for (const std::int64_t step : {0, 1, 2, 2, 7, 8, 3, 0, 1'000'000, 1'000'001}) {
    const auto part = loader.get(step, 0);
    EXPECT_EQ(std::vector(part.tokens.begin(), part.tokens.end()), fresh(step)) << step;
  }
}

// The file is emptied after step 0 was loaded: a loader that has read step 1 ahead does not notice.
TEST(Loader, ReadsTheNextStepAhead) {
  const test::TempFolder folder;
  io::IoThread io;
  auto source = text(folder, 4);
  data::Loader loader(source.config, source.seq, source.vocab, 1, 0, io);
  data::Loader untouched(source.config, source.seq, source.vocab, 1, 0, io);
  loader.get(0, 0);
  io.call([] {});  // everything queued before this has run
  std::filesystem::resize_file(folder / "text", 0);
  const auto ahead = loader.get(1, 0);
  EXPECT_EQ(ahead.sequences, 4);
  test::expect_error([&] { untouched.get(1, 0); }, base::ExitCode::failed, {"has 0 bytes, and had 1000 when"});
  // Step 2 is read after the change: each call for it throws the error.
  test::expect_error([&] { loader.get(2, 0); }, base::ExitCode::failed, {"but it has 0 (it had 1000"});
  test::expect_error([&] { loader.get(2, 0); }, base::ExitCode::failed, {"but it has 0 (it had 1000"});
  EXPECT_EQ(loader.get(1, 0).sequences, 4);
}

TEST(Loader, LastSlabThenAnError) {
  io::IoThread io;
  const auto source = gold();
  data::Loader loader(source.config, source.seq, source.vocab, 2, 1, io);
  EXPECT_EQ(loader.dataset().steps_available(), 20);
  EXPECT_EQ(loader.get(19, 0).sequences, 4);
  test::expect_error([&] { loader.get(20, 0); }, base::ExitCode::failed, {"slab 20", "there are 20 slabs"});
}

// The sequences of a text have distinct first tokens here. Two legs of a training use each sequence once, in the order
// of a training without a change, for any two batches and any step of the change.
TEST(Loader, AChangedBatchNeitherSkipsNorRepeats) {
  const test::TempFolder folder;
  io::IoThread io;
  constexpr std::int64_t kSequences = 48;
  const auto leg = [&](std::int64_t batch, std::int64_t ranks, std::int64_t step, std::int64_t sequences,
                       std::int64_t end, std::vector<std::vector<std::int32_t>>& used) {
    const auto source = text(folder, batch);
    std::vector<std::unique_ptr<data::Loader>> loaders;
    for (std::int64_t p = 0; p < ranks; ++p) {
      loaders.push_back(std::make_unique<data::Loader>(source.config, source.seq, source.vocab, ranks, p, io));
      loaders.back()->begin_at(step, sequences);
    }
    for (; sequences < end; ++step, sequences += batch) {
      EXPECT_EQ(loaders[0]->sequences_before(step), sequences);
      for (std::int64_t b = 0; b < batch; ++b) {
        const auto part = loaders[static_cast<std::size_t>(b % ranks)]->get(step, 0);
        const auto tokens =
            part.tokens.subspan(static_cast<std::size_t>(b / ranks * source.seq), static_cast<std::size_t>(source.seq));
        used.emplace_back(tokens.begin(), tokens.end());
      }
    }
    return step;
  };
  std::vector<std::vector<std::int32_t>> expected;
  leg(1, 1, 0, 0, kSequences, expected);
  for (const auto& [before, after] : {std::pair{4, 8}, {8, 4}, {6, 6}, {3, 7}}) {
    for (const std::int64_t change : {1, 2}) {
      std::vector<std::vector<std::int32_t>> used;
      const std::int64_t first = change * before;
      const auto step = leg(before, 2, 0, 0, first, used);
      EXPECT_EQ(step, change);
      leg(after, 3, step, first, kSequences, used);
      ASSERT_GE(used.size(), expected.size());
      used.resize(expected.size());  // the last step may go beyond
      EXPECT_EQ(used, expected) << before << " -> " << after << " at step " << change;
    }
  }
}

TEST(Loader, BeginAtDropsWhatWasReadAhead) {
  const test::TempFolder folder;
  io::IoThread io;
  const auto source = text(folder, 4);
  const auto tokens = [](const data::MicroBatch& part) { return std::vector(part.tokens.begin(), part.tokens.end()); };
  data::Loader loader(source.config, source.seq, source.vocab, 1, 0, io);
  const auto zero = tokens(loader.get(0, 0));
  const auto one = tokens(loader.get(1, 0));
  EXPECT_NE(zero, one);
  EXPECT_EQ(loader.sequences_before(7), 28);
  loader.begin_at(1, 0);  // step 1 is loaded and step 2 is read ahead, of another origin
  EXPECT_EQ(tokens(loader.get(1, 0)), zero);
  EXPECT_EQ(tokens(loader.get(2, 0)), one);
  EXPECT_EQ(loader.sequences_before(1), 0);
  EXPECT_EQ(loader.sequences_before(3), 8);
  loader.begin_at(3, 8);
  EXPECT_EQ(loader.sequences_before(3), 8);
  EXPECT_THROW(loader.sequences_before(2), base::Error);
  EXPECT_THROW(loader.get(2, 0), base::Error);
  EXPECT_THROW(loader.begin_at(-1, 0), base::Error);
  EXPECT_THROW(loader.begin_at(0, -1), base::Error);

  // An error of what was read ahead is dropped, too.
  loader.begin_at(0, 0);
  loader.get(0, 0);
  io.call([] {});
  std::filesystem::resize_file(folder / "text", 0);
  loader.get(1, 0);  // step 2 is read ahead, and fails
  io.call([] {});
  test::write_bytes(folder / "text", std::string(1000, 'x'));
  loader.begin_at(2, 8);
  EXPECT_EQ(tokens(loader.get(2, 0)), std::vector<std::int32_t>(4 * 13, 'x'));
}

TEST(Loader, SlabsBeginWithASlab) {
  io::IoThread io;
  const auto source = gold();
  data::Loader loader(source.config, source.seq, source.vocab, 1, 0, io);
  const auto tokens = [](const data::MicroBatch& part) { return std::vector(part.tokens.begin(), part.tokens.end()); };
  const auto third = tokens(loader.get(3, 0));
  loader.begin_at(5, 24);
  EXPECT_EQ(tokens(loader.get(5, 0)), third);
  EXPECT_EQ(loader.get(21, 0).sequences, 8);  // the last slab
  test::expect_error([&] { loader.get(22, 0); }, base::ExitCode::failed, {"slab 20", "there are 20 slabs"});
  loader.begin_at(5, 20);
  test::expect_error([&] { loader.get(5, 0); }, base::ExitCode::failed, {"sequence 20", "inside a slab of 8"});
}

TEST(Loader, RefusesNonsense) {
  io::IoThread io;
  const auto source = gold();
  const auto open = [&](std::int64_t ranks, std::int64_t rank) {
    return data::Loader(source.config, source.seq, source.vocab, ranks, rank, io).micro_batch();
  };
  EXPECT_THROW(open(2, 2), base::Error);
  EXPECT_THROW(open(2, -1), base::Error);
  data::Loader loader(source.config, source.seq, source.vocab, 1, 0, io);
  EXPECT_THROW(loader.get(0, 1), base::Error);
  EXPECT_THROW(loader.get(-1, 0), base::Error);
}
