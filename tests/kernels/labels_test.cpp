// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/adamw.hpp"
#include "kernels/attention.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"
#include "kernels/moe.hpp"
#include "kernels/quantize.hpp"
#include "kernels/vocabulary.hpp"
#include "tests/kernels/buffer.hpp"

namespace shard8::tests {
namespace {

struct Launch {
  std::string label;
  std::uint32_t device;
};
/// The launches that the callbacks, plain functions, record.
std::vector<Launch>& launches() {
  static std::vector<Launch> list;
  return list;
}
void record(const char* label, std::uint32_t device, std::uint64_t*) { launches().push_back({label, device}); }
void region(const char* label) { launches().push_back({label, 0}); }

/// Records every kernel that Kokkos launches while it lives.
class Recorder {
 public:
  Recorder() {
    launches().clear();
    Kokkos::Tools::Experimental::set_begin_parallel_for_callback(record);
    Kokkos::Tools::Experimental::set_begin_parallel_reduce_callback(record);
    Kokkos::Tools::Experimental::set_begin_parallel_scan_callback(record);
    Kokkos::Tools::Experimental::set_push_region_callback(region);
  }
  ~Recorder() {
    Kokkos::Tools::Experimental::set_begin_parallel_for_callback(nullptr);
    Kokkos::Tools::Experimental::set_begin_parallel_reduce_callback(nullptr);
    Kokkos::Tools::Experimental::set_begin_parallel_scan_callback(nullptr);
    Kokkos::Tools::Experimental::set_push_region_callback(nullptr);
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
};

/// Keeps other kernels from running on an instance while it lives. OpenMP instances cannot be told apart by their id
/// (Kokkos 5.2 gives all of them the same id), but each runs one launch at a time.
class Occupied {
 public:
  template <class Space>
  explicit Occupied(const Space& exec, std::chrono::milliseconds patience = std::chrono::seconds(10)) {
    if constexpr (requires { exec.impl_internal_space_instance()->m_instance_mutex; }) {
      std::promise<void> taken;
      auto ready = taken.get_future();
      holder_ = std::thread([this, exec, patience, &taken] {
        const std::lock_guard lock(exec.impl_internal_space_instance()->m_instance_mutex);
        taken.set_value();
        wanted_ = leave_.get_future().wait_for(patience) == std::future_status::timeout;
      });
      ready.wait();
    }
  }
  /// Ends the occupation. Returns whether a launch may have waited for the instance: then end() was not called in time.
  bool end() {
    if (!holder_.joinable()) return wanted_;
    leave_.set_value();
    holder_.join();
    return wanted_;
  }
  ~Occupied() { end(); }
  Occupied(const Occupied&) = delete;
  Occupied& operator=(const Occupied&) = delete;

 private:
  std::promise<void> leave_;
  std::thread holder_;
  bool wanted_ = false;
};

struct Operator {
  std::string name;
  std::function<void(const Exec&)> run;
};

/// The operators of a layer of experts, on small tensors: 2 of 20 experts for each of 12 tokens.
std::vector<Operator> moe_operators(DType dtype) {
  const std::int64_t t = 12, e = 20, h = 24, f = 16, pairs = 2 * t;
  const auto make = [](const Shape& shape, DType type) {
    return std::make_shared<Buffer>(Buffer::normal(shape, type, 1));
  };
  const auto ints = [](const Shape& shape) { return std::make_shared<Buffer>(shape, DType::i32, 3.0); };
  const auto logits = make({t, e}, DType::fp32), probabilities = make({t, e}, DType::fp32),
             dlogits = make({t, e}, dtype);
  const auto weights = make({t, 2}, DType::fp32), tokens = make({t}, DType::fp32), sums = make({2, 2, e}, DType::fp32);
  const auto chosen = ints({t, 2}), position = ints({t, 2}), source = ints({pairs}), counts = ints({e});
  const auto x = make({t, h}, dtype), rows = make({pairs, h}, dtype), values = make({pairs}, DType::fp32);
  const auto narrow = make({pairs, f}, dtype), wide = make({pairs, 2 * f}, dtype), dvalues = make({pairs}, DType::fp32);
  const auto total = std::make_shared<Total>();
  const auto routing = [=] { return kernels::MoeRouting{*probabilities, *chosen, *weights}; };
  const auto sent = std::make_shared<Buffer>(Shape{1, e}, DType::i32, 1.0), first = ints({1, e});
  const auto counted = ints({e + kernels::kMoeSums});
  const auto table = ints({kernels::moe_dispatch_table_count(1, e, 1)}), end = ints({1});
  const auto received = make({16 * e, h}, dtype);
  const auto dispatch = [=] { return kernels::MoeDispatch{*sent, 0, 16 * e, 16, *first, *first, *end, *table}; };
  const auto part = [=](int multiprocessors) {
    return kernels::DispatchPart{.experts = e, .multiprocessors = multiprocessors};
  };
  const auto to = [](const Buffer& matrix) { return kernels::RankAddresses{{matrix.tensor().data}}; };
  return {
      {"moe_route", [=](const Exec& exec) { kernels::moe_route(exec, routing(), *logits, true); }},
      {"moe_route_backward",
       [=](const Exec& exec) {
         kernels::moe_route_backward(exec, *dlogits, *weights, routing(), {*sums, 0, 6, 1}, *tokens);
       }},
      {"moe_draw", [=](const Exec& exec) { kernels::moe_draw(exec, *chosen, {.experts = e}); }},
      {"moe_draw", [=](const Exec& exec) { kernels::moe_draw(exec, *chosen, {.balanced = false, .experts = e}); }},
      {"moe_sort", [=](const Exec& exec) { kernels::moe_sort(exec, *counts, *position, *source, *chosen, *tokens); }},
      {"moe_count",
       [=](const Exec& exec) {
         kernels::moe_count(exec, *counted, *sent, {0, 16 * e, 16});
       }},
      {"moe_gather_rows", [=](const Exec& exec) { kernels::moe_gather_rows(exec, *rows, *x, *source, 2); }},
      {"moe_gather_values", [=](const Exec& exec) { kernels::moe_gather_values(exec, *values, *weights, *source); }},
      {"moe_combine", [=](const Exec& exec) { kernels::moe_combine(exec, *x, {}, *rows, *position); }},
      {"moe_combine_values",
       [=](const Exec& exec) { kernels::moe_combine_values(exec, *weights, *values, *position); }},
      {"moe_rounds", [=](const Exec& exec) { kernels::moe_rounds(exec, dispatch()); }},
      {"moe_push_rows",
       [=](const Exec& exec) {
         kernels::moe_push_rows(exec, to(*received), {}, dispatch(), part(0), *x, *source, {});
       }},
      {"moe_push_rows",
       [=](const Exec& exec) {
         kernels::moe_push_rows(exec, to(*received), {}, dispatch(), part(2), *x, *source, {});
       }},
      {"moe_push_results",
       [=](const Exec& exec) { kernels::moe_push_results(exec, to(*rows), {}, dispatch(), part(0), *received, {}); }},
      {"moe_push_results",
       [=](const Exec& exec) { kernels::moe_push_results(exec, to(*rows), {}, dispatch(), part(2), *received, {}); }},
      {"moe_zero_padding", [=](const Exec& exec) { kernels::moe_zero_padding(exec, *received, {}, dispatch(), 0); }},
      {"moe_swiglu_forward", [=](const Exec& exec) { kernels::moe_swiglu_forward(exec, *narrow, *wide, *values); }},
      {"moe_swiglu_backward",
       [=](const Exec& exec) { kernels::moe_swiglu_backward(exec, *wide, *dvalues, *narrow, *wide, *values); }},
      {"moe_sequence_sums",
       [=](const Exec& exec) { kernels::moe_sequence_sums(exec, *sums, *chosen, *probabilities, *tokens, 0, 6); }},
      {"moe_balance", [=](const Exec& exec) { kernels::moe_balance(exec, *total, *sums, 1, 2, 6); }},
  };
}

/// Every operator of every header that Kokkos launches, on small tensors. A bf16 product launches kernels of its own.
std::vector<Operator> operators(DType dtype) {
  const std::int64_t t = 12, h = 24, f = 16, v = 20;
  const auto make = [=](const Shape& shape, DType type) {
    return std::make_shared<Buffer>(Buffer::normal(shape, type, 1));
  };
  const auto x = make({t, h}, dtype), y = make({t, h}, dtype), w = make({h}, dtype), wide = make({t, 2 * f}, dtype);
  const auto narrow = make({t, f}, dtype), table = make({v, h}, dtype), head = make({v, h}, dtype);
  const auto wide_x = make({32, 512}, dtype), wide_y = make({32, 512}, dtype), wide_w = make({512}, dtype);
  // Of a size that clusters of blocks take.
  const auto wide_mean = make({32}, DType::fp32), wide_rstd = make({32}, DType::fp32);
  const auto rows = make({t}, DType::fp32), more = make({t}, DType::fp32), grad = make({h}, DType::fp32);
  const auto other = make({h}, DType::fp32), dtable = make({v, h}, DType::fp32), logits = make({t, v}, DType::fp32);
  const auto upper = make({h}, DType::bf16), lower = make({h}, DType::i16);
  const auto sums = make({2, t}, DType::fp32), scores = make({t, v}, dtype);
  const auto qkv = make({t, 3 * h}, dtype), dqkv = make({t, 3 * h}, dtype), angles = make({2, 6, 4}, DType::fp32);
  const auto unnormed = make({t, 2 * h}, dtype), head_w = make({8}, dtype), head_dw = make({8}, DType::fp32);
  const auto lse = make({2, 3, 6}, DType::fp32);
  const auto tokens = std::make_shared<Buffer>(Shape{t}, DType::i32, 3.0);
  const auto work = std::make_shared<Buffer>(Buffer::bytes(1 << 20));
  const auto square = make({32, 32}, dtype), bytes = make({32, 32}, DType::e4m3), turned = make({32, 32}, DType::e4m3);
  const auto total = std::make_shared<Total>();
  const auto exact = std::make_shared<ExactTotal>();
  const auto parts = std::make_shared<Buffer>(Buffer::bytes(static_cast<std::size_t>(8 * h)));
  const auto one = make({1}, DType::fp32), factor = make({1}, DType::fp32), amax = make({1}, DType::i32);
  const auto row_scales = make({32, 1}, DType::e8m0), column_scales = make({1, 32}, DType::e8m0);
  const auto whole = [=] { return tensor::Operand(*bytes, *one, tensor::Scaling::tensor); };
  const auto by_row = [=] { return tensor::Operand(*bytes, *row_scales, tensor::Scaling::row_32); };
  const auto by_column = [=] { return tensor::Operand(*turned, *column_scales, tensor::Scaling::column_32); };
  const kernels::AttentionShape shape{2, 6, 3, 3, 8};
  const Tensor none;
  std::vector<Operator> all{
      {"swiglu_forward", [=](const Exec& e) { kernels::swiglu_forward(e, *narrow, *wide); }},
      {"swiglu_backward", [=](const Exec& e) { kernels::swiglu_backward(e, *wide, *narrow, *wide); }},
      {"gelu_forward", [=](const Exec& e) { kernels::gelu_forward(e, *y, *x); }},
      {"gelu_backward", [=](const Exec& e) { kernels::gelu_backward(e, *y, *x, *x); }},
      {"adamw_step",
       [=](const Exec& e) {
         kernels::adamw_step(e, {*grad, {}, *other, *other, *grad}, {});
       }},
      {"split_master", [=](const Exec& e) { kernels::split_master(e, *upper, *lower, *other); }},
      {"join_master", [=](const Exec& e) { kernels::join_master(e, *other, *upper, *lower); }},
      {"cross_entropy_max", [=](const Exec& e) { kernels::cross_entropy_max(e, *rows, *logits, v); }},
      {"cross_entropy_sums",
       [=](const Exec& e) { kernels::cross_entropy_sums(e, *sums, *logits, *rows, *tokens, 0, v); }},
      {"cross_entropy_loss", [=](const Exec& e) { kernels::cross_entropy_loss(e, *total, *sums, *rows); }},
      {"cross_entropy_backward",
       [=](const Exec& e) {
         kernels::cross_entropy_backward(e, *scores, *logits, *rows, *sums, *tokens, *rows, 0, v, 1.0f);
       }},
      {"residual_add", [=](const Exec& e) { kernels::residual_add(e, *y, *x, *y, none); }},
      {"residual_add", [=](const Exec& e) { kernels::residual_add(e, *y, *x, *y, *w); }},
      {"make_sum",
       [=](const Exec& e) {
         tensor::PartialSums partial_sums(*x);
         partial_sums.add(*y);
         kernels::make_sum(e, {partial_sums, *y});
       }},
      {"bias_gradient", [=](const Exec& e) { kernels::bias_gradient(e, *grad, *x, *work); }},
      {"cast", [=](const Exec& e) { kernels::cast(e, *dtable, *head); }},
      {"add_gradients", [=](const Exec& e) { kernels::add_gradients(e, *dtable, *head); }},
      {"fill_zero", [=](const Exec& e) { kernels::fill_zero(e, *y); }},
      {"fill_one", [=](const Exec& e) { kernels::fill_one(e, *y); }},
      {"sum_of_squares", [=](const Exec& e) { kernels::sum_of_squares(e, *exact, *grad); }},
      {"sum_of_scaled_squares",
       [=](const Exec& e) {
         kernels::sum_of_scaled_squares(e, *exact, whole());
         kernels::sum_of_scaled_squares(e, *exact, by_row());
       }},
      {"square_parts", [=](const Exec& e) { kernels::square_parts(e, *parts, *grad); }},
      {"add_square_parts", [=](const Exec& e) { kernels::add_square_parts(e, *exact, *parts); }},
      {"embedding_forward", [=](const Exec& e) { kernels::embedding_forward(e, *y, *table, *tokens, 0, v); }},
      {"embedding_backward", [=](const Exec& e) { kernels::embedding_backward(e, *dtable, *x, *tokens, 0, v, *work); }},
      {"position_forward", [=](const Exec& e) { kernels::position_forward(e, *y, *table, 5, 6); }},
      {"position_backward", [=](const Exec& e) { kernels::position_backward(e, *dtable, *x, 5, 6); }},
      {"rmsnorm_forward", [=](const Exec& e) { kernels::rmsnorm_forward(e, *y, *rows, *x, *w, 1e-5f); }},
      {"rmsnorm_forward",
       [=](const Exec& e) { kernels::rmsnorm_forward(e, *wide_y, *wide_rstd, *wide_x, *wide_w, 1e-5f); }},
      {"layernorm_forward",
       [=](const Exec& e) {
         kernels::layernorm_forward(e, *wide_y, *wide_mean, *wide_rstd, *wide_x, *wide_w, *wide_w, 1e-5f);
       }},
      {"rmsnorm_recompute", [=](const Exec& e) { kernels::rmsnorm_recompute(e, *y, *rows, *x, *w); }},
      {"layernorm_recompute", [=](const Exec& e) { kernels::layernorm_recompute(e, *y, *more, *rows, *x, *w, *w); }},
      {"rmsnorm_backward",
       [=](const Exec& e) { kernels::rmsnorm_backward(e, *y, *grad, *x, *x, *rows, *w, none, *work); }},
      {"layernorm_forward", [=](const Exec& e) { kernels::layernorm_forward(e, *y, *more, *rows, *x, *w, *w, 1e-5f); }},
      {"layernorm_backward",
       [=](const Exec& e) {
         kernels::layernorm_backward(e, *y, *grad, *other, *x, *x, *more, *rows, *w, none, *work);
       }},
      {"normal_fill",
       [=](const Exec& e) {
         kernels::normal_fill(e, *dtable, 1, {0, 24, 1}, 1.0);
       }},
      {"amax", [=](const Exec& e) { kernels::amax(e, *amax, *square, {}); }},
      {"scale_of_amax", [=](const Exec& e) { kernels::scale_of_amax(e, *factor, none, *amax, {}, false); }},
      {"inverse_scales", [=](const Exec& e) { kernels::inverse_scales(e, *factor, *factor); }},
      {"quantize", [=](const Exec& e) { kernels::quantize(e, whole(), *amax, *square, *factor, {}); }},
      {"quantize_transpose",
       [=](const Exec& e) { kernels::quantize_transpose(e, whole(), *turned, *amax, *square, *factor, {}); }},
      {"quantize_blocks",
       [=](const Exec& e) {
         kernels::quantize_blocks(e, by_row(), *square, {});
         kernels::quantize_blocks(e, by_row(), by_column(), *square, {});
       }},
      {"dequantize",
       [=](const Exec& e) {
         kernels::dequantize(e, *square, whole());
         kernels::dequantize(e, *square, by_column());
       }},
      {"transpose_bytes", [=](const Exec& e) { kernels::transpose_bytes(e, *turned, *bytes); }},
      {"rope_table", [=](const Exec& e) { kernels::rope_table(e, *angles, 10000); }},
      {"rope_forward", [=](const Exec& e) { kernels::rope_forward(e, *qkv, *angles, 6); }},
      {"rope_backward", [=](const Exec& e) { kernels::rope_backward(e, *qkv, *angles, 6); }},
      {"qk_norm_rope_forward",
       [=](const Exec& e) {
         kernels::qk_norm_rope_forward(e, *qkv, *unnormed, *angles, {*head_w, *head_w}, {4, 2}, 1e-5f);
       }},
      {"qk_norm_rope_backward",
       [=](const Exec& e) {
         kernels::qk_norm_rope_backward(e, *qkv, {*head_dw, *head_dw}, *unnormed, *angles, {*head_w, *head_w}, {4, 2},
                                        1e-5f, *work);
       }},
  };
  for (auto& op : moe_operators(dtype)) all.push_back(std::move(op));
  // On devices libraries run these operators, and no tool sees them.
  if constexpr (!tensor::kDevice) {
    all.push_back(
        {"attention_forward", [=](const Exec& e) { kernels::attention_forward(e, *x, *lse, *qkv, shape, *work); }});
    all.push_back({"attention_backward",
                   [=](const Exec& e) { kernels::attention_backward(e, *dqkv, *y, *x, *qkv, *lse, shape, *work); }});
    all.push_back({"gemm_fprop", [=](const Exec& e) { kernels::gemm_fprop(e, *scores, *x, *head, none, *work); }});
    all.push_back({"gemm_dgrad", [=](const Exec& e) { kernels::gemm_dgrad(e, *y, *scores, *head, false, *work); }});
    all.push_back({"gemm_wgrad", [=](const Exec& e) { kernels::gemm_wgrad(e, *dtable, *scores, *x, true, *work); }});
  }
  return all;
}

class Labels : public ::testing::TestWithParam<DType> {};

TEST_P(Labels, EveryKernelIsNamedAndRunsOnTheInstance) {
  // An instance that is not the default one, so that a forgotten argument shows.
  const auto instance = exec_widths().back();
  ASSERT_FALSE(instance == Exec());
  const auto device = Kokkos::Tools::Experimental::device_id(instance);
  for (const auto& op : operators(GetParam())) {
    SCOPED_TRACE(op.name);
    {
      const Recorder recorder;
      op.run(instance);
    }
    // Without the recorder: a tool makes Kokkos fence all instances.
    Occupied other{Exec()};
    op.run(instance);
    EXPECT_FALSE(other.end()) << "waited for the default instance";
    EXPECT_FALSE(launches().empty()) << "no kernel and no region";
    for (const auto& launch : launches()) {
      // attention_backward may be a pair of kernels, embedding_backward sorts first, and so on; all
      // begin with the operator's name. Helpers of products are gemm_bias, gemm_decode, gemm_round.
      const auto family = op.name.substr(0, op.name.find('_'));
      EXPECT_EQ(launch.label.find("shard8::kernels::" + family), 0u) << launch.label;
      if (launch.label.find("shard8::kernels::gemm_") == 0 && launch.device == 0) continue;  // a region has no device
      EXPECT_EQ(launch.device, device) << launch.label << " did not run on the instance passed in";
    }
  }
}

TEST(LabelsSelf, AForgottenInstanceShows) {
  if constexpr (!std::is_constructible_v<Exec, int>) {
    GTEST_SKIP() << "instances of this backend have ids";
  } else {
    Occupied other(Exec(), std::chrono::milliseconds(200));
    kernels::fill_one(Exec(), Buffer({4}, DType::fp32));
    EXPECT_TRUE(other.end());
  }
}

INSTANTIATE_TEST_SUITE_P(, Labels, ::testing::Values(DType::fp32, DType::bf16));

}  // namespace
}  // namespace shard8::tests
