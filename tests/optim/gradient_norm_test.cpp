// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "optim/adamw.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <array>
#include <cmath>

#include "base/exact_sum.hpp"
#include "comm/mesh.hpp"

namespace shard8::optim {
namespace {

using base::Axis;

constexpr std::int64_t kRows = 8, kCols = 3;

/// The gradients: of a matrix that is sharded over tensor and shard ranks, and of a vector that every tensor rank
/// holds. The vector's gradient is the sum of vector_part over the tensor ranks.
float matrix_value(std::int64_t row, std::int64_t col) { return static_cast<float>(1 + row * kCols + col); }
float vector_part(std::int64_t row, int tensor_rank) { return static_cast<float>((row + 1) * (tensor_rank + 1)); }

void check(const base::Extents& shape) {
  const auto mesh = comm::make_mesh(comm::Communicator(MPI_COMM_WORLD, "world", comm::Waiting::yield, nullptr), shape);
  fsdp::Options options;
  options.place = mesh.place;
  const int tensors = shape[Axis::tensor], tensor = mesh.place[Axis::tensor], shard = mesh.place[Axis::shard];
  std::vector<fsdp::UnitShape> shapes = {
      {"unit", {{"matrix", kRows / tensors, kCols, 1, true, false}, {"vector", kRows, 1, 1, false, true}}, false}};
  shapes[0].parameters[0].sharing.cut = Axis::tensor;
  shapes.push_back({"next", {{"vector", kRows, 1, 1, false, true}}, false});
  auto measured = tensor::ArenaSet::measure();
  const fsdp::UnitBuffers sizes(shapes, options, measured);
  tensor::ArenaSet arenas(measured.bytes());
  const fsdp::UnitBuffers units(shapes, options, arenas);

  const auto& matrix = units.weights(0)[0].gradient;
  for (std::int64_t r = 0; r < matrix.rows(); ++r)
    for (std::int64_t c = 0; c < kCols; ++c)
      matrix.as<float>()[r * kCols + c] = matrix_value(tensor * (kRows / tensors) + shard * matrix.rows() + r, c);
  const auto& vector = units.weights(0)[1].gradient;
  for (std::int64_t r = 0; r < vector.rows(); ++r)
    vector.as<float>()[r] = vector_part(shard * vector.rows() + r, tensor);

  const auto& next = units.weights(1)[0].gradient;
  for (std::int64_t r = 0; r < next.rows(); ++r) next.as<float>()[r] = 3.0F / static_cast<float>(tensors);

  const tensor::Exec exec;
  profile::StepTimer timer;
  operation::Executor executor(exec, timer);
  sum_replicated_gradients(executor, replicated_gradients(units), mesh.group(base::kSameSequences));
  double squares = 0, share = 0;
  for (int t = 0; t < tensors; ++t) share += t + 1;
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t c = 0; c < kCols; ++c) squares += std::pow(matrix_value(r, c), 2);
    squares += std::pow(static_cast<double>(r + 1) * share, 2);
  }
  for (std::int64_t r = 0; r < vector.rows(); ++r)
    EXPECT_EQ(vector.as<float>()[r], static_cast<float>(shard * vector.rows() + r + 1) * share);
  std::array<base::ExactSum, 2> totals;
  const tensor::Tensor memory{
      reinterpret_cast<std::byte*>(totals.data()), {2, sizeof(base::ExactSum)}, tensor::DType::u8};
  for (const int unit : {0, 1})
    for (const Held held : {Held::in_parts, Held::shared}) add_squares(executor, memory, units, unit, held);
  StepNorms norms(2, false);
  EXPECT_EQ(norms.sum(executor, memory, mesh.group(base::AxisSet::model)), std::sqrt(squares + kRows * 9));
  EXPECT_EQ(norms.of_gradients()[0], std::sqrt(squares));  // sums of integers are exact
  EXPECT_EQ(norms.of_gradients()[1], std::sqrt(kRows * 9));
  EXPECT_TRUE(norms.of_weights().empty());
  // With weights, whose squares are in the second half.
  const double ranks = mesh.group(base::AxisSet::model).size();
  std::array<base::ExactSum, 4> with_weights;
  with_weights[1].add(9.0 * ranks);
  with_weights[3].add(25);
  const tensor::Tensor both{
      reinterpret_cast<std::byte*>(with_weights.data()), {4, sizeof(base::ExactSum)}, tensor::DType::u8};
  StepNorms of_both(2, true);
  EXPECT_EQ(of_both.sum(executor, both, mesh.group(base::AxisSet::model)), 3 * ranks);
  EXPECT_EQ(of_both.of_gradients()[0], 0);
  EXPECT_EQ(of_both.of_gradients()[1], 3 * ranks);
  EXPECT_EQ(of_both.of_weights()[0], 0);
  EXPECT_EQ(of_both.of_weights()[1], std::sqrt(25 * ranks));
}

TEST(GradientNorm, CountsEverythingOnce) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks == 1) check({1, 1, 1});
  if (ranks == 2) {
    check({1, 2, 1});
    check({1, 1, 2});
    check({2, 1, 1});
  }
  if (ranks == 4) {
    check({1, 2, 2});
    check({2, 1, 2});
    check({2, 2, 1});
    check({1, 1, 4});
    check({1, 4, 1});
  }
}

}  // namespace
}  // namespace shard8::optim
