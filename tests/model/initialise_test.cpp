// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/weight_file.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/io_thread.hpp"
#include "tensor/transfer.hpp"
#include "tests/io/files.hpp"
#include "tests/io/safetensors_bytes.hpp"

// Master shards that are read from a file, with sizes of which the parts of a rank have one row or one column.

namespace shard8 {
namespace {

struct Sizes {
  std::int64_t hidden, ffn, heads;
};

deck::ModelConfig model_of(deck::Arch arch, const Sizes& sizes) {
  deck::ModelConfig m;
  m.arch = arch;
  m.hidden = sizes.hidden, m.ffn = sizes.ffn, m.heads = sizes.heads, m.kv_heads = sizes.heads;
  m.layers = 1, m.vocab = 5, m.seq = 3;
  return m;
}

/// A tensor as a file holds it.
struct Stored {
  std::string extents;  ///< separated by commas
  std::vector<float> values;
};
using Stores = std::map<std::string, Stored>;

/// The tensors of a model, by name: all their elements are different numbers.
Stores tensors_of(const deck::ModelConfig& model) {
  Stores tensors;
  float next = 1;
  for (const model::UnitSpec& unit : model::make_units(model))
    for (const model::ParameterSpec& parameter : unit.parameters)
      for (const model::SourceBox& source : parameter.sources) {
        const auto [place, is_new] = tensors.try_emplace(source.name);
        if (!is_new) continue;
        const std::int64_t rows = source.stored_rows(), cols = source.stored_cols();
        place->second.extents = parameter.vector ? fmt::format("{}", rows) : fmt::format("{},{}", rows, cols);
        place->second.values.resize(static_cast<std::size_t>(rows * cols));
        for (float& value : place->second.values) value = next++;
      }
  return tensors;
}

/// Writes the tensors to a file of weights. The last value of the tensor `wide` is `value`, in FP64 as all of them.
void write(const std::string& path, const Stores& tensors, const std::string& wide = {}, double value = 0) {
  std::string header, data;
  for (const auto& [name, stored] : tensors) {
    std::vector<double> values(stored.values.begin(), stored.values.end());
    values.back() = value;
    const bool fp64 = name == wide;
    const std::string bytes = fp64 ? test::bytes_of(values) : test::bytes_of(stored.values);
    header += (header.empty() ? "{" : ",") +
              test::entry(name, fp64 ? "F64" : "F32", stored.extents, data.size(), data.size() + bytes.size());
    data += bytes;
  }
  test::write_bytes(path, test::safetensors(header + "}", data));
}

/// The (rows, cols) of a tensor rank's parameter, each element from its place in the file; 0 where it has none.
std::vector<float> expected(const model::ParameterSpec& parameter, const Stores& tensors) {
  std::vector<float> values(static_cast<std::size_t>(parameter.rows * parameter.cols));
  for (const model::SourceBox& source : parameter.sources)
    for (std::int64_t r = 0; r < source.box.rows; ++r)
      for (std::int64_t c = 0; c < parameter.cols; ++c) {
        const std::int64_t out = source.box.row0 + r, in = source.box.col0 + c;
        const std::int64_t at =
            source.stored_transposed ? in * source.stored_cols() + out : out * source.stored_cols() + in;
        values[static_cast<std::size_t>((source.local_row + r) * parameter.cols + c)] =
            tensors.at(source.name).values.at(static_cast<std::size_t>(at));
      }
  return values;
}

/// Initialises the shards of each rank from the file, and compares each of their elements.
void expect_read(const io::TensorFile& file, const Stores& tensors, const deck::ModelConfig& model, int shards,
                 int tensor_ranks) {
  const tensor::Exec exec;
  const base::Extents mesh(1, shards, tensor_ranks);
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    fsdp::Options options;
    options.place = base::Place(mesh, rank);
    const auto units = model::make_units(model, options.place);
    const auto shapes = model::unit_shapes(units);
    auto measured = tensor::ArenaSet::measure();
    const fsdp::UnitBuffers sizes(shapes, options, measured);
    tensor::ArenaSet arenas(measured.bytes());
    const fsdp::UnitBuffers buffers(shapes, options, arenas);
    model::initialise(exec, buffers, units, 0, &file);
    for (std::size_t u = 0; u < units.size(); ++u)
      for (std::size_t p = 0; p < units[u].parameters.size(); ++p) {
        const model::ParameterSpec& parameter = units[u].parameters[p];
        const auto& layout = buffers.weights(static_cast<int>(u))[p].layout;
        std::vector<float> whole = expected(parameter, tensors);
        whole.resize(static_cast<std::size_t>(layout.padded_rows() * parameter.cols));
        const auto first = whole.begin() + layout.first_row(options.place[base::Axis::shard]) * parameter.cols;
        const std::vector<float> mine(first, first + layout.rows_per_shard * parameter.cols);
        EXPECT_EQ(tensor::to_host<float>(exec, buffers.weights(static_cast<int>(u))[p].master), mine)
            << parameter.name << ", rank " << rank << " of " << shards << " x " << tensor_ranks;
      }
  }
}

TEST(Initialise, ReadsPartsOfOneRowOrColumn) {
  using deck::Arch;
  // GPT-2 keeps the weights of its linears transposed: with hidden 1 or hidden 2 on two tensor ranks, and with ffn 1, a
  // rank's part of such a tensor has one row. Two columns need more than one value in it.
  const std::vector<std::pair<Arch, Sizes>> models = {
      {Arch::gpt2, {1, 4, 1}},  {Arch::gpt2, {2, 4, 2}},  {Arch::gpt2, {4, 1, 2}},  {Arch::gpt2, {1, 1, 1}},
      {Arch::gpt2, {8, 12, 2}}, {Arch::llama, {4, 1, 2}}, {Arch::llama, {8, 12, 2}}};
  for (const auto& [arch, sizes] : models) {
    const deck::ModelConfig model = model_of(arch, sizes);
    const auto tensors = tensors_of(model);
    const test::TempFolder folder;
    write(folder / "w.safetensors", tensors);
    io::IoThread io;
    const auto file = io::open_tensor_file(io, folder / "w.safetensors");
    for (const int ranks : {1, 2}) {
      if (sizes.heads % ranks != 0 || sizes.ffn % ranks != 0) continue;
      for (const int shards : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{}, hidden {}, ffn {}, {} tensor ranks", arch == Arch::gpt2 ? "gpt2" : "llama",
                                 sizes.hidden, sizes.ffn, ranks));
        ASSERT_NO_THROW(expect_read(*file, tensors, model, shards, ranks));
      }
    }
  }
}

/// FP8 casts would saturate them, and nobody would hear of it.
TEST(Initialise, RefusesValuesThatAreNotFinite) {
  for (const deck::Arch arch : {deck::Arch::gpt2, deck::Arch::llama})
    for (const char* value : {"inf", "-inf", "nan"}) {
      const deck::ModelConfig model = model_of(arch, {8, 12, 2});
      auto tensors = tensors_of(model);
      auto& [name, stored] = *std::prev(tensors.end());
      stored.values.back() = std::stof(value);
      const test::TempFolder folder;
      write(folder / "w.safetensors", tensors);
      io::IoThread io;
      const auto file = io::open_tensor_file(io, folder / "w.safetensors");
      test::expect_error([&] { expect_read(*file, tensors, model, 1, 1); }, base::ExitCode::deck,
                         {"w.safetensors", "tensor '" + name + "' has the value " + value, "repair the file"});
    }
}

/// The file is sound, but masters are fp32.
TEST(Initialise, RefusesValuesBeyondFp32) {
  for (const deck::Arch arch : {deck::Arch::gpt2, deck::Arch::llama}) {
    const deck::ModelConfig model = model_of(arch, {8, 12, 2});
    const auto tensors = tensors_of(model);
    const std::string layer = arch == deck::Arch::gpt2 ? "transformer.h.0." : "model.layers.0.";
    const std::string name = layer + (arch == deck::Arch::gpt2 ? "mlp.c_fc.weight" : "mlp.down_proj.weight");
    const test::TempFolder folder;
    const std::string path = folder / "w.safetensors";
    io::IoThread io;
    write(path, tensors, name, 1e300);
    const auto wide = io::open_tensor_file(io, path);
    const std::string what = "tensor '" + name + "' has the value 1e+300 in row 7, column 11, which fp32";
    test::expect_error([&] { expect_read(*wide, tensors, model, 1, 1); }, base::ExitCode::deck,
                       {what, "set model.init_file to weights within fp32"});
    write(path, tensors, name, std::numeric_limits<double>::infinity());
    const auto infinite = io::open_tensor_file(io, path);
    test::expect_error([&] { expect_read(*infinite, tensors, model, 1, 1); }, base::ExitCode::deck,
                       {"has the value inf in row 7, column 11", "repair the file"});
  }
}

}  // namespace
}  // namespace shard8
