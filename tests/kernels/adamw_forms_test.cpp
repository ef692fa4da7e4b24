// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>

#include "kernels/adamw.hpp"
#include "tests/kernels/adamw_scalars.hpp"
#include "tests/kernels/fused.hpp"

namespace shard8::tests {
namespace {

/// The state of one shard.
struct State {
  State(const Shape& shape, DType master_type, DType moments)
      : master(shape, master_type),
        remainder(master_type == DType::bf16 ? shape : Shape{0}, DType::i16),
        m(shape, moments),
        v(shape, moments) {}
  kernels::AdamwTensors tensors(const Tensor& g) const { return {master, remainder, m, v, g}; }
  /// Sets the master in either form: fp32, or bf16 with a remainder.
  void set_master(const Buffer& p) {
    if (master.dtype() == DType::bf16) {
      kernels::split_master(Exec(), master, remainder, p);
    } else {
      copy_bytes(master, p);
    }
  }
  Buffer joined() const {
    Buffer p(master.shape(), DType::fp32);
    if (master.dtype() == DType::bf16) {
      kernels::join_master(Exec(), p, master, remainder);
    } else {
      copy_bytes(p, master);
    }
    return p;
  }
  Buffer master, remainder, m, v;
};
void expect_same_state(const State& got, const State& want) {
  EXPECT_EQ(bytes_of(got.master), bytes_of(want.master));
  EXPECT_EQ(bytes_of(got.remainder), bytes_of(want.remainder));
  EXPECT_EQ(bytes_of(got.m), bytes_of(want.m));
  EXPECT_EQ(bytes_of(got.v), bytes_of(want.v));
}

/// The bits of fp32 numbers; all NaN count as equal, because a remainder does not keep the low half of a NaN's payload.
std::vector<std::uint32_t> numbers_of(const Tensor& t) {
  std::vector<std::uint32_t> bits;
  for (const float x : stored<float>(t)) bits.push_back(std::isnan(x) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(x));
  return bits;
}

class AdamwForms : public ::testing::TestWithParam<DType> {
 protected:
  DType moments_ = GetParam();
};

TEST_P(AdamwForms, RoundsEveryOperationOnce) {
  const Shape shape{5003};
  State state(shape, DType::fp32, moments_);
  state.set_master(Buffer::normal(shape, DType::fp32, 1));
  const auto rounded = [&](float x) { return moments_ == DType::bf16 ? static_cast<float>(BFloat16(x)) : x; };
  std::vector<float> p, m(5003), v(5003);
  for (const double x : state.master.get()) p.push_back(static_cast<float>(x));
  for (std::int64_t step = 0; step < 12; ++step) {
    const auto s = adamw_scalars(step);
    const auto g = Buffer::normal(shape, DType::fp32, static_cast<unsigned>(step) + 2);
    const auto gradients = stored<float>(g);
    kernels::adamw_step(Exec(), state.tensors(g), s);
    const auto beta1 = static_cast<float>(s.beta1), new1 = static_cast<float>(1 - s.beta1);
    const auto beta2 = static_cast<float>(s.beta2), new2 = static_cast<float>(1 - s.beta2);
    const auto decay = static_cast<float>(1 - s.lr * s.weight_decay);
    const auto count = static_cast<double>(step + 1);
    const auto rate = static_cast<float>(s.lr / (1 - std::pow(s.beta1, count)));
    const auto inverse = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, count)));
    for (std::size_t i = 0; i < p.size(); ++i) {
      // This file is compiled without contraction, like the kernel, so every operation rounds.
      const float gi = gradients[i] * static_cast<float>(s.gradient_scale);
      const float mi = beta1 * m[i] + new1 * gi;
      const float vi = beta2 * v[i] + new2 * gi * gi;
      p[i] = p[i] * decay - rate * mi / (std::sqrt(vi) * inverse + static_cast<float>(s.eps));
      m[i] = rounded(mi);
      v[i] = rounded(vi);
    }
    const std::vector<double> pd(p.begin(), p.end()), md(m.begin(), m.end()), vd(v.begin(), v.end());
    ASSERT_TRUE(same_bits(state.m.get(), md)) << "step " << step;
    ASSERT_TRUE(same_bits(state.v.get(), vd)) << "step " << step;
    ASSERT_TRUE(same_bits(state.master.get(), pd)) << "step " << step;
  }
}

TEST_P(AdamwForms, RemainderKeepsTheMaster) {
  for (const auto kind : kKinds) {
    SCOPED_TRACE(name_of(kind));
    const Shape shape{37, 41};
    const auto start = draw(kind == Kind::nan ? Kind::random : kind, shape, DType::fp32, 1);
    State whole(shape, DType::fp32, moments_), halves(shape, DType::bf16, moments_);
    whole.set_master(start);
    halves.set_master(start);
    for (std::int64_t step = 0; step < 20; ++step) {
      const auto g = draw(kind, shape, DType::fp32, static_cast<unsigned>(step) + 2);
      kernels::adamw_step(Exec(), whole.tensors(g), adamw_scalars(step));
      kernels::adamw_step(Exec(), halves.tensors(g), adamw_scalars(step));
      ASSERT_TRUE(same_bits(numbers_of(halves.joined()), numbers_of(whole.master))) << "step " << step;
      State split(shape, DType::bf16, moments_);
      split.set_master(whole.master);
      ASSERT_EQ(bytes_of(halves.master), bytes_of(split.master)) << "step " << step;
    }
    EXPECT_EQ(bytes_of(halves.m), bytes_of(whole.m));
    EXPECT_EQ(bytes_of(halves.v), bytes_of(whole.v));
  }
}

/// Update, amax and cast in one pass give the same bits as the update followed by amax and cast of the weights.
TEST_P(AdamwForms, FusedEqualsUnfused) {
  struct Form {
    DType master;
    bool through_bf16;
  };
  for (const auto form : {Form{DType::fp32, false}, Form{DType::fp32, true}, Form{DType::bf16, true}}) {
    for (const auto kind : kKinds) {
      for (const auto& shape : {Shape{1}, Shape{37, 41}, Shape{20001}}) {
        SCOPED_TRACE(std::string(tensor::name_of(form.master)) + (form.through_bf16 ? " through bf16 " : " ") +
                     std::string(name_of(kind)) + " " + to_string(shape));
        const auto start = draw(kind, shape, DType::fp32, 1), g = draw(kind, shape, DType::fp32, 2);
        State plain(shape, form.master, moments_);
        plain.set_master(start);
        for (std::int64_t step = 0; step < 2; ++step) {
          kernels::adamw_step(Exec(), plain.tensors(g), adamw_scalars(step));
        }
        for (const auto& parts : all_parts()) {
          if (parts.plain) continue;
          SCOPED_TRACE(to_string(parts));
          State fused(shape, form.master, moments_);
          fused.set_master(start);
          kernels::adamw_step(Exec(), fused.tensors(g), adamw_scalars(0));
          Memory got(shape, form.master, parts, 130), want(shape, form.master, parts, 130);
          kernels::adamw_step(Exec(), fused.tensors(g), adamw_scalars(1), got.outputs(), form.through_bf16);
          want.leave(Exec(), plain.master, form.through_bf16);
          expect_same(got, want);
          expect_same_state(fused, plain);
        }
      }
    }
  }
}

/// One of several parameters that are updated together, and its results.
struct Parameter {
  Parameter(const Shape& shape, DType master, DType moments, const Parts& parts, bool decay, bool counted)
      : state(shape, master, moments),
        left(shape, DType::bf16, parts, 130),
        squares({counted ? parts_of(state.m.shape()) * 8 : 0}, DType::u8, 0x5a),
        decays(decay) {
    state.set_master(Buffer::normal(shape, DType::fp32, 1));
  }
  kernels::AdamwUpdate update() {
    auto tensors = state.tensors(g);
    tensors.squares = squares;
    return {tensors, left.outputs(), decays};
  }
  static std::int64_t parts_of(const Shape& shape) {
    return kernels::square_segments(shape[0], shape.count() / std::max<std::int64_t>(shape[0], 1));
  }
  State state;
  Memory left;
  Buffer squares, g = Buffer::normal(state.m.shape(), DType::fp32, 2);
  bool decays;
};

/// More parameters than one kernel takes, of many lengths.
std::vector<Parameter> parameters(DType master, DType moments, const std::vector<Parts>& parts, bool counted) {
  const std::vector<Shape> shapes{{20001}, {0}, {37, 41}, {8192}, {8193}, {1}, {24, 4096}};
  std::vector<Parameter> all;
  for (std::size_t i = 0; i < 2 * kernels::kAdamwAtOnce + 3; ++i) {
    all.emplace_back(shapes[i % shapes.size()], master, moments, parts[i % parts.size()], i % 3 != 0,
                     counted && i % 4 != 0);
  }
  return all;
}

TEST_P(AdamwForms, SeveralAreAsOneAfterTheOther) {
  const Parts none{false, false, false}, amax{false, true, false}, e4m3{false, true, true},
      e5m2{false, false, true, DType::e5m2};
  const std::vector<std::vector<Parts>> kinds{
      {none}, {amax}, {none, e4m3}, {none, none, amax}, {e4m3, e5m2, none, amax}};
  for (const auto master : {DType::fp32, DType::bf16}) {
    for (const bool counted : {false, true}) {
      for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
        SCOPED_TRACE(std::string(tensor::name_of(master)) + (counted ? " counted " : " ") + std::to_string(kind));
        auto together = parameters(master, moments_, kinds[kind], counted);
        auto alone = parameters(master, moments_, kinds[kind], counted);
        for (std::int64_t step = 0; step < 2; ++step) {
          auto scalars = adamw_scalars(step);
          std::vector<kernels::AdamwUpdate> updates;
          for (auto& p : together) updates.push_back(p.update());
          kernels::adamw_step_each(Exec(), updates, scalars, true);
          for (auto& p : alone) {
            const auto one = p.update();
            scalars.weight_decay = p.decays ? adamw_scalars(step).weight_decay : 0;
            kernels::adamw_step(Exec(), one.tensors, scalars, one.weights, true);
          }
        }
        for (std::size_t i = 0; i < alone.size(); ++i) {
          SCOPED_TRACE("parameter " + std::to_string(i));
          expect_same_state(together[i].state, alone[i].state);
          expect_same(together[i].left, alone[i].left);
          EXPECT_EQ(bytes_of(together[i].squares), bytes_of(alone[i].squares));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, AdamwForms, ::testing::Values(DType::fp32, DType::bf16),
                         [](const auto& type) { return std::string(tensor::name_of(type.param)); });

TEST(AdamwErrors, SaysWhatDoesNotFit) {
  const Shape shape{6};
  const Buffer g(shape, DType::fp32), few({5}, DType::fp32), r({6}, DType::i16);
  const State whole(shape, DType::fp32, DType::fp32), halves(shape, DType::bf16, DType::bf16);
  const auto run = [](const kernels::AdamwTensors& t, const Outputs& weights = {}) {
    kernels::adamw_step(Exec(), t, {.lr = 1e-3}, weights);
  };
  run(whole.tensors(g));
  run(halves.tensors(g));
  EXPECT_THROW(run(whole.tensors(few)), base::Error);
  auto t = whole.tensors(g);
  t.remainder = r;
  EXPECT_THROW(run(t), base::Error) << "a remainder of an fp32 master";
  t = halves.tensors(g);
  t.remainder = {};
  EXPECT_THROW(run(t), base::Error) << "a bf16 master without a remainder";
  t = halves.tensors(g);
  t.m = whole.m;
  EXPECT_THROW(run(t), base::Error) << "moments of two types";
  Memory memory({5}, DType::fp32, {false, false, true, DType::e4m3}, 1);
  EXPECT_THROW(run(whole.tensors(g), memory.outputs()), base::Error) << "weights of another count";
}

/// A shard may be empty.
TEST(AdamwErrors, NoElementsStillHaveAScale) {
  const State none({0}, DType::bf16, DType::bf16);
  const Buffer g({0}, DType::fp32);
  Memory memory({0}, DType::bf16, {false, true, true, DType::e4m3}, 8);
  kernels::adamw_step(Exec(), none.tensors(g), {.lr = 1e-3}, memory.outputs());
  EXPECT_EQ(memory.scale_inv.get()[0], 0.125);
}

}  // namespace
}  // namespace shard8::tests
