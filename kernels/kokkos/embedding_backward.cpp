// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

constexpr std::int64_t kColumns = 128;

/// Stable counting sort of the tokens by table row, for work in proportion to one pass over the
/// tokens and the rows: order[starts[r] … starts[r+1]) are the tokens of row r, ascending.
void sort_tokens(const Exec& exec, std::int32_t* starts, std::int32_t* order, const std::int32_t* tokens,
                 std::int64_t count, std::int64_t first_row, std::int64_t rows) {
  Kokkos::parallel_for(
      "shard8::kernels::embedding_backward_sort", Range(exec, 0, 1), KOKKOS_LAMBDA(std::int64_t) {
        for (std::int64_t r = 0; r <= rows; ++r) starts[r] = 0;
        for (std::int64_t t = 0; t < count; ++t) {
          const std::int64_t r = tokens[t] - first_row;
          if (r >= 0 && r < rows) ++starts[r];
        }
        std::int32_t end = 0;
        for (std::int64_t r = 0; r < rows; ++r) {
          end += starts[r];
          starts[r] = end;
        }
        starts[rows] = end;
        for (std::int64_t t = count - 1; t >= 0; --t) {
          const std::int64_t r = tokens[t] - first_row;
          if (r >= 0 && r < rows) order[--starts[r]] = static_cast<std::int32_t>(t);
        }
      });
}

template <class T>
void add_rows(const Exec& exec, float* dtable, const T* dy, const std::int32_t* starts, const std::int32_t* order,
              std::int64_t rows, std::int64_t hidden) {
  const std::int64_t blocks = (hidden + kColumns - 1) / kColumns;
  for_uneven_rows(
      exec, "shard8::kernels::embedding_backward", rows * blocks, KOKKOS_LAMBDA(const Team& team, std::int64_t task) {
        const std::int64_t row = task / blocks, first = task % blocks * kColumns;
        const std::int64_t columns = first + kColumns < hidden ? kColumns : hidden - first;
        float* out = dtable + row * hidden + first;
        for (auto k = starts[row]; k < starts[row + 1]; ++k) {
          const T* in = dy + order[k] * hidden + first;
          row_for(team, columns, [=](std::int64_t i) { out[i] += static_cast<float>(in[i]); });
        }
      });
}

template <class T>
void add_positions(const Exec& exec, float* dtable, const T* dx, std::int64_t rows, std::int64_t hidden,
                   std::int64_t first_token, std::int64_t seq) {
  for_rows(
      exec, "shard8::kernels::position_backward", seq < rows ? seq : rows,
      KOKKOS_LAMBDA(const Team& team, std::int64_t first) {
        float* out = dtable + (first_token + first) % seq * hidden;
        for (std::int64_t t = first; t < rows; t += seq) {
          const T* in = dx + t * hidden;
          row_for(team, hidden, [=](std::int64_t i) { out[i] += static_cast<float>(in[i]); });
        }
      });
}

}  // namespace

std::size_t embedding_workspace_bytes(std::int64_t tokens, std::int64_t local_rows) {
  return static_cast<std::size_t>(tokens + local_rows + 1) * sizeof(std::int32_t);
}

void embedding_backward(const Exec& exec, const tensor::Tensor& dtable, const tensor::Tensor& dy,
                        const tensor::Tensor& tokens, std::int64_t first_row, std::int64_t valid_rows,
                        const tensor::Tensor& workspace) {
  const auto count = tokens.count(), hidden = dtable.cols();
  require_count("embedding_backward", "dy", dy, count * hidden);
  SHARD8_REQUIRE(valid_rows <= dtable.rows(), "embedding_backward: {} valid rows in a table of {}", valid_rows,
                 dtable.rows());
  require_workspace("embedding_backward", workspace, embedding_workspace_bytes(count, valid_rows));
  auto* starts = reinterpret_cast<std::int32_t*>(workspace.as<std::uint8_t>());
  auto* order = starts + valid_rows + 1;
  sort_tokens(exec, starts, order, tokens.as<std::int32_t>(), count, first_row, valid_rows);
  dispatch_real(dy.dtype, "embedding_backward", [&]<class T>(std::type_identity<T>) {
    add_rows(exec, dtable.as<float>(), dy.as<T>(), starts, order, valid_rows, hidden);
  });
}

void position_backward(const Exec& exec, const tensor::Tensor& dtable, const tensor::Tensor& dx,
                       std::int64_t first_token, std::int64_t seq) {
  SHARD8_REQUIRE(dtable.cols() == dx.cols() && dtable.rows() >= seq,
                 "position_backward: dtable is {}, at least ({}, {}) needed", tensor::to_string(dtable.shape), seq,
                 dx.cols());
  dispatch_real(dx.dtype, "position_backward", [&]<class T>(std::type_identity<T>) {
    add_positions(exec, dtable.as<float>(), dx.as<T>(), dx.rows(), dx.cols(), first_token, seq);
  });
}

}  // namespace shard8::kernels
