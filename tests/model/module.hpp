// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <map>
#include <string>
#include <vector>

#include "model/dims.hpp"
#include "model/parameters.hpp"
#include "model/products.hpp"
#include "tensor/arena.hpp"
#include "tests/model/reference/reference.hpp"

namespace shard8::tests {

using reference::Matrix;
using reference::Var;

struct Setting {
  deck::Arch arch = deck::Arch::llama;
  tensor::DType compute = tensor::DType::fp32;
  bool qk_norm = false;
};
/// llama and gpt2, in fp32 and bf16.
std::vector<Setting> settings();
std::string name_of(const Setting& setting);

/// A model of one layer whose sizes divide by 4 ranks, with as few key heads as possible, and a vocabulary that does
/// not divide by 4.
deck::ModelConfig small_model(deck::Arch arch);
/// The same; with norms of queries and keys its heads are not hidden / heads wide.
deck::ModelConfig small_model(const Setting& setting);

/// Everything that a module of a model needs on this rank, in a tensor group of all ranks. It cuts whole matrices,
/// which every rank holds, into the ranks' parts, and puts parts together to whole matrices.
class Module {
 public:
  Module(const deck::ModelConfig& model, tensor::DType compute, std::int64_t batch = 4,
         std::int64_t arena_bytes = std::int64_t{4} << 20, const fp8::Recipe& recipe = {});

  const deck::ModelConfig model;
  const fp8::Recipe recipe;
  const comm::Communicator group;
  const model::Dims dims;

 private:
  tensor::Arena arena_;
  tensor::Exec exec_;
  profile::StepTimer timer_;
  operation::Executor executor_;
  fp8::ScalingState state_;
  fp8::Quantizer quantizer_;

 public:
  const model::Context context;
  tensor::Arena& arena() { return arena_; }
  fp8::ScalingState& state() { return state_; }
  const fp8::ScalingState& state() const { return state_; }
  int rank() const { return group.rank(); }

  /// Normally distributed values, the same on every rank, rounded to the compute type.
  Matrix random(std::int64_t rows, std::int64_t cols, unsigned seed, double scale = 1, double mean = 0) const;

  /// Whole parameters of a unit, fused as with one tensor rank. With a recipe the columns of linears' inputs differ
  /// much in size (wide()), so that blocks of a wrong shape would give other values.
  const std::vector<Matrix>& whole_weights(int unit) const;
  /// This rank's parts of them, in the compute type, cut by the boxes of model::make_units.
  std::vector<tensor::Tensor> weights(int unit);
  /// This rank's part of a whole parameter.
  Matrix part_of(int unit, int parameter, const Matrix& whole) const;
  const model::ParameterSpec& whole_parameter(int unit, int parameter) const {
    return whole_units_[static_cast<std::size_t>(unit)].parameters[static_cast<std::size_t>(parameter)];
  }
  int parameters(int unit) const { return static_cast<int>(units_[static_cast<std::size_t>(unit)].parameters.size()); }
  /// Memory for their gradients: zeros, or NaN where a product overwrites the gradient.
  std::vector<tensor::Tensor> gradients(int unit);
  /// The whole gradient, put together from all ranks' parts; of replicated parameters their sum. Expects that padding
  /// is zero. Collective.
  Matrix whole_gradient(int unit, int parameter, const tensor::Tensor& local) const;
  /// For each row of this rank's part of a parameter, its row in the whole parameter; -1 for padding.
  std::vector<std::int64_t> rows_of(int unit, int parameter) const;
  /// First column of this rank's part.
  std::int64_t column_of(int unit, int parameter) const;

  /// New tensors in the compute type: all of m, this rank's tokens (rows) of m, or (rows, cols) NaN.
  tensor::Tensor put(const Matrix& m);
  tensor::Tensor put_tokens(const Matrix& m);
  tensor::Tensor output(std::int64_t rows, std::int64_t cols);
  /// m with row r or column c multiplied by wide(r)^rows·wide(c)^cols, 2^-5 … 2^5.
  static Matrix widened(Matrix m, int rows, int cols);
  static double wide(std::int64_t index);
  /// Columns of m in the order of `which`.
  static Matrix columns(const Matrix& m, const std::vector<std::int64_t>& which);

  static Matrix get(const tensor::Tensor& t);
  /// The tokens of all ranks, in order. Collective.
  Matrix whole_tokens(const tensor::Tensor& local) const { return whole_tokens(get(local)); }
  Matrix whole_tokens(const Matrix& local) const;
  /// The whole matrix of `cols` columns, of which this rank has the columns `which`. Collective.
  Matrix whole_columns(const tensor::Tensor& local, const std::vector<std::int64_t>& which, std::int64_t cols) const {
    return whole_columns(get(local), which, cols);
  }
  Matrix whole_columns(const Matrix& local, const std::vector<std::int64_t>& which, std::int64_t cols) const;

  /// How much each element may differ by rounding in the compute type. Without a recipe it is in proportion to the
  /// largest element. With a recipe, whose rows and columns differ in size, it is in proportion to the element's own
  /// row and column.
  Matrix rounding(const Matrix& m) const;
  /// Whether got = want within rounding(want), and on the whole within a bound on the relative distance.
  testing::AssertionResult close(const Matrix& got, const Matrix& want) const;
  void expect_close(const std::string& what, const Matrix& got, const Matrix& want) const;
  /// Compares all gradients of a unit with those of its leaves.
  void expect_gradients(int unit, const std::vector<tensor::Tensor>& local, const std::vector<Var>& leaves) const;

 private:
  Matrix sum(Matrix m) const;
  std::vector<model::UnitSpec> units_, whole_units_;
  mutable std::map<int, std::vector<Matrix>> whole_weights_;
};

/// One leaf of the graph for each whole parameter of a unit.
std::vector<Var> leaves_of(reference::Graph& graph, const Module& module, int unit);

}  // namespace shard8::tests
