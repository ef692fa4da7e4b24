// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "project/stack.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "tests/project/stack_deck.hpp"

// The step of another stack against the step that is recorded: each key of a stack file, with sums made by hand.

namespace shard8 {
namespace {

using operation::Operation;
using operation::Operations;
using operation::Product;
using operation::Stream;
using Op = profile::Collective;
using namespace test;

struct Steps {
  Operations own, stack;
};
Steps steps_of(const std::string& structure, const std::vector<std::string>& deck = {}) {
  const deck::Config config = deck_of(deck);
  const auto setup = train::Setup::make(config, 0, 1);
  Steps steps;
  steps.own = train::record_step(setup);
  const auto stack = stack_of(structure);
  steps.stack = transformed(project::structure_of(stack, config), setup, steps.own);
  return steps;
}

using Which = std::function<bool(const Operation& o)>;
std::int64_t count(const Operations& step, const Which& which) {
  return std::count_if(step.list.begin(), step.list.end(), which);
}
double flops(
    const Operations& step, const Which& which = [](const Operation&) { return true; }) {
  double sum = 0;
  for (const Operation& o : step.list)
    if (o.product() != nullptr && which(o)) sum += o.product()->flops();
  return sum;
}
std::int64_t bytes(const Operations& step, const Which& which) {
  std::uint64_t sum = 0;
  for (const Operation& o : step.list)
    if (which(o)) sum += o.collective() != nullptr ? o.collective()->bytes() : o.read + o.written;
  return static_cast<std::int64_t>(sum);
}
Which kernel(const std::string& name) {
  return [name](const Operation& o) { return o.kernel() != nullptr && o.kernel()->name == name; };
}
bool gathers(const Operation& o) {
  return o.collective() != nullptr && o.collective()->op == Op::all_gather &&
         o.collective()->group == base::AxisSet::shard;
}
bool reduces(const Operation& o) {
  return o.collective() != nullptr && o.collective()->op == Op::reduce_scatter &&
         o.collective()->group == base::AxisSet::shard;
}
int place(const Operations& step, const Which& which) {
  return static_cast<int>(std::find_if(step.list.begin(), step.list.end(), which) - step.list.begin());
}
std::vector<int> units(const Operations& step, const Which& which) {
  std::vector<int> all;
  for (const Operation& o : step.list)
    if (which(o)) all.push_back(o.location.unit);
  return all;
}

/// Every collective outside the compute stream is waited for once, after it was issued, or is ahead.
void expect_waits(const Operations& step, std::size_t ahead_before) {
  std::set<int> open;
  for (int k = 0; k < static_cast<int>(ahead_before); ++k) open.insert(-1 - k);
  for (int i = 0; i < static_cast<int>(step.list.size()); ++i) {
    const Operation& o = step.list[static_cast<std::size_t>(i)];
    for (const int w : o.waits) EXPECT_EQ(open.erase(w), 1U) << "operation " << i << " waits for " << w;
    if (o.stream != Stream::compute) open.insert(i);
  }
  EXPECT_EQ(open, std::set<int>(step.ahead.begin(), step.ahead.end()));
}

TEST(Structure, OfAnEmptyFileChangesNothing) {
  const Steps s = steps_of("");
  ASSERT_EQ(s.stack.list.size(), s.own.list.size());
  EXPECT_EQ(s.stack.ahead, s.own.ahead);
  for (std::size_t i = 0; i < s.own.list.size(); ++i) {
    EXPECT_EQ(to_text(s.stack.list[i]), to_text(s.own.list[i]));
    EXPECT_EQ(s.stack.list[i].waits, s.own.list[i].waits);
  }
}

TEST(Structure, RecomputedAddsForwardsProductsToBackward) {
  const std::string keys = "structure: {recomputed: qkv=0.25 proj fc1=0.5 attention}\n";
  const Steps s = steps_of(keys, {"model.recompute=selective"});
  const double layer = 2.0 * kTokens * (kHidden * kQkv * 0.25 + kHidden * kHidden + kHidden * 2 * kFfn * 0.5);
  EXPECT_EQ(flops(s.stack) - flops(s.own), kLayers * layer);
  const auto again = [](const Operation& o) {
    return o.recomputed && (o.product() != nullptr || o.attention() != nullptr);
  };
  EXPECT_EQ(count(s.own, again), 0);
  EXPECT_EQ(count(s.stack, again), kLayers * 4);
  const auto forward = [](const Operation& o) { return o.attention() != nullptr && !o.attention()->backward; };
  EXPECT_EQ(count(s.stack, forward), 2 * kLayers);
  // At the begin of the layer's backward, after that of the layer above and the gather of its weights.
  for (int unit = 1; unit <= kLayers; ++unit) {
    const int first = place(s.stack, [&](const Operation& o) { return again(o) && o.location.unit == unit; });
    const int backward = place(s.stack, [&](const Operation& o) {
      return o.location.unit == unit && o.phase == profile::Phase::backward && o.stream == Stream::compute &&
             (o.location.linear || o.attention() != nullptr);
    });
    EXPECT_EQ(first, backward);
    for (int i = first; i < static_cast<int>(s.stack.list.size()); ++i) {
      const Operation& o = s.stack.list[static_cast<std::size_t>(i)];
      EXPECT_FALSE(o.product() != nullptr && o.phase == profile::Phase::backward && o.location.unit > unit) << i;
    }
  }
  expect_waits(s.stack, s.own.ahead.size());
  EXPECT_EQ(flops(steps_of(keys).stack), flops(s.own));  // only with selective
  EXPECT_EQ(flops(steps_of("structure: {recomputed: none}\n", {"model.recompute=selective"}).stack), flops(s.own));
}

TEST(Structure, AmaxSumsAreInEachLayersForwardAndBackward) {
  for (const char* batch : {"data.batch=8", "data.batch=16"}) {  // one micro-batch, and two
    const int micro_batches = batch[11] == '8' ? 1 : 2;
    const Steps s = steps_of("structure: {amax_sums: 3, recomputed: fc1}\n",
                             {batch, "fp8.recipe=delayed", "fsdp.gather=fp8", "model.recompute=selective"});
    std::map<std::pair<profile::Phase, int>, int> sums;
    for (std::size_t i = 0; i + 1 < s.stack.list.size(); ++i) {
      const Operation& o = s.stack.list[i];
      const auto* c = o.collective();
      if (c == nullptr || c->op != Op::all_reduce || c->bytes() != 4) continue;
      EXPECT_EQ(c->ranks, kShard);
      EXPECT_EQ(o.stream, Stream::compute);
      ++sums[{o.phase, o.location.unit}];
      EXPECT_EQ(s.stack.list[i + 1].location.unit, o.location.unit);
    }
    EXPECT_EQ(sums.size(), 2U * kLayers);
    for (const auto& [at, times] : sums)
      EXPECT_EQ(times, micro_batches * (at.first == profile::Phase::forward ? 2 : 1)) << "unit " << at.second;
  }
}

TEST(Structure, PlainMlpHasNoGate) {
  const Steps s = steps_of("structure: {mlp: plain}\n", {"optimizer.clip=0"});
  EXPECT_EQ(flops(s.own) - flops(s.stack), 3 * 2.0 * kLayers * kTokens * kProjection);
  const auto layers = [](const Operation& o) {
    return gathers(o) && o.location.unit >= 1 && o.location.unit <= kLayers;
  };
  EXPECT_EQ(bytes(s.own, layers), 4 * 2 * kLayer);  // BF16; forward, and the first layer in backward: two are held
  EXPECT_NEAR(bytes(s.stack, layers), 4 * 2 * (kLayer - kProjection), 8);
  const auto all = [](const Operation& o) { return reduces(o); };
  EXPECT_NEAR(bytes(s.own, all) - bytes(s.stack, all), 4 * kLayers * kProjection, 8);
  EXPECT_EQ(bytes(s.own, kernel("swiglu_forward")), kLayers * 2 * kTokens * 3 * kFfn);
  EXPECT_EQ(bytes(s.stack, kernel("swiglu_forward")), kLayers * 2 * kTokens * 2 * kFfn);
  EXPECT_EQ(bytes(s.own, kernel("swiglu_backward")), kLayers * 2 * kTokens * 5 * kFfn);
  EXPECT_EQ(bytes(s.stack, kernel("swiglu_backward")), kLayers * 2 * kTokens * 3 * kFfn);
  const double own = static_cast<double>(bytes(s.own, kernel("adamw_step")));
  const double less = own * kLayers * kProjection / (kLayers * kLayer + kTable + kRoot);
  EXPECT_NEAR(own - static_cast<double>(bytes(s.stack, kernel("adamw_step"))), less, 0.001 * own);
  expect_waits(s.stack, s.own.ahead.size());
}

TEST(Structure, WholeHeadHasOneProductOfEachKind) {
  // Chunks of 67 tokens on devices: 256 MiB of FP32 logits.
  const std::vector<std::string> deck{"model.vocab=1000000"};
  const Steps s = steps_of("structure: {head: whole}\n", deck);
  const auto root = [](const Operation& o) { return o.product() != nullptr && o.location.unit == kLayers + 1; };
  EXPECT_EQ(count(s.own, root), 3 * 4);
  EXPECT_EQ(count(s.stack, root), 3);
  EXPECT_EQ(flops(s.stack), flops(s.own));
  for (const Operation& o : s.stack.list)
    if (root(o)) {
      EXPECT_EQ(o.product()->kind == Product::Kind::wgrad ? o.product()->inner : o.product()->rows, kTokens);
      EXPECT_FALSE(o.product()->accumulate);
    }
  EXPECT_EQ(count(s.stack, kernel("cross_entropy_backward")), 1);
  EXPECT_EQ(bytes(s.stack, kernel("cross_entropy_backward")), bytes(s.own, kernel("cross_entropy_backward")));
  expect_waits(s.stack, s.own.ahead.size());
}

TEST(Structure, WholeRootIsGatheredFirstAndReducedLast) {
  const Steps s = steps_of("structure: {root: whole, first_gathers: exposed}\n");
  EXPECT_EQ(units(s.own, reduces), (std::vector<int>{4, 3, 2, 1, 0}));
  EXPECT_EQ(units(s.stack, reduces), (std::vector<int>{3, 2, 1, 0}));
  const auto embedding = [](const Operation& o) { return o.location.unit == 0; };
  const auto first = [&](const Operation& o) { return gathers(o) && embedding(o); };
  EXPECT_EQ(place(s.stack, first), 0);
  EXPECT_EQ(bytes(s.stack, first), 2 * (kTable + kRoot));
  EXPECT_EQ(bytes(s.stack, [&](const Operation& o) { return reduces(o) && embedding(o); }), 4 * (kTable + kRoot));
  EXPECT_EQ(bytes(s.stack, reduces), bytes(s.own, reduces));
  expect_waits(s.stack, 0);
}

TEST(Structure, ExposedGathersStandAtTheBegin) {
  const Steps s = steps_of("structure: {first_gathers: exposed}\n");
  ASSERT_EQ(s.own.ahead.size(), 2U);
  EXPECT_TRUE(s.stack.ahead.empty());
  EXPECT_TRUE(gathers(s.stack.list[0]) && gathers(s.stack.list[1]));
  EXPECT_EQ(s.stack.list[0].location.unit, 0);
  EXPECT_EQ(s.stack.list[1].location.unit, 1);
  EXPECT_EQ(bytes(s.stack, gathers), bytes(s.own, gathers));
  expect_waits(s.stack, 0);
}

TEST(Structure, LateReductionsFollowBackward) {
  const Steps s = steps_of("structure: {reductions: late}\n");
  int backward = 0;
  for (int i = 0; i < static_cast<int>(s.stack.list.size()); ++i)
    if (s.stack.list[static_cast<std::size_t>(i)].phase == profile::Phase::backward &&
        s.stack.list[static_cast<std::size_t>(i)].stream == Stream::compute)
      backward = i;
  EXPECT_GT(place(s.stack, reduces), backward);
  EXPECT_LT(place(s.own, reduces), backward);
  EXPECT_EQ(units(s.stack, reduces), units(s.own, reduces));
  expect_waits(s.stack, s.own.ahead.size());
}

TEST(Structure, BucketsJoinReductions) {
  // Root, layer 3, 2, 1, embedding: two layers fill a bucket, root and a layer, too.
  const Steps s = steps_of(fmt::format("structure: {{bucket: {}}}\n", kLayer + 1));
  EXPECT_EQ(units(s.stack, reduces), (std::vector<int>{3, 1, 0}));
  EXPECT_EQ(bytes(s.stack, reduces), bytes(s.own, reduces));
  const auto second = [](const Operation& o) { return reduces(o) && o.location.unit == 1; };
  EXPECT_EQ(bytes(s.stack, second), 2 * 4 * kLayer);
  expect_waits(s.stack, s.own.ahead.size());
  const Steps by_rank = steps_of(fmt::format("structure: {{bucket_rank: {}}}\n", kLayer / kShard + 1));
  EXPECT_EQ(units(by_rank.stack, reduces), (std::vector<int>{3, 1, 0}));
}

TEST(Structure, GathersAfterReductionsQueueBehindThem) {
  const Steps s = steps_of("structure: {backward_gathers: after_reductions}\n");
  expect_waits(s.stack, s.own.ahead.size());
  EXPECT_EQ(bytes(s.stack, gathers), bytes(s.own, gathers));
  const int reduction = place(s.stack, [](const Operation& o) { return reduces(o) && o.location.unit == 2; });
  const auto gather = [](const Operation& o) {
    return gathers(o) && o.location.unit == 1 && o.phase != profile::Phase::forward;
  };
  EXPECT_GT(place(s.stack, gather), reduction);
  EXPECT_LT(place(s.own, gather), place(s.own, [](const Operation& o) { return reduces(o) && o.location.unit == 2; }));
  EXPECT_EQ(s.stack.list[static_cast<std::size_t>(place(s.stack, gather))].stream, Stream::reduce);
}

TEST(Structure, CallsAreOfEqualSize) {
  const Steps s = steps_of("structure: {gather_calls: 4, reduce_calls: 2}\n");
  EXPECT_EQ(count(s.stack, gathers), 4 * count(s.own, gathers));
  EXPECT_EQ(count(s.stack, reduces), 2 * count(s.own, reduces));
  EXPECT_EQ(bytes(s.stack, reduces), bytes(s.own, reduces));
  EXPECT_EQ(s.stack.ahead.size(), 4 * s.own.ahead.size());
  expect_waits(s.stack, 4 * s.own.ahead.size());
}

TEST(Structure, CallsOfFewBytesStartWhenTheirGradientsExist) {
  // A rank keeps 131,072 bytes of fc2 and of each half of fc1, 65,536 of proj and of the queries, 32,768 of the keys
  // and of the values. Calls of 300,000: fc2 and half of fc1; the other half, proj, keys and values; queries and norms.
  const Steps s = steps_of("structure: {reduce_call_bytes: 300000}\n");
  EXPECT_EQ(units(s.stack, reduces), (std::vector<int>{4, 3, 3, 3, 2, 2, 2, 1, 1, 1, 0}));
  const auto of = [](int unit) { return [unit](const Operation& o) { return reduces(o) && o.location.unit == unit; }; };
  std::vector<std::int64_t> calls;
  std::vector<operation::Linear> after;
  operation::Linear last{};
  for (const Operation& o : s.stack.list) {
    if (o.product() != nullptr && o.product()->kind == Product::Kind::wgrad && o.location.linear)
      last = *o.location.linear;
    if (!of(2)(o)) continue;
    calls.push_back(static_cast<std::int64_t>(o.collective()->bytes()));
    after.push_back(last);
  }
  EXPECT_EQ(calls, (std::vector<std::int64_t>{2 * 4 * kProjection, 4 * (kProjection + kHidden * (kHidden + kQkv / 2)),
                                              4 * (kHidden * kHidden + 2 * kHidden)}));
  using operation::Linear;
  EXPECT_EQ(after, (std::vector<Linear>{Linear::fc1, Linear::qkv, Linear::qkv}));
  EXPECT_EQ(bytes(s.stack, reduces), bytes(s.own, reduces));
  expect_waits(s.stack, s.own.ahead.size());
  // A weight is in one call, however large it is; without a gate there are five others.
  EXPECT_EQ(units(steps_of("structure: {reduce_call_bytes: 1}\n").stack, of(1)).size(), 7U);
  EXPECT_EQ(units(steps_of("structure: {reduce_call_bytes: 1, mlp: plain}\n").stack, of(1)).size(), 6U);
  EXPECT_EQ(units(steps_of("structure: {reduce_call_bytes: 1e9}\n").stack, of(1)).size(), 1U);
  // The last of three micro-batches writes the gradients that are reduced. reduce_calls says nothing beside the bytes.
  const std::string batch = fmt::format("data.batch={}", 3 * kShard * kMicroBatch);
  const Steps three = steps_of("structure: {reduce_call_bytes: 300000, reduce_calls: 2}\n", {batch});
  EXPECT_EQ(units(three.stack, reduces), units(s.stack, reduces));
  EXPECT_EQ(bytes(three.stack, reduces), bytes(s.stack, reduces));
  EXPECT_EQ(count(three.stack, gathers), count(three.own, gathers));
  // Reductions of experts, which are sharded over other ranks than the rest of the layer.
  const auto in_shards = [](const Operation& o) {
    return o.collective() != nullptr && o.collective()->op == Op::reduce_scatter && o.stream == Stream::reduce;
  };
  const Steps experts = steps_of("structure: {reduce_call_bytes: 1000}\n",
                                 {"moe.experts=8", "moe.ffn=256", "mesh.expert=2", "moe.dense_layers=1"});
  EXPECT_EQ(bytes(experts.stack, in_shards), bytes(experts.own, in_shards));
  expect_waits(experts.stack, experts.own.ahead.size());
}

TEST(Structure, ReductionsEndWithinGroupsOfLayers) {
  for (const int layers : {1, 2}) {
    const Steps s = steps_of(fmt::format("structure: {{reduce_within: {}, reduce_call_bytes: 300000}}\n", layers));
    EXPECT_EQ(bytes(s.stack, reduces), bytes(s.own, reduces));
    expect_waits(s.stack, s.own.ahead.size());
    int unit = 0;  // of the operation that waits
    std::map<int, std::set<int>> waited;
    for (const Operation& o : s.stack.list) {
      if (o.stream == Stream::compute) unit = o.phase == profile::Phase::optimizer ? -1 : o.location.unit;
      for (const int w : o.waits)
        if (w >= 0 && reduces(s.stack.list[static_cast<std::size_t>(w)]))
          waited[s.stack.list[static_cast<std::size_t>(w)].location.unit].insert(unit);
    }
    // Three layers: 3, 2 and 1, or 3 with 2 and 1 alone. Behind layer 1 is no product.
    EXPECT_EQ(waited[3], (std::set<int>{layers == 1 ? 2 : 1}));
    EXPECT_EQ(waited[2], (std::set<int>{1}));
    EXPECT_EQ(waited[1], (std::set<int>{-1}));
  }
}

TEST(Structure, GradientsInBf16) {
  const Steps fp32 = steps_of("structure: {gradients: bf16}\n");
  const auto wgrad = [](const Operation& o) {
    return o.product() != nullptr && o.product()->kind == Product::Kind::wgrad;
  };
  const std::int64_t linears = kLayers * (kHidden * kQkv + kHidden * kHidden + 3 * kProjection) + kTable;
  EXPECT_EQ(bytes(fp32.own, wgrad) - bytes(fp32.stack, wgrad), 2 * linears);
  const Steps bf16 = steps_of("structure: {gradients: bf16}\n", {"precision.reduce=bf16"});
  const auto whole = [](const Operation& o) {
    return kernel("cast")(o) && o.kernel()->in == tensor::DType::fp32 && o.kernel()->out == tensor::DType::bf16;
  };
  EXPECT_GE(bytes(bf16.own, whole) - bytes(bf16.stack, whole), 6 * (kLayers * kLayer + kTable + kRoot));
  expect_waits(bf16.stack, bf16.own.ahead.size());
}

TEST(Structure, CopiesAroundGathersAndReductions) {
  const Steps s = steps_of("structure: {gather_copies: 2, reduce_copies: 1.5}\n");
  const auto of_reductions = [](const Operation& o) { return kernel("copy")(o) && o.waits.empty(); };
  EXPECT_EQ(bytes(s.stack, kernel("copy")), 2 * bytes(s.own, gathers) + bytes(s.own, reduces) * 3 / 2);
  EXPECT_EQ(count(s.stack, of_reductions), 5);
  expect_waits(s.stack, s.own.ahead.size());
  for (std::size_t i = 1; i < s.stack.list.size(); ++i)
    EXPECT_TRUE(!reduces(s.stack.list[i]) || kernel("copy")(s.stack.list[i - 1])) << i;
}

TEST(Structure, CopiesAroundTheTensorGroup) {
  const std::vector<std::string> deck{"mesh.shard=1", "mesh.tensor=2", "data.batch=2"};
  const auto whole = [](const Operation& o) {
    return o.collective() != nullptr && o.collective()->group == base::AxisSet::tensor && !o.collective()->by_parts &&
           (o.collective()->op == Op::all_gather || o.collective()->op == Op::reduce_scatter);
  };
  for (const char* overlap : {"overlap.enable=false", "overlap.enable=true"}) {
    std::vector<std::string> with = deck;
    with.emplace_back(overlap);
    const Steps s = steps_of("structure_tensor: {tensor_copies: 2}\n", with);
    EXPECT_GT(count(s.own, whole), 0);
    EXPECT_EQ(bytes(s.stack, kernel("copy")), 2 * bytes(s.own, whole)) << overlap;
    expect_waits(s.stack, s.own.ahead.size());
  }
  EXPECT_EQ(count(steps_of("structure_tensor: {tensor_copies: 2}\n").stack, kernel("copy")), 0);
}

TEST(Structure, ResidualsByKernels) {
  const Steps s = steps_of("structure: {residual: kernel}\n");
  EXPECT_EQ(count(s.own, kernel("residual_add")), 0);
  EXPECT_EQ(count(s.stack, kernel("residual_add")), 2 * kLayers);
  EXPECT_EQ(bytes(s.stack, kernel("residual_add")), 2 * kLayers * 3 * 2 * kTokens * kHidden);
  const auto residual = [](const Operation& o) { return o.product() != nullptr && o.product()->residual; };
  EXPECT_EQ(count(s.stack, residual), 0);
  EXPECT_EQ(count(s.own, residual), 2 * kLayers);
}

TEST(Structure, KernelsAndOptimizer) {
  const Steps s = steps_of("structure: {optimizer_bytes: 80}\nkernels: {any: 1.4, rmsnorm: 9, rmsnorm_backward: 2}\n");
  const std::int64_t parameters = (kLayers * kLayer + kTable + kRoot) / kShard;
  EXPECT_NEAR(bytes(s.stack, kernel("adamw_step")), 1.4 * 80 * parameters, 0.002 * 112 * parameters);
  EXPECT_EQ(count(s.stack, kernel("rmsnorm_forward")), 9 * count(s.own, kernel("rmsnorm_forward")));
  EXPECT_NEAR(bytes(s.stack, kernel("rmsnorm_forward")), 9.0 * bytes(s.own, kernel("rmsnorm_forward")), 64);
  EXPECT_EQ(bytes(s.stack, kernel("rmsnorm_backward")), 2 * bytes(s.own, kernel("rmsnorm_backward")));
  EXPECT_NEAR(bytes(s.stack, kernel("rope_forward")), 1.4 * bytes(s.own, kernel("rope_forward")), 8);
  expect_waits(s.stack, s.own.ahead.size());
}

TEST(Structure, OfSeveralMicroBatches) {
  const std::string keys =
      "structure: {recomputed: fc1 attention, root: whole, first_gathers: exposed, head: whole, bucket: 1000000, "
      "gather_copies: 2, reduce_copies: 2, backward_gathers: after_reductions, gradients: bf16, reduce_calls: 3}\n";
  for (const char* reshard : {"true", "false"}) {
    const Steps s = steps_of(keys, {fmt::format("data.batch={}", 3 * kShard * kMicroBatch), "model.recompute=selective",
                                    "mesh.replicate=1", std::string("fsdp.reshard_after_forward=") + reshard});
    EXPECT_EQ(flops(s.stack) - flops(s.own), 3 * 2.0 * kLayers * kTokens * kHidden * 2 * kFfn);
    EXPECT_EQ(bytes(s.stack, gathers), bytes(s.own, gathers));
    expect_waits(s.stack, 0);
  }
  const Steps replicas = steps_of(keys, {"mesh.shard=2", "mesh.replicate=2", "model.recompute=selective"});
  expect_waits(replicas.stack, 0);
}

TEST(File, ShippedStacksAreRead) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(SHARD8_SOURCE_DIR) + "/inputs/stacks")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    SCOPED_TRACE(entry.path().string());
    const auto stack = project::read_stack(entry.path().string());
    EXPECT_FALSE(stack.rows.empty());
    const bool torchtitan = stack.rows.starts_with("torchtitan");
    constexpr double kKeys = static_cast<double>(kKvHeads) / (kHeads + 2 * kKvHeads);
    for (const bool fp8 : {false, true})
      for (const int tensor : {1, 2})
        for (const bool overlap : {false, true}) {
          std::vector<std::string> keys{fmt::format("fp8.recipe={}", fp8 ? "current" : "none"),
                                        "model.recompute=selective", fmt::format("mesh.tensor={}", tensor),
                                        fmt::format("overlap.enable={}", overlap)};
          for (const std::string& key : overrides(stack, deck_of(keys))) keys.push_back(key);
          SCOPED_TRACE(fmt::format("{}", fmt::join(keys, " ")));
          const deck::Config config = deck_of(keys);
          const auto setup = train::Setup::make(config, 0, 1);
          const auto own = train::record_step(setup);
          const project::Structure structure = structure_of(stack, config);
          expect_waits(transformed(structure, setup, own), 0);
          if (!torchtitan) continue;
          // Float8 products are not kept; with tensor ranks wo's result is.
          const double proj = tensor > 1 ? 0 : 1;
          EXPECT_EQ(structure.recomputed,
                    (fp8 ? std::array<double, 4>{1, proj, 1, 0} : std::array<double, 4>{kKeys, proj, 0.5, 0}));
        }
  }
  EXPECT_GE(files, 7);
}

}  // namespace
}  // namespace shard8
