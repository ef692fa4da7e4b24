// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.hpp"

#include <gtest/gtest.h>

#include "io/digest.hpp"
#include "tests/checkpoint/checkpoints.hpp"

namespace shard8 {
namespace {

using base::ExitCode;
using checkpoint::manifest_text;
using checkpoint::parse_manifest;
using test::expect_error;
using test::small_manifest;

/// The small manifest with one piece of its text replaced and the digest put right.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = manifest_text(small_manifest());
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return test::with_digest(text.replace(at, from.size(), to));
}

void expect_refused(const std::string& text, const std::vector<std::string>& parts) {
  auto all = parts;
  all.emplace_back("'DIR/manifest.json': ");
  all.emplace_back("restart");
  expect_error([&] { parse_manifest(text, "DIR/manifest.json"); }, ExitCode::checkpoint, all);
}

TEST(Digest, IsXxh3) {  // as `xxhsum -H2` prints it
  EXPECT_EQ(io::digest128(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(io::digest128("shard8").size(), 32U);
}

TEST(Manifest, RoundTrip) {
  const auto manifest = small_manifest();
  EXPECT_EQ(parse_manifest(manifest_text(manifest), "x"), manifest);
  auto validated = manifest;
  validated.validation = {"v.txt", 1000, 62, "0123456789abcdef0123456789abcdef"};
  EXPECT_EQ(parse_manifest(manifest_text(validated), "x"), validated);
  auto empty = manifest;
  empty.deck.clear();
  empty.tensors.clear();
  empty.files.clear();
  empty.plan.clear();
  EXPECT_EQ(parse_manifest(manifest_text(empty), "x"), empty);
}

TEST(Manifest, RoundTripThroughAFile) {
  const test::TempFolder folder;
  checkpoint::write_manifest(folder.path(), small_manifest());
  EXPECT_EQ(checkpoint::read_manifest(folder.path()), small_manifest());
  EXPECT_FALSE(std::filesystem::exists(folder / "manifest.json.tmp"));
}

/// A training without a parent and without inputs, and one of an early version, whose cursor counts steps.
TEST(Manifest, WithoutWhatItMayLack) {
  auto manifest = small_manifest();
  manifest.parent.reset();
  manifest.data.reset();
  manifest.weights.reset();
  manifest.loss.reset();
  EXPECT_EQ(parse_manifest(manifest_text(manifest), "x"), manifest);
}

/// What could not be read is not written.
TEST(Manifest, IsCheckedBeforeItIsWritten) {
  const test::TempFolder folder;
  auto manifest = small_manifest();
  manifest.deck[0].value = "\xff";
  expect_error([&] { checkpoint::write_manifest(folder.path(), manifest); }, ExitCode::failed, {"read back"});
  manifest = small_manifest();
  manifest.files[0].file = "../shard_r0000.h5";
  expect_error([&] { checkpoint::write_manifest(folder.path(), manifest); }, ExitCode::checkpoint, {"without '/'"});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

/// 4,096 files and the tensors of a 70B model stay below 10 MB.
TEST(Manifest, GrowsWithFilesAndTensorsAlone) {
  auto manifest = small_manifest();
  manifest.files.clear();
  manifest.tensors.clear();
  for (int i = 0; i < 4096; ++i) {
    manifest.files.push_back({fmt::format("shard_r{:04d}.h5", i), 1ULL << 40, 1ULL << 39, 1ULL << 30,
                              std::string(32, 'a'), std::string(32, 'b')});
  }
  for (int i = 0; i < 80 * 9 * 6; ++i) {
    manifest.tensors.push_back({fmt::format("model.layers.{}.mlp.gate_proj.weight", i),
                                "fp8_columnwise_scale_inv",
                                tensor::DType::fp32,
                                {28672, 8192}});
  }
  const std::string text = manifest_text(manifest);
  EXPECT_LT(text.size(), 10'000'000U);
  EXPECT_EQ(parse_manifest(text, "x"), manifest);
}

TEST(ManifestDamage, EveryBitOfEveryByteCounts) {
  const std::string text = manifest_text(small_manifest());
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      EXPECT_THROW(parse_manifest(damaged, "x"), base::Error) << "byte " << at << ", bit " << bit;
    }
  }
}

TEST(ManifestDamage, EveryLengthCounts) {
  const std::string text = manifest_text(small_manifest());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(parse_manifest(text.substr(0, length), "x"), base::Error) << length;
    EXPECT_THROW(parse_manifest(text.substr(text.size() - length), "x"), base::Error) << length;
  }
  expect_refused(text + "\n", {"does not end with its digest"});
  expect_refused(text + text, {"do not match the digest"});
  expect_refused("", {"does not end with its digest", "cut short"});
  std::string flipped = text;
  flipped[100] = static_cast<char>(flipped[100] ^ 1);
  expect_refused(flipped, {fmt::format("its {} bytes do not match the digest", text.size()), "copy this one again"});
}

TEST(ManifestDamage, MissingAndUnreadable) {
  const test::TempFolder folder;
  expect_error([&] { checkpoint::read_manifest(folder.path()); }, ExitCode::checkpoint,
               {"manifest.json'", "No such file", "restart from another"});
  std::filesystem::create_directory(folder / "manifest.json");
  expect_error([&] { checkpoint::read_manifest(folder.path()); }, ExitCode::checkpoint, {"not a regular file"});
  std::filesystem::remove(folder / "manifest.json");
  test::write_bytes(folder / "manifest.json", "");
  std::filesystem::resize_file(folder / "manifest.json", (256 << 20) + 1);  // sparse
  expect_error([&] { checkpoint::read_manifest(folder.path()); }, ExitCode::checkpoint, {"at most 268435456"});
}

TEST(ManifestParse, NewerVersion) {
  expect_refused(changed("\"format\": 2", "\"format\": 3"),
                 {"format version 3 is newer than 2", "with the program that wrote it or a newer one"});
  // A newer one may have other keys.
  expect_refused(test::with_digest("{\n\"format\": 9, \"new\": [{}],\n"), {"format version 9 is newer"});
  expect_refused(changed("\"format\": 2", "\"format\": 0"), {"'format' is 0"});
  expect_refused(changed("\"format\": 2", "\"format\": \"1\""), {"'format' is \"1\""});
  expect_refused(changed("\"format\": 2", "\"format\": 1"), {"an unknown key"});
}

TEST(ManifestParse, MalformedJson) {
  expect_refused(test::with_digest("{\n\"format\": 1,,\n"), {"not a manifest", "parse error"});
  expect_refused(test::with_digest("[\n"), {"parse error"});
  expect_refused(test::with_digest("\n"), {"parse error"});
  expect_refused(changed("\"step\": 1200", "\"step\": 1200, \"step\": 1200"), {"key 'step' is there twice"});
  expect_refused(changed("\"step\": 1200", "\"other\": 1, \"step\": 1200"), {"an unknown key 'other'"});
  expect_refused(changed("\"serial\": 3,", ""), {"'manifest' has no 'serial'"});
  expect_refused(changed("2026-01-02", "\x1b[31m"), {"parse error"});
  expect_refused(changed("2026-01-02", "\\u001b[31m"), {"'run' is '?[31m", "control characters"});
}

TEST(ManifestParse, DepthBomb) {
  const std::string deep(1'000'000, '[');
  expect_refused(test::with_digest("{\n\"format\": 1, \"plan\": " + deep + "\n"), {"nested more than 8 deep"});
  std::string objects = "{\n\"format\": 1, \"plan\": ";
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  expect_refused(test::with_digest(objects + "\n"), {"nested more than 8 deep"});
}

TEST(ManifestParse, ValuesOutOfBounds) {
  expect_refused(changed("\"step\": 1200,\n\"mesh", "\"step\": -1,\n\"mesh"), {"'step' is -1"});
  expect_refused(changed("\"step\": 1200,\n\"mesh", "\"step\": 1.5,\n\"mesh"), {"'step' is 1.5"});
  expect_refused(changed("\"sequences\":9600", "\"sequences\":-1"), {"'data.sequences' is -1"});
  expect_refused(changed("\"step\":800", "\"step\":2147483648"), {"'parent.step' is 2147483648"});
  expect_refused(changed("{\"run\":\"2026-01-01T00:00:00-node17-1\",\"step\":800}", "[]"), {"'parent' is []"});
  expect_refused(changed("\"samples\":249", "\"samples\":2.5"), {"'data.input' is 2.5"});
  expect_refused(changed("\"loss\": 2.5", "\"loss\": \"x\", \"loss2\": 2.5"), {"unknown key 'loss2'"});
  expect_refused(changed("\"replicate\":2", "\"replicate\":0"), {"'mesh.replicate' is 0", "from 1 to"});
  expect_refused(changed("\"replicate\":2", "\"replicate\":2147483647"), {"'mesh.shard' is 4", "from 1 to 1"});
  expect_refused(changed("18446744073709551615", "18446744073709551616"), {"'data.seed'"});
  expect_refused(changed("\"counter\"", "\"mt19937\""), {"'random.kind' is 'mt19937'"});
  expect_refused(changed("\"fp32\"", "\"fp64\""), {"unknown dtype 'fp64'"});
  expect_refused(changed("[1000,256]", "[1000,256,1]"), {"one or two dimensions"});
  expect_refused(changed("[1000,256]", "[]"), {"one or two dimensions"});
  expect_refused(changed("[1000,256]", "[4294967296,4294967296]"), {"2^63 bytes or more"});
  expect_refused(changed("\"exp_avg\"", "\"master\""), {"tensor 'model.norm.weight', master is there twice"});
  expect_refused(changed("run.steps", "model.hidden"), {"key 'model.hidden' is there twice"});
  expect_refused(changed("shard_r0001.h5", "shard_r0000.h5"), {"file 'shard_r0000.h5' is there twice"});
  expect_refused(changed("shard_r0001.h5", "../shard_r0001.h5"), {"without '/'"});
  expect_refused(changed("shard_r0001.h5", ".."), {"'..'"});
  expect_refused(changed("shard_r0001.h5", "a\\u0000"), {"control characters"});
  expect_refused(changed("\"index_offset\":1024", "\"index_offset\":1025"), {"'files.index_offset' is 1025"});
  expect_refused(changed("\"index_bytes\":0", "\"index_bytes\":1"), {"'files.index_bytes' is 1"});
  expect_refused(changed("\"ff\"", "\"FF\""), {"lower-case hex"});
  expect_refused(changed("\"ff\"", "\"\""), {"lower-case hex"});
  expect_refused(changed("\"deck\": [", "\"deck\": {\"a\": ["), {"parse error"});
}

/// Where numbers stand in JSON, outside of texts: begins and lengths.
std::vector<std::pair<std::size_t, std::size_t>> numbers_of(const std::string& text) {
  std::vector<std::pair<std::size_t, std::size_t>> found;
  bool in_text = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (in_text && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      in_text = !in_text;
    } else if (!in_text && std::isdigit(static_cast<unsigned char>(text[at])) != 0) {
      const std::size_t end = text.find_first_not_of("0123456789.e+-", at);
      found.emplace_back(at, end - at);
      at = end - 1;
    }
  }
  return found;
}

// Every number of a manifest, one after the other. The loss may be any number; seeds may have 64 bits.
TEST(ManifestParse, CraftedNumbers) {
  const std::string text = checkpoint::manifest_text(test::small_manifest());
  const auto numbers = numbers_of(text);
  ASSERT_GE(numbers.size(), 25u);
  const auto with = [&](const std::pair<std::size_t, std::size_t>& number, const char* value) {
    return test::with_digest(std::string(text).replace(number.first, number.second, value));
  };
  for (const auto& number : numbers) {
    const std::string line = text.substr(text.rfind('\n', number.first) + 1, 40);
    SCOPED_TRACE(line);
    const bool is_loss = line.starts_with("\"loss\"");
    for (const char* const value : {"-1", "-9223372036854775808", "1.5", "1e300", "18446744073709551616", "\"1\"",
                                    "[1]", "{}", "true", "NaN", "Infinity", "1e999"}) {
      const bool is_number = std::string_view(value).find_first_not_of("-0123456789.e") == std::string_view::npos &&
                             std::string_view(value) != "1e999";
      if (is_loss && is_number) {
        checkpoint::parse_manifest(with(number, value), "m");
        continue;
      }
      expect_refused(with(number, value), {});
    }
    // Huge ones are refused, or stay what they are: no sum or product of them overflows.
    for (const char* const value : {"0", "2147483647", "2147483648", "4611686018427387904", "9223372036854775807",
                                    "9223372036854775808", "18446744073709551615"}) {
      try {
        const auto manifest = checkpoint::parse_manifest(with(number, value), "m");
        EXPECT_EQ(checkpoint::parse_manifest(checkpoint::manifest_text(manifest), "m"), manifest);
        EXPECT_GE(manifest.sequences, 0);
        EXPECT_LE(manifest.sequences, std::int64_t{1} << 62);
        std::int64_t ranks = 1;
        for (const int extent : manifest.mesh.of) ranks *= extent;
        EXPECT_LE(ranks, 2147483647);
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), base::ExitCode::checkpoint) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace shard8
