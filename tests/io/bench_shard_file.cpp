// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// usage: bench_shard_file FOLDER GIB [REPEATS]
//
// Speeds of a shard file of GIB GiB in FOLDER, one line for each and repeat: the digest alone, writing with fsync, and
// reading with all digests checked from a warm page cache; for comparison HDF5's own way with 1 GiB: H5Dwrite to a
// dataset in chunks of 4 MiB with Fletcher32, with fsync, and H5Dread of it. One thread works at a time; the second
// speed counts only the time in which it ran, so it says more where other programs or the disk keep it waiting.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <string>

#include "base/error.hpp"
#include "io/digest.hpp"
#include "io/hdf5.hpp"
#include "tests/io/shards.hpp"

using namespace shard8;

namespace {

void measure(const char* what, std::uint64_t bytes, const std::function<void()>& action) {
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t before = std::clock();
  action();
  const double worked = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  fmt::print("{:<32}{:7.2f} GB/s  {:7.3f} s  {:7.2f} GB/s of processor time\n", what, gigabytes / seconds.count(),
             seconds.count(), gigabytes / worked);
  std::fflush(stdout);
}

void sync_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  SHARD8_REQUIRE(file >= 0 && ::fsync(file) == 0 && ::close(file) == 0, "cannot fsync '{}'", path);
}

/// fp32 tensors of 256 MiB, as those of a large model.
std::vector<io::ShardBox> tensors(std::uint64_t gib) {
  std::vector<io::ShardBox> boxes;
  for (std::uint64_t i = 0; i < 4 * gib; ++i) {
    boxes.push_back(test::shard_box(fmt::format("model.layers.{}.mlp.up_proj.weight", i), "fp32", {8192, 8192}));
  }
  return boxes;
}

/// One dataset of the values, again and again up to 1 GiB.
void write_chunked(const std::string& path, const test::Bytes& values) {
  const std::array<hsize_t, 2> shape = {32768, 8192}, chunk = {128, 8192};
  const io::H5Handle file(SHARD8_H5(path, H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)), H5Fclose);
  const io::H5Handle space(SHARD8_H5(path, H5Screate_simple(2, shape.data(), nullptr)), H5Sclose);
  const io::H5Handle plan(SHARD8_H5(path, H5Pcreate(H5P_DATASET_CREATE)), H5Pclose);
  SHARD8_H5(path, H5Pset_chunk(plan.id(), 2, chunk.data()));
  SHARD8_H5(path, H5Pset_fletcher32(plan.id()));
  const io::H5Handle data(
      SHARD8_H5(path, H5Dcreate2(file.id(), "w", H5T_IEEE_F32LE, space.id(), H5P_DEFAULT, plan.id(), H5P_DEFAULT)),
      H5Dclose);
  const io::H5Handle memory(SHARD8_H5(path, H5Screate_simple(2, chunk.data(), nullptr)), H5Sclose);
  for (hsize_t row = 0; row < shape[0]; row += chunk[0]) {
    const std::array<hsize_t, 2> at = {row, 0};
    SHARD8_H5(path, H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, at.data(), nullptr, chunk.data(), nullptr));
    const auto* const from = values.data() + (row % 8192) * 8192 * sizeof(float);
    SHARD8_H5(path, H5Dwrite(data.id(), H5T_NATIVE_FLOAT, memory.id(), space.id(), H5P_DEFAULT, from));
  }
}

void read_chunked(const std::string& path, test::Bytes& out) {
  const io::H5Handle file = io::h5_open_file(path);
  const io::H5Handle data = io::h5_open_dataset(file.id(), "w", path);
  const io::H5Handle space(SHARD8_H5(path, H5Dget_space(data.id())), H5Sclose);
  const std::array<hsize_t, 2> panel = {8192, 8192};
  const io::H5Handle memory(SHARD8_H5(path, H5Screate_simple(2, panel.data(), nullptr)), H5Sclose);
  for (hsize_t row = 0; row < 32768; row += panel[0]) {
    const std::array<hsize_t, 2> at = {row, 0};
    SHARD8_H5(path, H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, at.data(), nullptr, panel.data(), nullptr));
    SHARD8_H5(path, H5Dread(data.id(), H5T_NATIVE_FLOAT, memory.id(), space.id(), H5P_DEFAULT, out.data()));
  }
}

void run(const std::string& folder, std::uint64_t gib) {
  io::IoThread io;
  const auto boxes = tensors(gib);
  const auto values = test::random_bytes(boxes[0].bytes(), 1);
  test::Bytes out = values;  // its pages are there
  const std::string path = folder + "/bench_shard_file.h5", chunked = folder + "/bench_chunked.h5";
  const std::uint64_t all = gib << 30, one = std::uint64_t{1} << 30;
  std::uint64_t sum = 0;
  measure("digest of 4 MiB blocks", one, [&] {
    for (std::uint64_t at = 0; at < one; at += io::kShardBlock) {
      sum += io::digest64(std::span(values).subspan(at % values.size(), io::kShardBlock));
    }
  });
  io::ShardSummary summary;
  measure("write a shard file, fsync", all, [&] {
    io::ShardWriter writer(io, path, {"bench", 1}, boxes);
    for (std::size_t i = 0; i < boxes.size(); ++i) writer.write(i, 0, values);
    summary = writer.finish();
  });
  measure("read it warm, digests checked", all, [&] {
    const io::ShardReader reader(path, summary);
    for (std::size_t i = 0; i < boxes.size(); ++i) reader.read(i, boxes[i].box, out.data(), 8192 * sizeof(float));
    reader.verify_rest();
  });
  SHARD8_REQUIRE(sum != 0 && out == values, "read other values");
  ::unlink(path.c_str());
  measure("H5Dwrite in chunks, fsync", one, [&] {
    io.call([&] { write_chunked(chunked, values); });
    sync_file(chunked);
  });
  measure("H5Dread of the chunks, warm", one, [&] { io.call([&] { read_chunked(chunked, out); }); });
  SHARD8_REQUIRE(out == values, "read other values");
  ::unlink(chunked.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: %s FOLDER GIB [REPEATS]\n", argv[0]);
    return 2;
  }
  try {
    for (int i = argc > 3 ? std::atoi(argv[3]) : 1; i > 0; --i) run(argv[1], std::strtoull(argv[2], nullptr, 10));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
