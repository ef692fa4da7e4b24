// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <map>
#include <string>
#include <vector>

#include "model/context.hpp"
#include "model/dims.hpp"
#include "model/parameters.hpp"
#include "tensor/arena.hpp"
#include "tests/model/reference/graph.hpp"

namespace shard8::tests {

using reference::Matrix;
using reference::Var;

struct Setting {
  deck::Arch arch = deck::Arch::llama;
  tensor::DType compute = tensor::DType::fp32;
};
/// llama and gpt2, in fp32 and bf16.
std::vector<Setting> settings();
std::string name_of(const Setting& setting);

/// One layer whose sizes divide by 4 ranks, with as few key heads as that allows, and a vocabulary
/// that does not divide.
deck::ModelConfig small_model(deck::Arch arch);

/// Everything that a module of a model needs on this rank of a tensor group of all ranks, and the
/// way from whole matrices, which every rank holds, to this rank's parts and back.
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
  fp8::ScalingState state_;
  fp8::Quantizer quantizer_;

 public:
  const model::Context context;
  tensor::Arena& arena() { return arena_; }
  fp8::ScalingState& state() { return state_; }
  const fp8::ScalingState& state() const { return state_; }
  int rank() const { return group.rank(); }

  /// Normal values that the compute type holds exactly, the same on every rank.
  Matrix random(std::int64_t rows, std::int64_t cols, unsigned seed, double scale = 1, double mean = 0) const;

  /// Parameters of a unit, whole (fused as one rank holds them). With a recipe those that make
  /// columns of linears' inputs give them sizes far apart (wide()), so that blocks of other shapes
  /// give other values.
  const std::vector<Matrix>& whole_weights(int unit) const;
  /// This rank's parts, in the compute type, cut by the boxes of model::make_units.
  std::vector<tensor::Tensor> weights(int unit);
  /// This rank's part of a whole parameter.
  Matrix part_of(int unit, int parameter, const Matrix& whole) const;
  const model::ParameterSpec& whole_parameter(int unit, int parameter) const {
    return whole_units_[static_cast<std::size_t>(unit)].parameters[static_cast<std::size_t>(parameter)];
  }
  int parameters(int unit) const { return static_cast<int>(units_[static_cast<std::size_t>(unit)].parameters.size()); }
  /// Where their gradients go: zeros, or NaN where the first contribution overwrites.
  std::vector<tensor::Tensor> gradients(int unit);
  /// This rank's gradients put together with all others' (those of replicated parameters summed),
  /// whole; padding must be zero.
  Matrix whole_gradient(int unit, int parameter, const tensor::Tensor& local) const;
  /// For each row of this rank's part of a parameter its row in the whole one; -1 for padding.
  std::vector<std::int64_t> rows_of(int unit, int parameter) const;
  /// First column of this rank's part.
  std::int64_t column_of(int unit, int parameter) const;

  /// Tensors of the compute type: all of m, this rank's tokens of it, or so many NaN.
  tensor::Tensor put(const Matrix& m);
  tensor::Tensor put_tokens(const Matrix& m);
  tensor::Tensor output(std::int64_t rows, std::int64_t cols);
  /// m with row r or column c multiplied by wide(r)^rows·wide(c)^cols, 2^-5 … 2^5.
  static Matrix widened(Matrix m, int rows, int cols);
  static double wide(std::int64_t index);
  /// Columns of m in the order of `which`.
  static Matrix columns(const Matrix& m, const std::vector<std::int64_t>& which);

  static Matrix get(const tensor::Tensor& t);
  /// Every rank's tokens.
  Matrix whole_tokens(const tensor::Tensor& local) const { return whole_tokens(get(local)); }
  Matrix whole_tokens(const Matrix& local) const;
  /// Every rank's columns, which are `which` of `cols` columns of the whole.
  Matrix whole_columns(const tensor::Tensor& local, const std::vector<std::int64_t>& which, std::int64_t cols) const {
    return whole_columns(get(local), which, cols);
  }
  Matrix whole_columns(const Matrix& local, const std::vector<std::int64_t>& which, std::int64_t cols) const;

  /// What rounding in the compute type may change of each element. With a recipe, whose rows and
  /// columns differ in size, in proportion to the element's own row and column, and itself.
  Matrix rounding(const Matrix& m) const;
  /// got = want as far as the compute type allows.
  testing::AssertionResult close(const Matrix& got, const Matrix& want) const;
  void expect_close(const std::string& what, const Matrix& got, const Matrix& want) const;
  /// All of a unit's gradients against those of its leaves.
  void expect_gradients(int unit, const std::vector<tensor::Tensor>& local, const std::vector<Var>& leaves) const;

 private:
  Matrix sum(Matrix m) const;
  std::vector<model::UnitSpec> units_, whole_units_;
  mutable std::map<int, std::vector<Matrix>> whole_weights_;
};

/// Leaves of a unit's whole parameters.
std::vector<Var> leaves_of(reference::Graph& graph, const Module& module, int unit);

}  // namespace shard8::tests
