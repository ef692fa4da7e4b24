// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/embedding.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

template <class T>
void forward(const Exec& exec, T* y, const T* table, const std::int32_t* tokens, std::int64_t count,
             std::int64_t hidden, std::int64_t first_row, std::int64_t valid_rows) {
  constexpr int kN = kPack<T>;
  const bool fits = packs_fit<kN>(hidden, y, table);
  for_rows(
      exec, "shard8::kernels::embedding_forward", count, SHARD8_LAMBDA(const Team& team, std::int64_t t) {
        const std::int64_t row = tokens[t] - first_row;
        T* out = y + t * hidden;
        if (row >= 0 && row < valid_rows) {
          const T* in = table + row * hidden;
          row_packs<kN>(team, hidden, fits, [=](auto w, std::int64_t i) {
            const auto lanes = w.load(in, i);
            w.fill(out, i, [&](int j) { return lanes.raw(j); });
          });
        } else {
          row_packs<kN>(team, hidden, fits,
                        [=](auto w, std::int64_t i) { w.fill(out, i, [](int) { return static_cast<T>(0.0f); }); });
        }
      });
}

template <class T>
void add_positions(const Exec& exec, T* x, const T* table, std::int64_t rows, std::int64_t hidden,
                   std::int64_t first_token, std::int64_t seq) {
  constexpr int kN = kPack<T>;
  const bool fits = packs_fit<kN>(hidden, x, table);
  for_rows(
      exec, "shard8::kernels::position_forward", rows, SHARD8_LAMBDA(const Team& team, std::int64_t t) {
        T* out = x + t * hidden;
        const T* in = table + (first_token + t) % seq * hidden;
        row_packs<kN>(team, hidden, fits, [=](auto w, std::int64_t i) {
          const auto a = w.load(out, i), b = w.load(in, i);
          w.store(out, i, w.each([&](int j) { return a[j] + b[j]; }));
        });
      });
}

}  // namespace

void embedding_forward(const Exec& exec, const tensor::Tensor& y, const tensor::Tensor& table,
                       const tensor::Tensor& tokens, std::int64_t first_row, std::int64_t valid_rows) {
  const auto hidden = table.cols();
  require_count("embedding_forward", "y", y, tokens.count() * hidden);
  SHARD8_REQUIRE(valid_rows <= table.rows(), "embedding_forward: {} valid rows in a table of {}", valid_rows,
                 table.rows());
  dispatch_real(y.dtype, "embedding_forward", [&]<class T>(std::type_identity<T>) {
    forward(exec, y.as<T>(), table.as<T>(), tokens.as<std::int32_t>(), tokens.count(), hidden, first_row, valid_rows);
  });
}

void position_forward(const Exec& exec, const tensor::Tensor& x, const tensor::Tensor& table, std::int64_t first_token,
                      std::int64_t seq) {
  SHARD8_REQUIRE(table.cols() == x.cols() && table.rows() >= seq,
                 "position_forward: table is {}, at least ({}, {}) needed", tensor::to_string(table.shape), seq,
                 x.cols());
  dispatch_real(x.dtype, "position_forward", [&]<class T>(std::type_identity<T>) {
    add_positions(exec, x.as<T>(), table.as<T>(), x.rows(), x.cols(), first_token, seq);
  });
}

}  // namespace shard8::kernels
