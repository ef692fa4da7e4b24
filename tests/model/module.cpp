// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/model/module.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "train/state.hpp"

namespace shard8::tests {

using tensor::BFloat16;
using tensor::DType;
using tensor::Tensor;

std::vector<Setting> settings() {
  return {{deck::Arch::llama, DType::fp32},
          {deck::Arch::gpt2, DType::fp32},
          {deck::Arch::llama, DType::bf16},
          {deck::Arch::gpt2, DType::bf16}};
}

std::string name_of(const Setting& setting) {
  return fmt::format("{}{} in {}", setting.arch == deck::Arch::llama ? "llama" : "gpt2",
                     setting.qk_norm ? " with norms of queries and keys" : "", name_of(setting.compute));
}

deck::ModelConfig small_model(deck::Arch arch) {
  deck::ModelConfig m;
  m.arch = arch;
  m.hidden = 32;
  m.ffn = 48;
  m.layers = 1;
  m.heads = 8;
  m.kv_heads = arch == deck::Arch::llama ? 4 : 8;
  m.vocab = 257;
  m.seq = 6;
  return m;
}

deck::ModelConfig small_model(const Setting& setting) {
  deck::ModelConfig m = small_model(setting.arch);
  if (!setting.qk_norm) return m;
  m.qk_norm = true;
  m.head_dim = 6;
  return m;
}

namespace {

double rounded(double x, DType dtype) {
  const auto f = static_cast<float>(x);
  return static_cast<double>(dtype == DType::bf16 ? static_cast<float>(BFloat16(f)) : f);
}

void poison(const Tensor& t) { std::memset(t.data, 0xff, t.bytes()); }

int all_ranks() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

tensor::Arena poisoned_arena(std::int64_t bytes) {
  tensor::Arena arena("modules", tensor::MemoryKind::activations, static_cast<std::size_t>(bytes));
  poison(arena.allocate({bytes}, DType::u8));
  arena.release(0);
  return arena;
}

/// Changes weights so that the columns of linears' inputs differ in size (Module::wide), while the linears' results
/// stay about the same: the columns of the weights are divided by the same factors.
void widen(Matrix& m, const model::ParameterSpec& p, const deck::ModelConfig& model) {
  const bool norm = p.name.find("norm") != std::string::npos;
  const bool after_norm = p.linear == fp8::Linear::qkv || p.linear == fp8::Linear::fc1;
  const std::int64_t head_dim = model.head_width();
  // Rows of qkv that give values set the columns of proj's input; rows of `up` (llama) set those of fc2's input.
  const std::int64_t first = p.linear == fp8::Linear::qkv ? p.rows - model.kv_heads * head_dim
                             : p.linear == fp8::Linear::fc1 && model.arch == deck::Arch::llama ? model.ffn
                                                                                               : p.rows;
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < m.cols; ++c) {
      if (norm) m(r, c) *= Module::wide(r);
      if (after_norm) m(r, c) /= Module::wide(c);
      if (r >= first) m(r, c) *= Module::wide((r - first) % head_dim);
      if (p.linear == fp8::Linear::proj || (p.linear == fp8::Linear::fc2 && model.arch == deck::Arch::llama))
        m(r, c) /= Module::wide(c % head_dim);
    }
}

}  // namespace

double Module::wide(std::int64_t index) { return std::ldexp(1.0, static_cast<int>(index * 5 % 11) - 5); }

Matrix Module::widened(Matrix m, int rows, int cols) {
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < m.cols; ++c) m(r, c) *= std::pow(wide(r), rows) * std::pow(wide(c), cols);
  return m;
}

namespace {

std::int64_t workspace_bytes(const deck::ModelConfig& model, std::int64_t batch, DType compute,
                             const fp8::Recipe& recipe, int threads) {
  deck::Config deck;
  deck.model = model;
  deck.data.batch = batch;
  deck.mesh.tensor = all_ranks();
  deck.precision.compute = compute == DType::bf16 ? deck::FloatType::bf16 : deck::FloatType::fp32;
  deck.fsdp.gather = deck::Gather::fp32;
  train::Setup setup = train::Setup::make(deck, 0, threads);
  setup.weights.recipe = recipe;
  return static_cast<std::int64_t>(train::workspace_bytes(setup));
}

}  // namespace

Module::Module(const deck::ModelConfig& m, DType compute, std::int64_t batch, std::int64_t arena_bytes,
               const fp8::Recipe& with)
    : model(m),
      recipe(with),
      group(MPI_COMM_WORLD, "tensor", comm::Waiting::yield, nullptr),
      dims(model::Dims::make(m, batch, all_ranks(), compute)),
      arena_(poisoned_arena(arena_bytes)),
      executor_(exec_, timer_),
      state_(recipe, arena_),
      quantizer_(state_, executor_, group),
      context{executor_, group,
              arena_.allocate({workspace_bytes(model, batch, compute, recipe, exec_.concurrency())}, DType::u8),
              recipe.on() ? &quantizer_ : nullptr},
      units_(model::make_units(m, base::Place({1, 1, group.size()}, group.rank()))),
      whole_units_(model::make_units(m)) {
  state_.prepare(exec_);
}

Matrix Module::random(std::int64_t rows, std::int64_t cols, unsigned seed, double scale, double mean) const {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> draw(mean, scale);
  Matrix m(rows, cols);
  for (double& v : m.values) v = rounded(draw(engine), dims.compute);
  return m;
}

const std::vector<Matrix>& Module::whole_weights(int unit) const {
  std::vector<Matrix>& all = whole_weights_[unit];
  if (!all.empty()) return all;
  for (const auto& p : whole_units_[static_cast<std::size_t>(unit)].parameters) {
    const auto seed = static_cast<unsigned>(100 * unit) + static_cast<unsigned>(all.size());
    const bool weight = p.initial == model::Initial::normal;
    const double normal = recipe.on() ? 1.1 / std::sqrt(static_cast<double>(p.cols)) : 0.2;
    Matrix m = random(p.rows, p.cols, seed, weight ? normal : 0.1, p.initial == model::Initial::ones ? 1 : 0);
    if (recipe.on()) widen(m, p, model);
    all.push_back(std::move(m));
  }
  return all;
}

std::vector<std::int64_t> Module::rows_of(int unit, int parameter) const {
  const auto u = static_cast<std::size_t>(unit), p = static_cast<std::size_t>(parameter);
  const auto& mine = units_[u].parameters[p];
  const auto& whole = whole_units_[u].parameters[p];
  std::vector<std::int64_t> rows(static_cast<std::size_t>(mine.rows), -1);
  for (std::size_t b = 0; b < mine.sources.size(); ++b) {
    const auto &part = mine.sources[b], &all = whole.sources[b];
    EXPECT_EQ(part.name, all.name);
    for (std::int64_t r = 0; r < part.box.rows; ++r)
      rows[static_cast<std::size_t>(part.local_row + r)] = all.local_row + part.box.row0 + r - all.box.row0;
  }
  return rows;
}

std::int64_t Module::column_of(int unit, int parameter) const {
  return units_[static_cast<std::size_t>(unit)]
      .parameters[static_cast<std::size_t>(parameter)]
      .sources.front()
      .box.col0;
}

std::vector<Tensor> Module::weights(int unit) {
  const auto& whole = whole_weights(unit);
  std::vector<Tensor> all;
  for (const auto& p : units_[static_cast<std::size_t>(unit)].parameters) {
    const Tensor t = put(part_of(unit, static_cast<int>(all.size()), whole[all.size()]));
    all.push_back(p.vector ? t.reshaped({p.rows}) : t);
  }
  return all;
}

Matrix Module::part_of(int unit, int parameter, const Matrix& whole) const {
  const auto& p = units_[static_cast<std::size_t>(unit)].parameters[static_cast<std::size_t>(parameter)];
  const auto rows = rows_of(unit, parameter);
  const auto col = column_of(unit, parameter);
  Matrix part(p.rows, p.cols);
  for (std::int64_t r = 0; r < p.rows; ++r)
    for (std::int64_t c = 0; c < p.cols; ++c)
      if (const auto row = rows[static_cast<std::size_t>(r)]; row >= 0) part(r, c) = whole(row, col + c);
  return part;
}

std::vector<Tensor> Module::gradients(int unit) {
  std::vector<Tensor> all;
  for (const auto& p : units_[static_cast<std::size_t>(unit)].parameters) {
    const Tensor t = arena_.allocate(p.vector ? tensor::Shape{p.rows} : tensor::Shape{p.rows, p.cols}, DType::fp32);
    if (p.gradient_overwritten)
      poison(t);
    else
      std::memset(t.data, 0, t.bytes());
    all.push_back(t);
  }
  return all;
}

Matrix Module::whole_gradient(int unit, int parameter, const Tensor& local) const {
  const auto& p = whole_units_[static_cast<std::size_t>(unit)].parameters[static_cast<std::size_t>(parameter)];
  const auto rows = rows_of(unit, parameter);
  const auto col = column_of(unit, parameter);
  const Matrix mine = get(local);
  Matrix whole(p.rows, p.cols);
  for (std::int64_t r = 0; r < mine.rows; ++r)
    for (std::int64_t c = 0; c < mine.cols; ++c) {
      const auto row = rows[static_cast<std::size_t>(r)];
      if (row >= 0)
        whole(row, col + c) = mine(r, c);
      else
        EXPECT_EQ(mine(r, c), 0) << p.name << ": gradient of padding row " << r;
    }
  return sum(std::move(whole));
}

Matrix Module::sum(Matrix m) const {
  MPI_Allreduce(MPI_IN_PLACE, m.values.data(), static_cast<int>(m.values.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return m;
}

Tensor Module::put(const Matrix& m) {
  const Tensor t = output(m.rows, m.cols);
  for (std::int64_t i = 0; i < t.count(); ++i) {
    const auto value = static_cast<float>(m.values[static_cast<std::size_t>(i)]);
    if (t.dtype == DType::bf16)
      t.as<BFloat16>()[i] = BFloat16(value);
    else
      t.as<float>()[i] = value;
  }
  return t;
}

Tensor Module::put_tokens(const Matrix& m) {
  const std::int64_t n = m.rows / group.size();
  return put(m.row_range(rank() * n, n));
}

Tensor Module::output(std::int64_t rows, std::int64_t cols) {
  const Tensor t = arena_.allocate({rows, cols}, dims.compute);
  poison(t);
  return t;
}

Matrix Module::columns(const Matrix& m, const std::vector<std::int64_t>& which) {
  Matrix part(m.rows, static_cast<std::int64_t>(which.size()));
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < part.cols; ++c) part(r, c) = m(r, which[static_cast<std::size_t>(c)]);
  return part;
}

Matrix Module::get(const Tensor& t) {
  Matrix m(t.rows(), t.cols());
  for (std::int64_t i = 0; i < t.count(); ++i)
    m.values[static_cast<std::size_t>(i)] =
        t.dtype == DType::bf16 ? static_cast<double>(static_cast<float>(t.as<BFloat16>()[i])) : t.as<float>()[i];
  return m;
}

namespace {

/// The values of all ranks, one rank after the other. Modules write fp32 or narrower types, so fp32 holds them.
std::vector<float> gathered(const Matrix& mine, int ranks) {
  const std::vector<float> own(mine.values.begin(), mine.values.end());
  std::vector<float> all(own.size() * static_cast<std::size_t>(ranks));
  const auto count = static_cast<int>(own.size());
  MPI_Allgather(own.data(), count, MPI_FLOAT, all.data(), count, MPI_FLOAT, MPI_COMM_WORLD);
  return all;
}

}  // namespace

Matrix Module::whole_tokens(const Matrix& mine) const {
  Matrix whole(mine.rows * group.size(), mine.cols);
  const auto all = gathered(mine, group.size());
  whole.values.assign(all.begin(), all.end());
  return whole;
}

Matrix Module::whole_columns(const Matrix& mine, const std::vector<std::int64_t>& which, std::int64_t cols) const {
  const auto all = gathered(mine, group.size());
  std::vector<std::int64_t> columns(which.size() * static_cast<std::size_t>(group.size()));
  const auto count = static_cast<int>(which.size());
  MPI_Allgather(which.data(), count, MPI_INT64_T, columns.data(), count, MPI_INT64_T, MPI_COMM_WORLD);
  Matrix whole(mine.rows, cols);
  for (int rank = 0; rank < group.size(); ++rank)
    for (std::int64_t r = 0; r < mine.rows; ++r)
      for (std::int64_t c = 0; c < mine.cols; ++c)
        whole(r, columns[static_cast<std::size_t>(rank * mine.cols + c)]) =
            static_cast<double>(all[static_cast<std::size_t>((rank * mine.rows + r) * mine.cols + c)]);
  return whole;
}

}  // namespace shard8::tests
