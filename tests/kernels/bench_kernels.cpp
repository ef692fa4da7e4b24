// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

// Times every operator at the sizes of the speed bench: hidden 512, ffn 1408, 8 heads of 64, vocabulary 4096, 8
// sequences of 256, activations in fp32 or bf16: bench_kernels [fp32|bf16] [group]. The groups are those in main()
// below; without one all run.

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/adamw.hpp"
#include "kernels/attention.hpp"
#include "kernels/blas/blas_core.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"
#include "kernels/quantize.hpp"
#include "kernels/vocabulary.hpp"
#include "tests/kernels/attention_reference.hpp"
#include "tests/kernels/buffer.hpp"

namespace shard8::tests {
namespace {

constexpr std::int64_t kBatch = 8, kSeq = 256, kT = kBatch * kSeq, kH = 512, kF = 1408, kHeads = 8, kDim = 64,
                       kVocab = 4096;

/// Memory for results in all forms.
struct Written {
  Written(const Shape& shape, DType dtype)
      : plain(shape, dtype), quantized(shape, DType::e4m3), amax({1}, DType::i32), scale({1}, DType::fp32, 64) {}
  kernels::Outputs amax_only() const {
    kernels::Outputs out;
    out.amax = amax;
    return out;
  }
  kernels::Outputs plain_and_amax() const {
    auto out = amax_only();
    out.plain = plain;
    return out;
  }
  kernels::Outputs quantized_only() const {
    auto out = amax_only();
    out.quantized = operand();
    out.scale = scale;
    out.counts = counts;
    return out;
  }
  tensor::Operand operand() const { return {quantized, scale_inv, tensor::Scaling::tensor}; }

  Buffer plain, quantized, amax, scale, scale_inv{{1}, DType::fp32};
  Counts counts;
};

class Bench {
 public:
  explicit Bench(DType dtype) : dtype_(dtype) {}

  /// Best and median of several calls, as GFLOP/s where flops are given, else GB/s.
  template <class F>
  void time(const std::string& name, double flops, double bytes, const F& f) const {
    using Clock = std::chrono::steady_clock;
    std::vector<double> times;
    double total = 0;
    while (times.size() < 5 || (total < 0.3 && times.size() < 400)) {
      const auto start = Clock::now();
      f();
      times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      total += times.back();
    }
    std::sort(times.begin(), times.end());
    const double best = times.front(), median = times[times.size() / 2];
    std::printf("%-28s %9.3f ms (median %9.3f)  ", name.c_str(), best * 1e3, median * 1e3);
    if (flops > 0) {
      std::printf("%8.1f GFLOP/s\n", flops / best * 1e-9);
    } else {
      std::printf("%8.1f GB/s\n", bytes / best * 1e-9);
    }
  }

  void products() const {
    const struct {
      const char* name;
      std::int64_t n, k;
    } linears[] = {{"qkv", 3 * kH, kH}, {"proj", kH, kH}, {"fc1", 2 * kF, kH}, {"fc2", kH, kF}, {"head", kVocab, kH}};
    for (const auto& l : linears) {
      const auto x = draw({kT, l.k}), w = draw({l.n, l.k}), dy = draw({kT, l.n});
      const Buffer y({kT, l.n}, dtype_), dx({kT, l.k}, dtype_), dw({l.n, l.k}, DType::fp32);
      const auto work = Buffer::bytes(kernels::gemm_workspace_bytes(dtype_, kT, l.k, l.n));
      const double flops = 2.0 * kT * static_cast<double>(l.n * l.k);
      const std::string name = std::string("gemm ") + l.name;
      time(name + " fprop", flops, 0, [&] { kernels::gemm_fprop(exec_, y, x, w, Tensor{}, work); });
      time(name + " dgrad", flops, 0, [&] { kernels::gemm_dgrad(exec_, dx, dy, w, false, work); });
      time(name + " wgrad", flops, 0, [&] { kernels::gemm_wgrad(exec_, dw, dy, x, true, work); });
    }
  }

  void attention() const {
    const kernels::AttentionShape s{kBatch, kSeq, kHeads, kHeads, kDim};
    const auto qkv = draw({kT, 3 * kH}), dout = draw({kT, kH});
    const Buffer o({kT, kH}, dtype_), lse({kBatch, kHeads, kSeq}, DType::fp32), dqkv({kT, 3 * kH}, dtype_);
    const auto work = Buffer::bytes(kernels::attention_workspace_bytes(s, exec_.concurrency()));
    const double flops = tests::attention_flops(s);
    kernels::attention_forward(exec_, o, lse, qkv, s, work);
    time("attention forward", flops, 0, [&] { kernels::attention_forward(exec_, o, lse, qkv, s, work); });
    time("attention backward", 2.5 * flops, 0,
         [&] { kernels::attention_backward(exec_, dqkv, dout, o, qkv, lse, s, work); });
    const Buffer table({2, kSeq, kDim / 2}, DType::fp32);
    kernels::rope_table(exec_, table, 10000);
    time("rope forward", 0, 2.0 * 2 / 3 * size(qkv), [&] { kernels::rope_forward(exec_, qkv, table, 2 * kHeads); });
  }

  void norms() const {
    const auto x = draw({kT, kH}), w = draw({kH}), dy = draw({kT, kH});
    const Buffer y({kT, kH}, dtype_), dx({kT, kH}, dtype_), mean({kT}, DType::fp32), rstd({kT}, DType::fp32),
        dw({kH}, DType::fp32), db({kH}, DType::fp32);
    const auto work = Buffer::bytes(kernels::norm_workspace_bytes(kT, kH));
    time("rmsnorm forward", 0, 2 * size(x), [&] { kernels::rmsnorm_forward(exec_, y, rstd, x, w, 1e-5f); });
    time("rmsnorm backward", 0, 4 * size(x),
         [&] { kernels::rmsnorm_backward(exec_, dx, dw, dy, x, rstd, w, dx, work); });
    time("layernorm forward", 0, 2 * size(x),
         [&] { kernels::layernorm_forward(exec_, y, mean, rstd, x, w, w, 1e-5f); });
    time("layernorm backward", 0, 4 * size(x),
         [&] { kernels::layernorm_backward(exec_, dx, dw, db, dy, x, mean, rstd, w, dx, work); });
    time("residual add", 0, 3 * size(x), [&] { kernels::residual_add(exec_, y, x, dy, Tensor{}); });
    time("residual add with bias", 0, 3 * size(x), [&] { kernels::residual_add(exec_, y, x, dy, w); });
    time("bias gradient", 0, size(x), [&] { kernels::bias_gradient(exec_, db, dy, work); });
  }

  void activations() const {
    const auto gate_up = draw({kT, 2 * kF}), da = draw({kT, kF});
    const Buffer a({kT, kF}, dtype_), dx({kT, kF}, dtype_), d({kT, 2 * kF}, dtype_);
    time("swiglu forward", 0, 3 * size(a), [&] { kernels::swiglu_forward(exec_, a, gate_up); });
    time("swiglu backward", 0, 5 * size(a), [&] { kernels::swiglu_backward(exec_, d, da, gate_up); });
    time("gelu forward", 0, 2 * size(a), [&] { kernels::gelu_forward(exec_, a, da); });
    time("gelu backward", 0, 3 * size(a), [&] { kernels::gelu_backward(exec_, dx, a, da); });
  }

  /// Times one fused pass against two or three separate ones, at half the tokens.
  void fused() const {
    const std::int64_t t = kT / 2;
    const auto x = draw({t, kH}), w = draw({kH}), gate_up = draw({t, 2 * kH}), da = draw({t, kH});
    const Buffer rstd({t}, DType::fp32), mean({t}, DType::fp32);
    const Written out({t, kH}, dtype_), wide({t, 2 * kH}, dtype_);
    const auto compare = [&](const std::string& name, double in, const Written& to, const auto& run) {
      const double plain = size(to.plain), bytes = size(to.quantized);
      time(name, 0, in + plain, [&] { run(kernels::Outputs(to.plain.tensor())); });
      time(name + " + amax", 0, in + plain, [&] { run(to.plain_and_amax()); });
      time(name + " + quantize", 0, in + bytes, [&] { run(to.quantized_only()); });
      time(name + ", quantize", 0, in + 2 * plain + bytes, [&] {
        run(kernels::Outputs(to.plain.tensor()));
        kernels::quantize(exec_, to.operand(), to.amax, to.plain, to.scale, {.counts = to.counts});
      });
    };
    compare("rmsnorm", size(x), out, [&](const auto& y) { kernels::rmsnorm_forward(exec_, y, rstd, x, w, 1e-5f); });
    compare("layernorm", size(x), out,
            [&](const auto& y) { kernels::layernorm_forward(exec_, y, mean, rstd, x, w, w, 1e-5f); });
    compare("swiglu", size(gate_up), out, [&](const auto& a) { kernels::swiglu_forward(exec_, a, gate_up); });
    compare("swiglu backward", size(gate_up) + size(da), wide,
            [&](const auto& d) { kernels::swiglu_backward(exec_, d, da, gate_up); });
    compare("gelu", size(x), out, [&](const auto& a) { kernels::gelu_forward(exec_, a, x); });
    compare("gelu backward", size(x) + size(da), out, [&](const auto& d) { kernels::gelu_backward(exec_, d, da, x); });
  }

  void cross_entropy() const {
    const auto logits = Buffer::normal({kT, kVocab}, DType::fp32, 1);
    const Buffer row_max({kT}, DType::fp32), sums({2, kT}, DType::fp32), targets({kT}, DType::i32, 17),
        weights({kT}, DType::fp32, 1), d({kT, kVocab}, dtype_);
    time("cross entropy max", 0, size(logits), [&] { kernels::cross_entropy_max(exec_, row_max, logits, kVocab); });
    time("cross entropy sums", 0, size(logits),
         [&] { kernels::cross_entropy_sums(exec_, sums, logits, row_max, targets, 0, kVocab); });
    const Total total;
    time("cross entropy loss", 0, size(sums), [&] { kernels::cross_entropy_loss(exec_, total, sums, weights); });
    time("cross entropy backward", 0, size(logits) + size(d),
         [&] { kernels::cross_entropy_backward(exec_, d, logits, row_max, sums, targets, weights, 0, kVocab, 1e-3f); });
  }

  void embeddings() const {
    std::vector<double> ids(kT);
    for (std::size_t t = 0; t < ids.size(); ++t) ids[t] = static_cast<double>(t * t * 7919 % kVocab);
    const Buffer tokens({kT}, DType::i32, ids), y({kT, kH}, dtype_), dtable({kVocab, kH}, DType::fp32);
    const auto table = draw({kVocab, kH});
    const auto work = Buffer::bytes(kernels::embedding_workspace_bytes(kT, kVocab));
    time("embedding forward", 0, 2 * size(y), [&] { kernels::embedding_forward(exec_, y, table, tokens, 0, kVocab); });
    time("embedding backward", 0, 3 * size(y),
         [&] { kernels::embedding_backward(exec_, dtable, y, tokens, 0, kVocab, work); });
  }

  void optimizer() const {
    const Shape n{1024, 4096};
    const auto p = Buffer::normal(n, DType::fp32, 1), g = Buffer::normal(n, DType::fp32, 2);
    const Buffer m(n, DType::fp32), v(n, DType::fp32), half(n, DType::bf16);
    const kernels::AdamwScalars s{.lr = 1e-4, .weight_decay = 0.1};
    time("adamw", 0, 7 * size(p), [&] { kernels::adamw_step(exec_, {p, {}, m, v, g}, s); });
    const Buffer mh(n, DType::bf16), vh(n, DType::bf16), ph(n, DType::bf16), rest(n, DType::i16);
    const Written out(n, DType::bf16);
    time("adamw bf16 moments", 0, 5 * size(p), [&] { kernels::adamw_step(exec_, {p, {}, mh, vh, g}, s); });
    time("adamw bf16 + remainder", 0, 5 * size(p), [&] { kernels::adamw_step(exec_, {ph, rest, mh, vh, g}, s); });
    time("adamw + amax", 0, 7 * size(p), [&] {
      kernels::adamw_step(exec_, {p, {}, m, v, g}, s, out.amax_only(), true);
    });
    time("adamw + quantize", 0, 7.25 * size(p), [&] {
      kernels::adamw_step(exec_, {p, {}, m, v, g}, s, out.quantized_only(), true);
    });
    const ExactTotal total;
    time("sum of squares", 0, size(p), [&] { kernels::sum_of_squares(exec_, total, g); });
    time("cast fp32 to bf16", 0, 1.5 * size(p), [&] { kernels::cast(exec_, half, p); });
    time("cast bf16 to fp32", 0, 1.5 * size(p), [&] { kernels::cast(exec_, m, half); });
    time("copy", 0, 2 * size(p), [&] { kernels::cast(exec_, m, g); });
    time("fill zero", 0, size(p), [&] { kernels::fill_zero(exec_, m); });
    time("normal fill", 0, size(p), [&] { kernels::normal_fill(exec_, m, 1, {0, n[1], 1}, 1); });
  }

  /// Times the quantizers on activations of 1024 tokens. Bytes are one read of the input and one write of each output.
  void quantizers() const {
    using tensor::Operand, tensor::Scaling;
    const Shape shape{1024, kH};
    const auto x = draw(shape);
    const Buffer data(shape, DType::e4m3), other(shape, DType::e4m3), turned({kH, shape[0]}, DType::e4m3);
    const Buffer scale({1}, DType::fp32, 64), scale_inv({1}, DType::fp32), bits({1}, DType::i32), out(shape, dtype_);
    const Operand whole(data, scale_inv, Scaling::tensor);
    const Counts counts;
    const kernels::CastOptions options{.power_of_2 = true, .counts = counts};
    time("amax", 0, size(x), [&] { kernels::amax(exec_, bits, x, options); });
    time("quantize", 0, size(x) + size(data), [&] { kernels::quantize(exec_, whole, bits, x, scale, options); });
    time("quantize transpose", 0, size(x) + 2 * size(data),
         [&] { kernels::quantize_transpose(exec_, whole, turned, bits, x, scale, options); });
    time("transpose bytes", 0, 2 * size(data), [&] { kernels::transpose_bytes(exec_, turned, data); });
    time("dequantize", 0, size(x) + size(data), [&] { kernels::dequantize(exec_, out, whole); });
    const auto scales = [&](Scaling s) {
      return Buffer(tensor::scale_shape(s, shape[0], shape[1]), tensor::scale_dtype(s), 1);
    };
    for (const auto s :
         {Scaling::row_128, Scaling::column_128, Scaling::tile_128, Scaling::row_32, Scaling::column_32}) {
      const Buffer inverses = scales(s);
      const Operand blocks(data, inverses, s);
      time("quantize " + std::string(name_of(s)), 0, size(x) + size(data),
           [&] { kernels::quantize_blocks(exec_, blocks, x, options); });
      time("dequantize " + std::string(name_of(s)), 0, size(x) + size(data),
           [&] { kernels::dequantize(exec_, out, blocks); });
    }
    for (const auto& [row, column] :
         {std::pair{Scaling::row_128, Scaling::column_128}, std::pair{Scaling::row_32, Scaling::column_32}}) {
      const Buffer row_inverses = scales(row), column_inverses = scales(column);
      const Operand by_row(data, row_inverses, row), by_column(other, column_inverses, column);
      time("quantize both " + std::string(name_of(row)), 0, size(x) + 2 * size(data),
           [&] { kernels::quantize_blocks(exec_, by_row, by_column, x, options); });
    }
  }

 private:
  Buffer draw(const Shape& shape) const { return Buffer::normal(shape, dtype_, 1); }
  static double size(const Buffer& b) { return static_cast<double>(b.tensor().bytes()); }

  Exec exec_;
  DType dtype_;
};

}  // namespace
}  // namespace shard8::tests

int main(int argc, char** argv) {
  shard8::kernels::choose_blas_core();
  const Kokkos::ScopeGuard kokkos(argc, argv);
  using shard8::tests::Bench;
  const std::string_view type = argc > 1 ? argv[1] : "fp32", only = argc > 2 ? argv[2] : "";
  const Bench bench(type == "bf16" ? shard8::tensor::DType::bf16 : shard8::tensor::DType::fp32);
  std::printf("%s, %d threads\n", type == "bf16" ? "bf16" : "fp32", shard8::tensor::Exec().concurrency());
  const struct {
    std::string_view name;
    void (Bench::*run)() const;
  } groups[] = {
      {"products", &Bench::products},       {"attention", &Bench::attention}, {"norms", &Bench::norms},
      {"activations", &Bench::activations}, {"fused", &Bench::fused},         {"cross_entropy", &Bench::cross_entropy},
      {"embeddings", &Bench::embeddings},   {"optimizer", &Bench::optimizer}, {"quantizers", &Bench::quantizers}};
  for (const auto& group : groups) {
    if (only.empty() || only == group.name) (bench.*group.run)();
  }
  return 0;
}
