// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/random/random_deck.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "model/parameters.hpp"
#include "tensor/transfer.hpp"
#include "tests/io/h5_writer.hpp"
#include "tests/io/safetensors_bytes.hpp"
#include "tests/random/trial.hpp"
#include "tests/train/checkpointed.hpp"

namespace shard8::test {

namespace {

/// A tensor as files have it.
struct Weights {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// The deck on one rank, with masters in fp32 and no checkpoints.
deck::Config for_weights(const deck::Config& config) {
  deck::Config c = alone_in_fp32(config).value_or(alone(config));
  c.output.trace.clear();
  c.model.init_file.clear();
  c.checkpoint.restart = deck::CheckpointConfig::kNoRestart;
  c.checkpoint.async = false;
  return c;
}

/// A tensor of a file may be the source of several parts of a fused parameter.
std::vector<Weights> weights_of(const deck::Config& config) {
  Training training(config, MPI_COMM_SELF);
  std::map<std::string, Weights> all;
  const auto& buffers = training.trainer().state().units;
  for (std::size_t u = 0; u < training.setup().units.size(); ++u) {
    const auto& unit = training.setup().units[u];
    for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
      const fsdp::WeightForms& weight = buffers.weights(static_cast<int>(u))[p];
      for (const auto& source : unit.parameters[p].sources) {
        const auto part = model::shard_part(source, weight.first_row(), weight.owned_rows());
        const io::Box& box = part.stored.box;
        const std::int64_t rows = source.stored_rows(), cols = source.stored_cols();
        const auto ours = tensor::to_host<float>(training.exec(), weight.master.slice(part.row, part.rows));
        Weights& w = all[source.name];
        w.name = source.name;
        w.shape = unit.parameters[p].vector ? std::vector{rows * cols} : std::vector{rows, cols};
        w.values.resize(static_cast<std::size_t>(rows * cols));
        for (std::int64_t r = box.row0; r < box.row0 + box.rows; ++r)
          for (std::int64_t c = box.col0; c < box.col0 + box.cols; ++c)
            w.values[static_cast<std::size_t>(r * cols + c)] = ours[static_cast<std::size_t>(part.stored.at(r, c))];
      }
    }
  }
  std::vector<Weights> list;
  for (auto& [name, w] : all) list.push_back(std::move(w));
  return list;
}

/// Says of a dataset of integers that they are the bits of fp32.
void mark_bits(hid_t file, const std::string& name) {
  const std::string type_name = "fp32";
  const io::H5Handle dataset(SHARD8_H5(name, H5Dopen2(file, name.c_str(), H5P_DEFAULT)), H5Dclose);
  const io::H5Handle type(SHARD8_H5(name, H5Tcopy(H5T_C_S1)), H5Tclose);
  SHARD8_H5(name, H5Tset_size(type.id(), type_name.size()));
  const io::H5Handle space(SHARD8_H5(name, H5Screate(H5S_SCALAR)), H5Sclose);
  const io::H5Handle attribute(
      SHARD8_H5(name, H5Acreate2(dataset.id(), "dtype", type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT)), H5Aclose);
  SHARD8_H5(name, H5Awrite(attribute.id(), type.id(), type_name.data()));
}

/// In a group, in chunks with checksums, as the gold files have them; or, with `bits`, in the root group as integers.
void write_hdf5(const std::string& path, const std::vector<Weights>& all, bool bits) {
  H5Writer file(path);
  if (!bits) file.group("init");
  for (const Weights& w : all) {
    const std::vector<hsize_t> shape(w.shape.begin(), w.shape.end());
    std::vector<hsize_t> chunk = shape;
    chunk[0] = (chunk[0] + 1) / 2;
    if (!bits) {
      file.dataset("init/" + w.name, H5T_IEEE_F32LE, shape, w.values, chunk);
      continue;
    }
    std::vector<std::int32_t> integers;
    for (const float value : w.values) integers.push_back(std::bit_cast<std::int32_t>(value));
    file.dataset(w.name, H5T_STD_I32LE, shape, integers);
    mark_bits(file.id(), w.name);
  }
  file.close();
}

/// Some checkpoints of GPT-2 have names without the first part.
void write_safetensors(const std::string& path, const std::vector<Weights>& all) {
  std::string header, data;
  for (const Weights& w : all) {
    constexpr std::string_view kPrefix = "transformer.";
    const std::string name = w.name.starts_with(kPrefix) ? w.name.substr(kPrefix.size()) : w.name;
    const std::size_t begin = data.size();
    data += bytes_of(w.values);
    header += (header.empty() ? "{" : ",") +
              entry(name, "F32", fmt::format("{}", fmt::join(w.shape, ",")), begin, data.size());
  }
  const std::string bytes = safetensors(header + "}", data);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void write_checkpoint(const std::string& folder, deck::Config config) {
  config.checkpoint.dir = folder;
  CheckpointedTraining run(config, MPI_COMM_SELF);
  const bool written = run.checkpoints->write_now(0, 0);
  run.checkpoints->finish();
  SHARD8_REQUIRE(written, "no checkpoint of initial weights was written: {}", run.said);
}

}  // namespace

std::string weight_path(WeightFile kind, const std::string& folder) {
  switch (kind) {
    case WeightFile::hdf5:
      return folder + "/weights.h5:/init";
    case WeightFile::hdf5_bits:
      return folder + "/weights.h5";
    case WeightFile::safetensors:
      return folder + "/model.safetensors";
    default:
      return folder;
  }
}

void write_weights(WeightFile kind, const std::string& folder, const deck::Config& config) {
  std::filesystem::create_directories(folder);
  const deck::Config one = for_weights(config);
  if (kind == WeightFile::checkpoint) return write_checkpoint(folder, one);
  const std::vector<Weights> all = weights_of(one);
  if (kind == WeightFile::safetensors) return write_safetensors(folder + "/model.safetensors", all);
  write_hdf5(folder + "/weights.h5", all, kind == WeightFile::hdf5_bits);
}

}  // namespace shard8::test
