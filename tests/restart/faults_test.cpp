// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "checkpoint/directory.hpp"
#include "tests/checkpoint/checkpoints.hpp"
#include "tests/restart/faulty.hpp"
#include "tests/restart/program.hpp"

// Checkpoints that are damaged, as users meet them: the program restarts.

namespace shard8 {
namespace {

namespace fs = std::filesystem;
using checkpoint::Manifest;

class MissingFile : public test::Faulty {};
class CutFile : public test::Faulty {};
class FlippedByte : public test::Faulty {};
class OtherVersion : public test::Faulty {};
class OtherFile : public test::Faulty {};
class UnreadableFile : public test::Faulty {};

constexpr const char* kShard = "shard_r0001.h5";
constexpr const char* kManifest = "manifest.json";

TEST_F(MissingFile, Shard) {
  fs::remove(newest() / kShard);
  expect_fallback(kShard, {"is missing", "restart from another checkpoint, or copy this one again"},
                  {"cannot open for reading: No such file or directory", "check"});
}

TEST_F(MissingFile, Manifest) {
  fs::remove(newest() / kManifest);
  expect_fallback(kManifest, {"No such file", "restart from another one"});
}

TEST_F(CutFile, Shard) {
  fs::resize_file(newest() / kShard, fs::file_size(newest() / kShard) - 1);
  expect_fallback(kShard, {"its manifest says", "restart from another checkpoint, or copy this one again"},
                  {"the manifest says", "use another checkpoint, or copy this file again"});
}

TEST_F(CutFile, ShardIsLonger) {
  fs::resize_file(newest() / kShard, fs::file_size(newest() / kShard) + 1);
  expect_fallback(kShard, {"its manifest says", "restart from another checkpoint, or copy this one again"},
                  {"the manifest says", "use another checkpoint, or copy this file again"});
}

TEST_F(CutFile, Manifest) {
  fs::resize_file(newest() / kManifest, fs::file_size(newest() / kManifest) / 2);
  expect_fallback(kManifest, {"does not end with its digest", "restart from another checkpoint"});
}

TEST_F(CutFile, ManifestIsLonger) {
  test::write_bytes(newest() / kManifest, test::read_bytes(newest() / kManifest) + " ");
  expect_fallback(kManifest, {"does not end with its digest", "restart from another checkpoint"});
}

/// The offset in the shard file of rank 1 of a box of a tensor, and what the file's index says of it.
io::ShardBox box_of(const fs::path& checkpoint, const std::string& name, const std::string& content) {
  const Manifest manifest = checkpoint::read_manifest(checkpoint.string());
  for (const auto& file : manifest.files) {
    if (file.file != kShard) continue;
    const io::ShardReader reader((checkpoint / kShard).string(), file);
    for (const io::ShardBox& box : reader.boxes())
      if (box.name == name && box.content == content) return box;
  }
  ADD_FAILURE() << name << ", " << content << " is not in " << kShard;
  return {};
}

TEST_F(FlippedByte, OfATensor) {
  test::flip(newest() / kShard, box_of(newest(), "model.layers.0.mlp.down_proj.weight", "exp_avg").offset + 5);
  expect_fallback(
      kShard, {"'model.layers.0.mlp.down_proj.weight', exp_avg, rows ", "damaged in bytes ", "use another checkpoint"});
}

TEST_F(FlippedByte, OfTheIndex) {
  const auto manifest = checkpoint::read_manifest(newest().string());
  test::flip(newest() / manifest.files[1].file, manifest.files[1].index_offset + 10);
  expect_fallback(manifest.files[1].file, {"its index is", "use another checkpoint"});
}

TEST_F(FlippedByte, OutsideOfTensors) {
  test::flip(newest() / kShard, 100);  // in the superblock or the groups of HDF5
  expect_fallback(kShard, {"damaged outside of its tensors and its index", "use another checkpoint"});
}

TEST_F(FlippedByte, OfTheManifest) {
  test::flip(newest() / kManifest, 300);
  expect_fallback(kManifest, {"do not match the digest at its end", "restart from another checkpoint"});
}

/// What a restart reads of a checkpoint, on one rank.
void read_all(const fs::path& checkpoint) {
  const std::string path = checkpoint.string();
  checkpoint::Reader reader(path, checkpoint::Directory(checkpoint.parent_path().string()).open(4));
  for (const checkpoint::ManifestTensor& t : reader.manifest().tensors) test::bytes_of(reader, t);
  reader.verify_rest(0, 1);
}

void expect_noticed(const fs::path& checkpoint, const fs::path& file, std::uint64_t offset) {
  try {
    read_all(checkpoint);
    ADD_FAILURE() << file << ": nobody noticed that byte " << offset << " was changed";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::checkpoint) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(file.string()), std::string_view::npos) << error.what();
  }
}

/// Each byte of the manifest in turn, and random bytes of the shard files.
TEST_F(FlippedByte, AnywhereIsNoticed) {
  constexpr int kShardBytes = 1000;
  read_all(newest());
  const auto change = [&](const fs::path& file, std::uint64_t offset) {
    test::flip(file, offset);
    expect_noticed(newest(), file, offset);
    test::flip(file, offset);
  };
  const auto bytes = fs::file_size(newest() / kManifest);
  for (std::uint64_t offset = 0; offset < bytes; ++offset) change(newest() / kManifest, offset);
  std::mt19937_64 random(7);
  for (int i = 0; i < kShardBytes; ++i) {
    const fs::path file = newest() / (i % 2 == 0 ? kShard : "shard_r0000.h5");
    change(file, random() % fs::file_size(file));
  }
  read_all(newest());
}

/// Changes the text of the manifest and puts its digest right.
void edit_manifest(const fs::path& checkpoint, const std::string& from, const std::string& to) {
  std::string text = test::read_bytes(checkpoint / kManifest);
  const auto at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  test::write_bytes(checkpoint / kManifest, test::with_digest(text.replace(at, from.size(), to)));
}

TEST_F(OtherVersion, OfTheManifest) {
  edit_manifest(newest(), fmt::format("\"format\": {}", checkpoint::kManifestFormat),
                fmt::format("\"new\": 1, \"format\": {}", checkpoint::kManifestFormat + 1));
  expect_fallback(kManifest, {fmt::format("format version {} is newer than {}", checkpoint::kManifestFormat + 1,
                                          checkpoint::kManifestFormat),
                              "restart with the program that wrote it or a newer one"});
}

TEST_F(OtherVersion, OfAShardFile) {
  const auto manifest = checkpoint::read_manifest(newest().string());
  const auto& file = manifest.files[1];
  ASSERT_EQ(file.file, kShard);
  std::string bytes = test::read_bytes(newest() / kShard);
  std::string index = bytes.substr(file.index_offset, file.index_bytes);
  const auto at = index.find(fmt::format("\"version\":{}", io::kShardFormatVersion));
  ASSERT_NE(at, std::string::npos) << index;
  index[at + std::string("\"version\":").size()] = '9';
  test::write_bytes(newest() / kShard, bytes.replace(file.index_offset, file.index_bytes, index));
  edit_manifest(newest(), file.index_digest, io::digest128(index));
  expect_fallback(kShard, {fmt::format("was written in version 9 of the format; this program reads up to version {}",
                                       io::kShardFormatVersion),
                           "use a newer"});
}

/// A run of the same deck in the same folder writes the same steps, under another run id.
TEST_F(OtherFile, OfAnotherRun) {
  const auto other = run({"run.stop_after=4", "output.dir=other"});
  ASSERT_EQ(other.code, 75) << other.output;
  fs::copy_file(folder() / "other/checkpoints/step_00000004" / kShard, newest() / kShard,
                fs::copy_options::overwrite_existing);
  expect_fallback(kShard, {"its index is one of run '", "not the one of the manifest"});
}

TEST_F(OtherFile, OfAnotherStep) {
  fs::copy_file(older() / kShard, newest() / kShard, fs::copy_options::overwrite_existing);
  expect_fallback(kShard, {"after step 2, not the one of the manifest"});
}

TEST_F(OtherFile, OfAnotherRank) {
  fs::copy_file(newest() / "shard_r0000.h5", newest() / kShard, fs::copy_options::overwrite_existing);
  expect_fallback(kShard, {"its manifest says", "restart from another checkpoint, or copy this one again"},
                  {"the manifest says", "use another checkpoint, or copy this file again"});
}

TEST_F(OtherFile, AManifestWithTheTensorsOfAnotherModel) {
  edit_manifest(newest(), "[64,32]", "[65,32]");
  const auto named = run({"checkpoint.restart=out/checkpoints/step_00000004"});
  EXPECT_EQ(named.code, 4) << named.output;
  expect_says(named, {"step_00000004: tensor ", "is (65, 32) of fp32, and this deck needs (64, 32) of fp32"});
}

TEST_F(OtherFile, ARenamedCheckpoint) {
  fs::rename(newest(), checkpoints() / "step_00000009");
  const auto end = run({"checkpoint.every=0"});
  expect_whole(end, folder());
  expect_says(end, {"step_00000009': its manifest is of step 4: the folder was renamed; give it the name "
                    "'step_00000004'"});
  EXPECT_EQ(test::restarted_from(end.output), "out/checkpoints/step_00000002");
}

TEST_F(UnreadableFile, Shard) {
  fs::remove(newest() / kShard);
  fs::create_directory(newest() / kShard);
  expect_fallback(kShard, {"is no regular file", "restart from another checkpoint, or copy this one again"},
                  {"not a regular file"});
}

TEST_F(UnreadableFile, Manifest) {
  fs::remove(newest() / kManifest);
  fs::create_directory(newest() / kManifest);
  expect_fallback(kManifest, {"not a regular file", "restart from another one"});
}

TEST_F(UnreadableFile, WithoutPermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads everything";
  ASSERT_EQ(::chmod((newest() / kShard).c_str(), 0), 0);
  const auto end = run({"checkpoint.every=0"});
  expect_whole(end, folder());
  expect_says(end, {kShard, "Permission denied"});
}

}  // namespace
}  // namespace shard8
