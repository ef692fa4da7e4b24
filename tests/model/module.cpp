// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/model/module.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "model/workspace.hpp"
#include "tests/support/compare.hpp"

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
  return fmt::format("{} in {}", setting.arch == deck::Arch::llama ? "llama" : "gpt2", name_of(setting.compute));
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

}  // namespace

Module::Module(const deck::ModelConfig& m, DType compute, std::int64_t batch, std::int64_t arena_bytes)
    : model(m),
      group(MPI_COMM_WORLD, "tensor", comm::Waiting::yield, nullptr),
      dims(model::Dims::make(m, batch, all_ranks(), compute)),
      arena_(poisoned_arena(arena_bytes)),
      context{
          exec_, group, timer_,
          arena_.allocate({static_cast<std::int64_t>(model::workspace_bytes(dims, exec_.concurrency()))}, DType::u8)},
      units_(model::make_units(m, group.size(), group.rank())),
      whole_units_(model::make_units(m, 1, 0)) {}

Matrix Module::random(std::int64_t rows, std::int64_t cols, unsigned seed, double scale, double mean) const {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> draw(mean, scale);
  Matrix m(rows, cols);
  for (double& v : m.values) v = rounded(draw(engine), dims.compute);
  return m;
}

std::vector<Matrix> Module::whole_weights(int unit) const {
  std::vector<Matrix> all;
  for (const auto& p : whole_units_[static_cast<std::size_t>(unit)].parameters) {
    const auto seed = static_cast<unsigned>(100 * unit) + static_cast<unsigned>(all.size());
    const bool weight = p.initial == model::Initial::normal;
    all.push_back(random(p.rows, p.cols, seed, weight ? 0.2 : 0.1, p.initial == model::Initial::ones ? 1 : 0));
  }
  return all;
}

std::vector<std::int64_t> Module::rows_of(int unit, int parameter) const {
  const auto u = static_cast<std::size_t>(unit), p = static_cast<std::size_t>(parameter);
  const auto& mine = units_[u].parameters[p];
  const auto& whole = whole_units_[u].parameters[p];
  std::vector<std::int64_t> rows(static_cast<std::size_t>(mine.rows), -1);
  for (std::size_t b = 0; b < mine.boxes.size(); ++b) {
    const auto &part = mine.boxes[b], &all = whole.boxes[b];
    EXPECT_EQ(part.name, all.name);
    for (std::int64_t r = 0; r < part.rows; ++r)
      rows[static_cast<std::size_t>(part.local_row + r)] = all.local_row + part.row + r - all.row;
  }
  return rows;
}

std::int64_t Module::column_of(int unit, int parameter) const {
  const auto& boxes = units_[static_cast<std::size_t>(unit)].parameters[static_cast<std::size_t>(parameter)].boxes;
  return boxes.empty() ? 0 : boxes.front().col;
}

std::vector<Tensor> Module::weights(int unit) {
  const auto whole = whole_weights(unit);
  std::vector<Tensor> all;
  for (const auto& p : units_[static_cast<std::size_t>(unit)].parameters) {
    const int index = static_cast<int>(all.size());
    const auto rows = rows_of(unit, index);
    const auto col = column_of(unit, index);
    Matrix part(p.rows, p.cols);
    for (std::int64_t r = 0; r < p.rows; ++r)
      for (std::int64_t c = 0; c < p.cols; ++c)
        if (const auto row = rows[static_cast<std::size_t>(r)]; row >= 0) part(r, c) = whole[all.size()](row, col + c);
    const Tensor t = put(part);
    all.push_back(p.vector ? t.reshaped({p.rows}) : t);
  }
  return all;
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

Matrix Module::whole_tokens(const Tensor& local) const {
  const Matrix mine = get(local);
  Matrix whole(mine.rows * group.size(), mine.cols);
  std::copy(mine.values.begin(), mine.values.end(), whole.values.begin() + rank() * mine.rows * mine.cols);
  return sum(std::move(whole));
}

Matrix Module::whole_columns(const Tensor& local, const std::vector<std::int64_t>& which, std::int64_t cols) const {
  const Matrix mine = get(local);
  Matrix whole(mine.rows, cols);
  for (std::int64_t r = 0; r < mine.rows; ++r)
    for (std::int64_t c = 0; c < mine.cols; ++c) whole(r, which[static_cast<std::size_t>(c)]) = mine(r, c);
  return sum(std::move(whole));
}

void Module::expect_close(const std::string& what, const Matrix& got, const Matrix& want) const {
  double largest = 0;
  for (const double v : want.values) largest = std::max(largest, std::abs(v));
  // An element is a sum of terms of the tensor's own size, through up to ten operations. fp32: some
  // roundings of 2^-24 of them. bf16: each operation rounds to 2^-9.
  const bool bf16 = dims.compute == DType::bf16;
  const double allowed = (bf16 ? 16 * 0x1p-9 : 32 * 0x1p-24) * largest;
  EXPECT_TRUE(all_close(got.values, want.values, {0, allowed}))
      << what << " (" << want.rows << ", " << want.cols << ") in " << name_of(dims.compute) << " on " << group.size()
      << " ranks";
  const double distance = relative_distance(got.values, want.values);
  EXPECT_LE(distance, bf16 ? 10 * 0x1p-9 : 8 * 0x1p-24) << what;
}

void Module::expect_gradients(int unit, const std::vector<Tensor>& local, const std::vector<Var>& leaves) const {
  for (std::size_t p = 0; p < local.size(); ++p) {
    const auto& name = units_[static_cast<std::size_t>(unit)].parameters[p].name;
    expect_close("gradient of " + name, whole_gradient(unit, static_cast<int>(p), local[p]), leaves[p]->gradient);
  }
}

std::vector<Var> leaves_of(reference::Graph& graph, const Module& module, int unit) {
  std::vector<Var> leaves;
  for (const Matrix& m : module.whole_weights(unit)) leaves.push_back(graph.leaf(m));
  return leaves;
}

}  // namespace shard8::tests
