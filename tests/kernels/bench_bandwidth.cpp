// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

// Compares the bandwidth of every kernel that moves memory with that of two plain copies: a large one, and one of as
// many bytes as the kernel. Shapes are those of one GPU's part of Llama-3 8B: bench_bandwidth [group] [tokens]. Bytes
// are those that must be read and written at least once. On hosts give fewer tokens.

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/adamw.hpp"
#include "kernels/attention.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/quantize.hpp"
#include "kernels/vocabulary.hpp"
#include "tensor/arena.hpp"
#include "tensor/transfer.hpp"

namespace shard8::tests {
namespace {

using tensor::DType;
using tensor::Exec;
using tensor::Operand;
using tensor::Scaling;
using tensor::Shape;
using tensor::Tensor;

constexpr std::int64_t kHidden = 4096, kFfn = 14336, kQkv = 6144, kRotated = 40, kHalf = 64, kSeq = 4096,
                       kVocab = 32768, kWeights = 218'103'808;

struct Nothing {
  KOKKOS_FUNCTION void operator()(int) const {}
};

class Bench {
 public:
  explicit Bench(std::int64_t tokens)
      : tokens_(tokens), chunk_(std::min<std::int64_t>(tokens, 2048)), weights_(kWeights * tokens / 8192) {
    kernels::fill_zero(exec_, small_);
    set_scale(64);  // so a few in 10⁵ of normal numbers become zero
    for (const auto& t : {from_, to_}) kernels::fill_zero(exec_, {t.data, {weights_}, DType::fp32});
    copy_ = copy_speed(2 * size(from_));
    std::printf("copy: %.0f GB/s read and written, %.0f MB\n", copy_ * 1e-9, size(from_) * 1e-6);
    const double empty = seconds(
        [&] { Kokkos::parallel_for("shard8::tests::empty", Kokkos::RangePolicy<Exec>(exec_, 0, 1), Nothing{}); });
    std::printf("a kernel that does nothing: %.1f us\n", empty * 1e6);
    std::printf("%-40s %12s %12s %9s %9s\n", "", "time", "moved", "of copy", "of same");
    std::printf("of copy: %% of that copy's speed; of same: of the speed of a copy that moves the same bytes\n");
  }

  void quantizers() {
    for (const std::int64_t cols : {kHidden, kFfn}) {
      const auto mark = arena_.mark();
      const Shape shape{tokens_, cols};
      const std::string at = " " + std::to_string(cols);
      const Tensor x = normal(shape), data = make(shape, DType::e4m3), other = make(shape, DType::e4m3);
      const Tensor turned = make({cols, tokens_}, DType::e4m3), out = make(shape, DType::bf16);
      const Tensor whole32 = make(shape, DType::fp32), sum = make({kernels::kExactTotalBytes}, DType::u8);
      const Operand whole(data, one(), Scaling::tensor);
      const double wide = size(x), narrow = size(data);
      time("amax" + at, wide, [&] { kernels::amax(exec_, bits(), x, {}); });
      time("quantize" + at, wide + narrow, [&] { kernels::quantize(exec_, whole, bits(), x, scale(), options()); });
      time("quantize fp32" + at, 2 * wide + narrow,
           [&] { kernels::quantize(exec_, whole, bits(), whole32, scale(), options()); });
      time("quantize transpose" + at, wide + 2 * narrow,
           [&] { kernels::quantize_transpose(exec_, whole, turned, bits(), x, scale(), options()); });
      time("transpose bytes" + at, 2 * narrow, [&] { kernels::transpose_bytes(exec_, turned, data); });
      time("dequantize" + at, wide + narrow, [&] { kernels::dequantize(exec_, out, whole); });
      time("sum of scaled squares" + at, narrow, [&] { kernels::sum_of_scaled_squares(exec_, sum, whole); });
      const auto blocks = [&](const Tensor& to, Scaling s) {
        return Operand(to, make(tensor::scale_shape(s, tokens_, cols), tensor::scale_dtype(s)), s);
      };
      for (const auto s :
           {Scaling::row_128, Scaling::column_128, Scaling::tile_128, Scaling::row_32, Scaling::column_32}) {
        const Operand by = blocks(data, s);
        const std::string name = std::string(name_of(s)) + at;
        const double bytes = wide + narrow + size(by.scale_inv);
        time("quantize " + name, bytes, [&] { kernels::quantize_blocks(exec_, by, x, options()); });
        time("dequantize " + name, bytes, [&] { kernels::dequantize(exec_, out, by); });
        time("sum of scaled squares " + name, narrow + size(by.scale_inv),
             [&] { kernels::sum_of_scaled_squares(exec_, sum, by); });
      }
      for (const auto& [row, column] :
           {std::pair{Scaling::row_128, Scaling::column_128}, {Scaling::row_32, Scaling::column_32}}) {
        const Operand r = blocks(data, row), c = blocks(other, column);
        time("quantize both " + std::string(name_of(row)) + at,
             wide + 2 * narrow + size(r.scale_inv) + size(c.scale_inv),
             [&] { kernels::quantize_blocks(exec_, r, c, x, options()); });
      }
      const kernels::BlockCasts both = block_casts(shape, true, true);
      time("quantize both, transposed" + at, wide + size_of(both),
           [&] { kernels::cast_in_blocks(exec_, both, x, counts()); });
      const kernels::BlockCasts columns = block_casts(shape, false, true);
      time("quantize columns, transposed" + at, wide + size_of(columns),
           [&] { kernels::cast_in_blocks(exec_, columns, x, counts()); });
      arena_.release(mark);
    }
    const std::int64_t n = 300;
    const Tensor history = make({1024, n}, DType::i32), amaxes = make({n}, DType::i32), scales = make({n}, DType::fp32);
    const Tensor change = make({n}, DType::i32);
    time("delayed update", size(history),
         [&] { kernels::delayed_update(exec_, scales, change, history, amaxes, 5, 1024, kernels::AmaxOf::all, {}); });
    time("scale of amax", 3 * size(scales), [&] { kernels::scale_of_amax(exec_, scales, change, amaxes, {}, true); });
  }

  void norms() {
    const Shape shape{tokens_, kHidden};
    const Tensor x = normal(shape), dy = normal(shape), w = make({kHidden}, DType::bf16), dx = make(shape, DType::bf16);
    kernels::cast(exec_, w, ones({kHidden}));
    const Tensor mean = ones({tokens_}), rstd = ones({tokens_}), dw = make({kHidden}, DType::fp32),
                 db = make({kHidden}, DType::fp32);
    const Tensor work = bytes(kernels::norm_workspace_bytes(tokens_, kHidden));
    const double n = size(x);
    outputs("rmsnorm forward", n, shape, [&](const auto& y) { kernels::rmsnorm_forward(exec_, y, rstd, x, w, 1e-5f); });
    outputs("layernorm forward", n, shape,
            [&](const auto& y) { kernels::layernorm_forward(exec_, y, mean, rstd, x, w, w, 1e-5f); });
    const Tensor cast = make(shape, DType::e4m3);
    const kernels::Outputs again = transposed_alone(cast, make({kHidden, tokens_}, DType::e4m3));
    time("rmsnorm again, transposed", n + size(cast), [&] { kernels::rmsnorm_recompute(exec_, again, rstd, x, w); });
    time("layernorm again, transposed", n + size(cast),
         [&] { kernels::layernorm_recompute(exec_, again, mean, rstd, x, w, w); });
    time("quantize again, transposed", n + size(cast), [&] {
      kernels::quantize_transpose(exec_, again.quantized, again.transposed, Tensor{}, x, scale(),
                                  {.transposed_alone = true});
    });
    time_blocks("rmsnorm forward", n, shape, true, false,
                [&](const auto& y) { kernels::rmsnorm_forward(exec_, y, rstd, x, w, 1e-5f); });
    time_blocks("rmsnorm again", n, shape, false, true,
                [&](const auto& y) { kernels::rmsnorm_recompute(exec_, y, rstd, x, w); });
    time("rmsnorm backward", 3 * n, [&] { kernels::rmsnorm_backward(exec_, dx, dw, dy, x, rstd, w, Tensor{}, work); });
    time("rmsnorm backward + residual", 4 * n,
         [&] { kernels::rmsnorm_backward(exec_, dx, dw, dy, x, rstd, w, dx, work); });
    time("layernorm backward + residual", 4 * n,
         [&] { kernels::layernorm_backward(exec_, dx, dw, db, dy, x, mean, rstd, w, dx, work); });
    time("residual add", 3 * n, [&] { kernels::residual_add(exec_, dx, x, dy, Tensor{}); });
    time("residual add with bias", 3 * n, [&] { kernels::residual_add(exec_, dx, x, dy, w); });
    time("bias gradient", n, [&] { kernels::bias_gradient(exec_, db, dy, work); });
    const Tensor table = make({2, kSeq, kHalf}, DType::fp32), qkv = normal({tokens_, kQkv});
    kernels::rope_table(exec_, table, 10000);
    const double rotated = 2.0 * size(qkv) * static_cast<double>(kRotated * 2 * kHalf) / static_cast<double>(kQkv);
    time("rope", rotated, [&] { kernels::rope_forward(exec_, qkv, table, kRotated); });
    const kernels::QkHeads heads{kRotated - kRotated / 5, kRotated / 5};
    const Shape head{2 * kHalf};
    const Tensor unnormed = make({tokens_, kRotated * 2 * kHalf}, DType::bf16), head_w = make(head, DType::bf16),
                 dq = make(head, DType::fp32), dk = make(head, DType::fp32);
    kernels::cast(exec_, head_w, ones(head));
    time("norm of q and k, rope", 1.5 * rotated, [&] {
      kernels::qk_norm_rope_forward(exec_, qkv, unnormed, table, {head_w, head_w}, heads, 1e-6f);
    });
    time("norm of q and k, rope, backward", 1.5 * rotated, [&] {
      kernels::qk_norm_rope_backward(exec_, qkv, {dq, dk}, unnormed, table, {head_w, head_w}, heads, 1e-6f, work);
    });
  }

  void activations() {
    const Shape shape{tokens_, kFfn}, wide{tokens_, 2 * kFfn};
    const Tensor gate_up = normal(wide), da = normal(shape);
    outputs("swiglu forward", size(gate_up), shape, [&](const auto& a) { kernels::swiglu_forward(exec_, a, gate_up); });
    outputs(
        "swiglu backward", size(gate_up) + size(da), wide,
        [&](const auto& d) { kernels::swiglu_backward(exec_, d, da, gate_up); }, DType::e5m2);
    const Tensor cast = make(shape, DType::e4m3);
    const kernels::Outputs again = transposed_alone(cast, make({kFfn, tokens_}, DType::e4m3));
    outputs(
        "swiglu backward, again", size(gate_up) + size(da) + size(cast), wide,
        [&](const auto& d) { kernels::swiglu_backward(exec_, d, da, gate_up, again); }, DType::e5m2);
    const double all = size(gate_up) + size(da);
    const auto in_blocks = [&](const auto& a) { kernels::swiglu_forward(exec_, a, gate_up); };
    time_blocks("swiglu forward", size(gate_up), shape, true, false, in_blocks);
    time_blocks("swiglu forward", size(gate_up), shape, true, true, in_blocks);
    time_blocks("swiglu backward", all, wide, true, true,
                [&](const auto& d) { kernels::swiglu_backward(exec_, d, da, gate_up); });
    const kernels::Outputs columns = blocks_of(make(shape, DType::bf16), false, true);
    time_blocks("swiglu backward, again", all + size_of(columns.blocks), wide, true, true,
                [&](const auto& d) { kernels::swiglu_backward(exec_, d, da, gate_up, columns); });
    outputs("gelu forward", size(da), shape, [&](const auto& a) { kernels::gelu_forward(exec_, a, da); });
    const Tensor x{gate_up.data, shape, DType::bf16};
    outputs(
        "gelu backward", 2 * size(da), shape, [&](const auto& d) { kernels::gelu_backward(exec_, d, da, x); },
        DType::e5m2);
  }

  void cross_entropy() {
    const Tensor logits = make({chunk_, kVocab}, DType::fp32), d = make({chunk_, kVocab}, DType::bf16);
    kernels::normal_fill(exec_, logits, 3, {0, kVocab, 1}, 3.0);
    const Tensor row_max = make({chunk_}, DType::fp32), sums = make({2, chunk_}, DType::fp32), weights = ones({chunk_});
    const Tensor targets = ids(chunk_), total = make({8}, DType::u8);
    const double n = size(logits);
    time("cross entropy max", n, [&] { kernels::cross_entropy_max(exec_, row_max, logits, kVocab); });
    time("cross entropy sums", n,
         [&] { kernels::cross_entropy_sums(exec_, sums, logits, row_max, targets, 0, kVocab); });
    time("cross entropy loss", size(sums), [&] { kernels::cross_entropy_loss(exec_, total, sums, weights); });
    time("cross entropy backward", 1.5 * n,
         [&] { kernels::cross_entropy_backward(exec_, d, logits, row_max, sums, targets, weights, 0, kVocab, 1e-3f); });
  }

  void embeddings() {
    const Tensor tokens = ids(tokens_), y = normal({tokens_, kHidden}), table = normal({kVocab, kHidden});
    const Tensor dtable = make({kVocab, kHidden}, DType::fp32);
    const Tensor work = bytes(kernels::embedding_workspace_bytes(tokens_, kVocab));
    time("embedding forward", 2 * size(y), [&] { kernels::embedding_forward(exec_, y, table, tokens, 0, kVocab); });
    // Every token has a row of its own.
    time("embedding backward", 5 * size(y),
         [&] { kernels::embedding_backward(exec_, dtable, y, tokens, 0, kVocab, work); });
    const auto [skewed, rows] = skewed_ids(tokens_);
    time("embedding backward, as in a text", size(y) + 2.0 * static_cast<double>(rows * kHidden) * sizeof(float),
         [&, of = skewed] { kernels::embedding_backward(exec_, dtable, y, of, 0, kVocab, work); });
  }

  void optimizer() {
    const Shape shape{weights_};
    const Tensor p = normal32(shape), g = normal32(shape), m = make(shape, DType::fp32), v = make(shape, DType::fp32);
    const Tensor half = make(shape, DType::bf16), mh = make(shape, DType::bf16), vh = make(shape, DType::bf16);
    const Tensor rest = make(shape, DType::i16), cast = make(shape, DType::e4m3);
    const Tensor total = make({kernels::kExactTotalBytes}, DType::u8);
    const kernels::AdamwScalars s{.lr = 1e-4, .weight_decay = 0.1};
    const double n = size(p);
    kernels::Outputs amax, both;
    amax.amax = both.amax = bits();
    both.quantized = Operand(cast, one(), Scaling::tensor);
    both.scale = scale();
    both.counts = counts();
    time("adamw", 7 * n, [&] { kernels::adamw_step(exec_, {p, {}, m, v, g}, s); });
    time("adamw + amax", 7 * n, [&] { kernels::adamw_step(exec_, {p, {}, m, v, g}, s, amax, true); });
    time("adamw + quantize", 7.25 * n, [&] { kernels::adamw_step(exec_, {p, {}, m, v, g}, s, both, true); });
    const Tensor squares =
        bytes(static_cast<std::size_t>(kernels::square_segments(p.rows(), p.cols())) * sizeof(double));
    time("adamw + quantize + squares", 7.25 * n, [&] {
      kernels::adamw_step(exec_, {p, {}, m, v, g, squares}, s, both, true);
    });
    // The parameters of a layer, by one kernel: norms and matrices in turn.
    std::vector<kernels::AdamwUpdate> layer;
    for (std::int64_t first = 0, part = 0; first < weights_; ++part) {
      const std::int64_t count = part % 3 == 0 ? kHidden : std::min(weights_ / 4, weights_ - first);
      const auto of = [&](const Tensor& t) { return t.slice(first, count); };
      kernels::Outputs out = both;
      out.quantized.data = of(cast);
      layer.push_back({{of(p), {}, of(m), of(v), of(g)}, part % 3 == 0 ? kernels::Outputs{} : out, part % 3 != 0});
      first += count;
    }
    time("adamw + quantize, a layer", 7.25 * n, [&] { kernels::adamw_step_each(exec_, layer, s, true); });
    time("adamw bf16 moments + amax", 5 * n, [&] { kernels::adamw_step(exec_, {p, {}, mh, vh, g}, s, amax, true); });
    time("adamw bf16 + remainder", 5 * n, [&] { kernels::adamw_step(exec_, {half, rest, mh, vh, g}, s, amax, true); });
    time("sum of squares", n, [&] { kernels::sum_of_squares(exec_, total, g); });
    time("cast fp32 to bf16", 1.5 * n, [&] { kernels::cast(exec_, half, p); });
    time("cast bf16 to fp32", 1.5 * n, [&] { kernels::cast(exec_, m, half); });
    time("copy fp32", 2 * n, [&] { kernels::cast(exec_, m, g); });
    time("fill zero", n, [&] { kernels::fill_zero(exec_, m); });
    time("split master", 2 * n, [&] { kernels::split_master(exec_, half, rest, p); });
    time("join master", 2 * n, [&] { kernels::join_master(exec_, m, half, rest); });
    time("quantize fp32 through bf16", 1.25 * n, [&] {
      kernels::quantize(exec_, both.quantized, Tensor{}, p, scale(), {.through_bf16 = true, .counts = counts()});
    });
    time("normal fill", n, [&] { kernels::normal_fill(exec_, m, 1, {0, weights_, 1}, 1); });
  }

  void forget() { arena_.release(0); }

 private:
  using Bytes = Kokkos::View<std::byte*, Exec::memory_space, Kokkos::MemoryUnmanaged>;

  /// The best time of a call: the least over several runs, each of several calls one after the other.
  template <class F>
  double seconds(const F& f) const {
    f();
    exec_.fence("shard8::tests::bench");
    double best = 1e30;
    int calls = 1;
    for (int repeat = 0; repeat < 8; ++repeat) {
      const Kokkos::Timer timer;
      for (int c = 0; c < calls; ++c) f();
      exec_.fence("shard8::tests::bench");
      const double one = timer.seconds() / calls;
      best = std::min(best, one);
      calls = std::clamp(static_cast<int>(0.004 / one), 1, 100);
    }
    return best;
  }
  template <class F>
  void time(const std::string& name, double moved, const F& f) {
    const double best = seconds(f), speed = moved / best;
    std::printf("%-40s %9.3f ms %7.0f GB/s %7.1f %% %7.1f %%\n", name.c_str(), best * 1e3, speed * 1e-9,
                100 * speed / copy_, 100 * speed / copy_speed(moved));
    std::fflush(stdout);
  }
  /// Bytes a second that a copy of `moved` bytes reads and writes. Copies that do not fit in memory count as fast as
  /// the largest that fits.
  double copy_speed(double moved) {
    const auto n = static_cast<std::size_t>(std::min(moved / 2, size(from_)));
    auto& speed = copy_speeds_[n];
    if (speed == 0) {
      const Bytes from(from_.data, n), to(to_.data, n);
      speed = 2 * static_cast<double>(n) / seconds([&] { Kokkos::deep_copy(exec_, to, from); });
    }
    return speed;
  }
  /// Times a kernel that reads `in` bytes, for every form that Outputs may ask for; casts to `format` with the scale of
  /// its amax.
  template <class F>
  void outputs(const std::string& name, double in, const Shape& shape, const F& run, DType format = DType::e4m3) {
    const auto mark = arena_.mark();
    const Tensor plain = make(shape, DType::bf16), cast = make(shape, format);
    kernels::Outputs out = plain;
    time(name, in + size(plain), [&] { run(out); });
    out.amax = bits();
    kernels::fill_zero(exec_, out.amax);
    time(name + " + amax", in + size(plain), [&] { run(out); });
    set_scale((format == DType::e4m3 ? tensor::E4M3::kMax : tensor::E5M2::kMax) /
              std::bit_cast<float>(tensor::to_host<std::int32_t>(exec_, out.amax).at(0)));
    out.plain = {};
    out.quantized = Operand(cast, one(), Scaling::tensor);
    out.scale = scale();
    out.counts = counts();
    time(name + " + quantize", in + size(cast), [&] { run(out); });
    out.transposed = make({shape[1], shape[0]}, format);
    time(name + " + quantize, transposed", in + 2 * size(cast), [&] { run(out); });
    arena_.release(mark);
  }
  /// As outputs(), for casts with blocks along rows, along columns (transposed), or both.
  template <class F>
  void time_blocks(const std::string& name, double in, const Shape& shape, bool row, bool column, const F& run) {
    const auto mark = arena_.mark();
    const kernels::Outputs out = blocks_of(make(shape, DType::bf16), row, column);
    time(name + (row ? " + 1x128" : "") + (column ? " + 128x1, transposed" : ""), in + size_of(out.blocks),
         [&] { run(out); });
    arena_.release(mark);
  }
  kernels::Outputs blocks_of(const Tensor& plain, bool row, bool column) {
    kernels::Outputs out = plain;
    out.blocks = block_casts(plain.shape, row, column);
    out.counts = counts();
    return out;
  }
  kernels::BlockCasts block_casts(const Shape& shape, bool row, bool column) {
    const auto cast = [&](Scaling s) {
      return Operand(make(shape, DType::e4m3), make(tensor::scale_shape(s, shape[0], shape[1]), DType::fp32), s);
    };
    kernels::BlockCasts casts;
    casts.power_of_2 = true;
    if (row) casts.rowwise = cast(Scaling::row_128);
    if (!column) return casts;
    casts.columnwise = cast(Scaling::column_128);
    casts.columnwise.data.shape = {shape[1], shape[0]};
    casts.columnwise.transposed = true;
    return casts;
  }
  static double size_of(const kernels::BlockCasts& casts) {
    double bytes = 0;
    for (const Operand& one : {casts.rowwise, casts.columnwise})
      if (!one.empty()) bytes += size(one.data) + size(one.scale_inv);
    return bytes;
  }
  void set_scale(float value) const {
    tensor::to_device(exec_, scale(), &value);
    tensor::finish(exec_);
  }

  kernels::Outputs transposed_alone(const Tensor& cast, const Tensor& transposed) const {
    kernels::Outputs out;
    out.quantized = Operand(cast, one(), Scaling::tensor);
    out.transposed = transposed;
    out.transposed_alone = true;
    out.scale = scale();
    return out;
  }
  Tensor make(const Shape& shape, DType dtype) {
    const Tensor t = arena_.allocate(shape, dtype);
    kernels::fill_zero(exec_, {t.data, {static_cast<std::int64_t>(t.bytes())}, DType::u8});
    return t;
  }
  Tensor normal32(const Shape& shape) {
    const Tensor t = make(shape, DType::fp32);
    kernels::normal_fill(exec_, t, 7, {0, t.cols(), 1}, 1.0);
    return t;
  }
  Tensor normal(const Shape& shape) {
    const Tensor t = make(shape, DType::bf16);
    const auto mark = arena_.mark();
    kernels::cast(exec_, t, normal32(shape));
    arena_.release(mark);
    return t;
  }
  Tensor ones(const Shape& shape) {
    const Tensor t = make(shape, DType::fp32);
    kernels::fill_one(exec_, t);
    return t;
  }
  Tensor bytes(std::size_t n) { return make({static_cast<std::int64_t>(n)}, DType::u8); }
  /// Tokens that are all different (up to kVocab of them), not in ascending order.
  Tensor ids(std::int64_t count) {
    std::vector<std::int32_t> values;
    for (std::int64_t t = 0; t < count; ++t) values.push_back(static_cast<std::int32_t>(t * 7919 % kVocab));
    const Tensor t = make({count}, DType::i32);
    tensor::to_device(exec_, t, values.data());
    tensor::finish(exec_);
    return t;
  }
  /// Tokens kVocab·u³, for u spread evenly over [0, 1): small numbers are frequent. Also returns how many different
  /// tokens there are.
  std::pair<Tensor, std::int64_t> skewed_ids(std::int64_t count) {
    std::vector<std::int32_t> values;
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t even = t * 7919 % kVocab;
      values.push_back(static_cast<std::int32_t>(even * even / kVocab * even / kVocab));
    }
    const Tensor t = make({count}, DType::i32);
    tensor::to_device(exec_, t, values.data());
    tensor::finish(exec_);
    return {t, static_cast<std::int64_t>(std::set<std::int32_t>(values.begin(), values.end()).size())};
  }
  Tensor small(std::int64_t at, DType dtype) const { return {small_.data + 256 * at, {1}, dtype}; }
  Tensor bits() const { return small(0, DType::i32); }
  Tensor one() const { return small(1, DType::fp32); }
  Tensor scale() const { return small(2, DType::fp32); }
  kernels::CastCounts* counts() const { return reinterpret_cast<kernels::CastCounts*>(small_.data + 3 * 256); }
  kernels::CastOptions options() const { return {.power_of_2 = true, .counts = counts()}; }
  static double size(const Tensor& t) { return static_cast<double>(t.bytes()); }

  Exec exec_;
  std::int64_t tokens_, chunk_, weights_;
  tensor::Arena arena_{"bench", tensor::MemoryKind::buffers, static_cast<std::size_t>(weights_) * 32 + (1u << 20)};
  tensor::Arena small_arena_{"small", tensor::MemoryKind::buffers, 4096};
  Tensor small_ = small_arena_.allocate({4096}, DType::u8);
  tensor::Arena copies_{"copies", tensor::MemoryKind::buffers, static_cast<std::size_t>(weights_) * 8 + 4096};
  Tensor from_ = copies_.allocate({weights_}, DType::fp32), to_ = copies_.allocate({weights_}, DType::fp32);
  std::map<std::size_t, double> copy_speeds_;
  double copy_ = 1;
};

}  // namespace
}  // namespace shard8::tests

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  using shard8::tests::Bench;
  const std::string_view only = argc > 1 ? argv[1] : "all";
  Bench bench(argc > 2 ? std::atoll(argv[2]) : 8192);
  const struct {
    std::string_view name;
    void (Bench::*run)();
  } groups[] = {{"quantizers", &Bench::quantizers},   {"norms", &Bench::norms},
                {"activations", &Bench::activations}, {"cross_entropy", &Bench::cross_entropy},
                {"embeddings", &Bench::embeddings},   {"optimizer", &Bench::optimizer}};
  for (const auto& group : groups) {
    if (only != "all" && only != group.name) continue;
    (bench.*group.run)();
    bench.forget();
  }
  return 0;
}
