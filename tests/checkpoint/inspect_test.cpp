// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/inspect.hpp"
#include "checkpoint/masters.hpp"
#include "checkpoint/reader.hpp"
#include "tests/checkpoint/checkpoints.hpp"
#include "tests/io/shards.hpp"

namespace shard8 {
namespace {

using base::ExitCode;
using checkpoint::Checkpoint;
using checkpoint::Manifest;
using checkpoint::PlacedBox;
using test::expect_error;
using test::TempFolder;

/// Two files with the masters of a matrix (6, 4) and a vector (5), the vector in two halves.
std::vector<std::vector<io::ShardBox>> boxes() {
  using test::shard_box;
  return {{shard_box("matrix", "master", "fp32", {6, 4}, {0, 2, 0, 4}),
           shard_box("vector", "master", "bf16", {5}, {0, 5, 0, 1})},
          {shard_box("matrix", "master", "fp32", {6, 4}, {2, 4, 0, 1}),
           shard_box("matrix", "master", "fp32", {6, 4}, {2, 4, 1, 3}),
           shard_box("vector", "master_remainder", "i16", {5}, {0, 5, 0, 1})}};
}

/// Writes a checkpoint of step 1200 to a folder, with random values.
Checkpoint write_checkpoint(const std::string& folder, const std::vector<std::vector<io::ShardBox>>& files) {
  io::IoThread io;
  Manifest m = test::small_manifest();
  m.run = "run-1";
  m.tensors = {{"matrix", "master", tensor::DType::fp32, {6, 4}},
               {"vector", "master", tensor::DType::bf16, {5}},
               {"vector", "master_remainder", tensor::DType::i16, {5}}};
  m.files.clear();
  std::filesystem::create_directories(folder);
  for (std::size_t f = 0; f < files.size(); ++f) {
    const std::string name = checkpoint::rank_file(static_cast<std::int64_t>(f));
    m.files.push_back(test::write_shard(io, folder + "/" + name, files[f]).summary);
  }
  checkpoint::write_manifest(folder, m);
  return {folder, m};
}

TEST(Find, PathsNameCheckpoints) {
  const TempFolder folder;
  const auto ignore = [](const std::string&) {};
  for (const std::string& path : {folder.path(), folder / "nothere"}) {
    EXPECT_FALSE(checkpoint::names_checkpoints(path));
    expect_error([&] { checkpoint::directory_at(path); }, ExitCode::checkpoint, {path, "no checkpoints", "output.dir"});
    expect_error([&] { checkpoint::open_checkpoint(path, ignore); }, ExitCode::checkpoint, {path, "no checkpoints"});
  }
  const checkpoint::Directory directory(folder / "checkpoints");
  directory.make();
  for (const std::int64_t step : {100, 300, 200}) test::save_step(directory, step);  // 200 is the last written
  for (const std::string& path : {folder.path(), directory.path(), directory.path() + "/"}) {
    EXPECT_TRUE(checkpoint::names_checkpoints(path));
    EXPECT_FALSE(checkpoint::is_checkpoint(path));
    EXPECT_EQ(checkpoint::open_checkpoint(path, ignore).manifest.step, 200) << path;
  }
  for (const char* end : {"", "/"}) {
    const std::string path = directory.folder_of(100) + end;
    EXPECT_TRUE(checkpoint::is_checkpoint(path));
    EXPECT_EQ(checkpoint::open_checkpoint(path, ignore).folder, directory.folder_of(100));
  }
  // A copy under another name is a checkpoint, too; not so under the name of another step.
  std::filesystem::copy(directory.folder_of(300), folder / "kept");
  EXPECT_EQ(checkpoint::open_checkpoint(folder / "kept", ignore).manifest.step, 300);
  std::filesystem::copy(directory.folder_of(300), directory.folder_of(400));
  expect_error([&] { checkpoint::open_checkpoint(directory.folder_of(400), ignore); }, ExitCode::checkpoint,
               {"step_00000400", "is of step 300"});
  // What cannot be used is told, and the one before it is taken.
  test::write_bytes(directory.folder_of(200) + "/" + checkpoint::rank_file(0), "cut");
  std::string said;
  EXPECT_EQ(checkpoint::open_checkpoint(folder.path(), [&](const auto& text) { said += text + "\n"; }).manifest.step,
            300);
  EXPECT_NE(said.find("step_00000200 cannot be used"), std::string::npos) << said;
  EXPECT_NE(said.find("step_00000400 cannot be used"), std::string::npos) << said;
}

TEST(Inspect, HashesAndBoxes) {
  const TempFolder folder;
  const Checkpoint one = write_checkpoint(folder / "one", boxes());
  const auto tensors = checkpoint::summarise(one, true);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].boxes.size(), 3u);
  EXPECT_EQ(tensors[0].bytes, 96u);
  EXPECT_EQ(tensors[0].boxes[2].box, (io::Box{2, 4, 1, 3}));
  // The hash follows from indices in the whole tensor, however it is cut.
  const checkpoint::Masters masters(one);
  std::vector<float> values(24);
  masters.read_box("matrix", {0, 6, 0, 4}, values.data(), 4);
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    hash += checkpoint::hash_element(static_cast<std::int64_t>(i), std::bit_cast<std::uint32_t>(values[i]));
  EXPECT_EQ(*tensors[0].hash, hash);
  EXPECT_FALSE(checkpoint::summarise(one, false)[0].hash.has_value());

  const std::string text = checkpoint::show_text(one, tensors, true);
  for (const std::string part :
       {"step        1200\n", "mesh        2 x 4 x 2", "  model.hidden  256\n", "\n  run.steps     20\n",
        "rows 2 to 6, columns 1 to 4: shard_r0001.h5: /tensors/matrix/master/r2_c1\n", "3 tensors, 5 boxes, 116 bytes"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  EXPECT_EQ(text.find("output.dir"), std::string::npos) << "a default is shown";
  const std::string json = checkpoint::show_json(one, tensors, false);
  EXPECT_NE(json.find("\"data_seed\""), 0u);
  EXPECT_EQ(json.find("\"boxes\""), std::string::npos) << json;
}

TEST(Inspect, EveryElementIsInOneBox) {
  const TempFolder folder;
  EXPECT_TRUE(checkpoint::problems_of_files(write_checkpoint(folder / "good", boxes())).empty());
  const auto found = [&](const std::string& name, const std::vector<std::vector<io::ShardBox>>& files,
                         const std::vector<std::string>& parts) {
    const auto problems = checkpoint::problems_of_files(write_checkpoint(folder / name, files));
    ASSERT_EQ(problems.size(), 1u) << name;
    for (const std::string& part : parts) EXPECT_NE(problems[0].find(part), std::string::npos) << problems[0];
  };
  auto less = boxes();
  less[1].erase(less[1].begin());
  found("less", less, {"tensor matrix, master: 4 of its 24 elements are in no file; use another checkpoint"});
  auto twice = boxes();
  twice[1][0] = test::shard_box("matrix", "master", "fp32", {6, 4}, {1, 5, 0, 1});
  found("twice", twice,
        {"shard_r0000.h5: /tensors/matrix/master/r0_c0 and shard_r0001.h5: /tensors/matrix/master/r1_c0 overlap"});
  // As many elements as there should be, but some of them twice.
  auto moved = boxes();
  moved[1][1] = test::shard_box("matrix", "master", "fp32", {6, 4}, {2, 4, 0, 3});
  moved[1].erase(moved[1].begin());
  moved[0].push_back(test::shard_box("matrix", "master", "fp32", {6, 4}, {2, 4, 0, 1}));
  found("moved", moved, {"overlap"});
  auto other = boxes();
  other[0][1].dtype = "i16";
  found("dtype", other, {"shard_r0000.h5: /tensors/vector/master/r0_c0: its dtype or shape is not that"});
  auto unknown = boxes();
  unknown[0].push_back(test::shard_box("table", "fp32", {3}));
  found("unknown", unknown, {"shard_r0000.h5: /tensors/table/master/r0_c0: its tensor is not in the manifest"});
}

TEST(Inspect, EveryFileIsChecked) {
  const TempFolder folder;
  const Checkpoint one = write_checkpoint(folder / "one", boxes());
  for (const char* name : {"shard_r0000.h5", "shard_r0001.h5"}) {
    std::string bytes = test::read_bytes(one.folder + "/" + name);
    bytes[bytes.size() / 2] ^= 1;
    test::write_bytes(one.folder + "/" + name, bytes);
  }
  const auto problems = checkpoint::problems_of_files(one);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_NE(problems[0].find("shard_r0000.h5"), std::string::npos) << problems[0];
  EXPECT_NE(problems[1].find("shard_r0001.h5"), std::string::npos) << problems[1];
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

/// The bits of a tensor in a file.
std::vector<std::uint32_t> bits_of(const io::TensorFile& file, const std::string& name) {
  const auto& shape = file.shape(name);
  const std::int64_t cols = shape.size() == 1 ? 1 : shape[1];
  std::vector<float> values(static_cast<std::size_t>(shape[0] * cols));
  file.read_box(name, {0, shape[0], 0, cols}, values.data(), cols);
  std::vector<std::uint32_t> bits;
  for (const float x : values) bits.push_back(std::bit_cast<std::uint32_t>(x));
  return bits;
}

TEST(Export, FilesReadBackBitForBit) {
  const TempFolder folder;
  const checkpoint::Masters masters(write_checkpoint(folder / "one", boxes()));
  const std::string to = folder / "a/b";
  io::IoThread io;
  checkpoint::ExportOptions options;
  using Names = std::vector<std::string>;
  const auto first = checkpoint::export_weights(masters, to, "{\"first\": 1}\n", options);
  EXPECT_EQ(first.files, (Names{"model.safetensors", "config.json"}));
  EXPECT_EQ(first.tensors, 2u);
  EXPECT_EQ(first.bytes, 116u);
  for (const char* name : {"matrix", "vector"})
    EXPECT_EQ(bits_of(*io::open_tensor_file(io, to), name), bits_of(masters, name));
  EXPECT_NE(test::read_bytes(to + "/model.safetensors").find(R"("__metadata__":{"format":"pt"})"), std::string::npos);

  // Nothing is replaced unless that is asked for.
  expect_error([&] { checkpoint::export_weights(masters, to, "{}\n", options); }, ExitCode::deck,
               {to, "config.json", "--force"});
  EXPECT_EQ(test::read_bytes(to + "/config.json"), "{\"first\": 1}\n");
  options.replace = true;
  options.largest_file = 100;  // the matrix has 96 bytes
  const auto several = checkpoint::export_weights(masters, to, "{}\n", options);
  const Names names = {"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                       "model.safetensors.index.json"};
  EXPECT_EQ(names_in(to), names);
  EXPECT_EQ(several.files.size(), 4u);
  EXPECT_NE(test::read_bytes(to + "/" + names[3]).find("\"total_size\": 116"), std::string::npos);
  for (const char* name : {"matrix", "vector"})
    EXPECT_EQ(bits_of(*io::open_tensor_file(io, to), name), bits_of(masters, name));

  // bf16 is the value rounded to nearest even.
  options.largest_file = 1000;
  options.dtype = tensor::DType::bf16;
  checkpoint::export_weights(masters, to, "{}\n", options);
  EXPECT_EQ(names_in(to), (Names{"config.json", "model.safetensors"}));
  auto rounded = bits_of(masters, "matrix");
  for (std::uint32_t& x : rounded) x = static_cast<std::uint32_t>(tensor::BFloat16(std::bit_cast<float>(x)).bits) << 16;
  EXPECT_EQ(bits_of(*io::open_tensor_file(io, to), "matrix"), rounded);
}

TEST(Export, WhatFailsChangesNothing) {
  const TempFolder folder;
  const Checkpoint one = write_checkpoint(folder / "one", boxes());
  const std::string to = folder / "to";
  checkpoint::ExportOptions options;
  options.replace = true;
  checkpoint::export_weights(checkpoint::Masters(one), to, "{}\n", options);
  const std::string before = test::read_bytes(to + "/model.safetensors");
  // The second of two files cannot be written, since its tensor is damaged.
  const auto offset = checkpoint::open_shard(one.folder, one.manifest, 1).boxes().back().offset;
  std::string bytes = test::read_bytes(one.folder + "/shard_r0001.h5");
  bytes[offset] ^= 1;
  test::write_bytes(one.folder + "/shard_r0001.h5", bytes);
  options.largest_file = 1;
  expect_error([&] { checkpoint::export_weights(checkpoint::Masters(one), to, "{}\n", options); }, ExitCode::checkpoint,
               {"shard_r0001.h5"});
  EXPECT_EQ(names_in(to), (std::vector<std::string>{"config.json", "model.safetensors"}));
  EXPECT_EQ(test::read_bytes(to + "/model.safetensors"), before);
  test::write_bytes(folder / "file", "");
  expect_error([&] { checkpoint::export_weights(checkpoint::Masters(one), folder / "file", "{}\n", options); },
               ExitCode::environment, {"cannot make folder", "--to"});
}

}  // namespace
}  // namespace shard8
