// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "project/projection.hpp"
#include "tests/project/stack_deck.hpp"
#include "train/setup.hpp"

// The worst routing of experts: all tokens choose experts of the first rank.

namespace shard8::project {
namespace {

using Overrides = std::vector<std::string>;

deck::Config deck_with(const std::string& device, const Overrides& more = {}) {
  Overrides all{"moe.experts=8", "moe.ffn=256", "moe.experts_per_token=2", "mesh.device=" + device};
  if (device == "host") all.emplace_back("precision.compute=fp32");  // of which a host's file has products
  all.insert(all.end(), more.begin(), more.end());
  return test::deck_of(all);
}

struct Recorded {
  double flops = 0;  ///< of products of experts
  double bytes = 0;  ///< of all-to-alls
};

Recorded recorded(const deck::Config& config, bool worst) {
  train::Setup setup = train::Setup::make(config, 0, 1);
  setup.dims.experts.worst = worst;
  Recorded r;
  train::record_step(setup, {}, [&](const operation::Operation& o) {
    if (const operation::Product* p = o.product(); p != nullptr && p->groups > 1) r.flops += p->flops();
    if (const operation::Collective* c = o.collective(); c != nullptr && c->op == profile::Collective::all_to_all)
      r.bytes += static_cast<double>(c->bytes());
  });
  return r;
}

TEST(Experts, the_worst_rank_multiplies_and_receives_the_rows_of_all) {
  for (const char* device : {"host", "cuda"})
    for (const int ranks : {2, 4}) {
      const std::string n = std::to_string(ranks);  // one round has the rows of all
      const deck::Config config = deck_with(device, {"mesh.expert=" + n, "moe.capacity=" + n});
      const Recorded mean = recorded(config, false), worst = recorded(config, true);
      EXPECT_GT(mean.flops, 0) << device;
      EXPECT_DOUBLE_EQ(worst.flops, ranks * mean.flops) << device << ", " << ranks;
      EXPECT_DOUBLE_EQ(worst.bytes, ranks * mean.bytes) << device << ", " << ranks;
    }
}

TEST(Experts, the_step_at_the_worst_routing_is_longer) {
  const std::string folder = SHARD8_SOURCE_DIR "/inputs/machines/";
  for (const auto& [device, file] : {std::pair{"host", "host.yaml"}, std::pair{"cuda", "h200-sxm.yaml"}}) {
    const machine::Machine machine = machine::read(folder + file);
    double before = 0;
    for (const char* capacity : {"4", "2", "1"}) {
      const deck::Config config = deck_with(device, {"mesh.expert=4", std::string("moe.capacity=") + capacity,
                                                     "moe.ffn=4096", "data.batch=64", "data.micro_batch=16"});
      const auto worst = worst_routing(config, machine, {.most_factor = 1e9});
      ASSERT_TRUE(worst.has_value());
      EXPECT_EQ(worst->rounds, 4 / std::stoi(capacity));
      EXPECT_GT(worst->nominal_s, 1.5 * project_nominal(config, machine, {.most_factor = 1e9}).nominal_s) << device;
      EXPECT_GT(worst->nominal_s, before) << device << ", capacity " << capacity;  // more rounds, dispatched again
      before = worst->nominal_s;
    }
  }
}

TEST(Experts, some_decks_have_no_worst_routing) {
  const machine::Machine machine = machine::read(SHARD8_SOURCE_DIR "/inputs/machines/host.yaml");
  for (const Overrides& equal : {Overrides{"mesh.expert=1"}, Overrides{"mesh.expert=4", "moe.routing=balanced"}})
    EXPECT_FALSE(worst_routing(deck_with("host", equal), machine, {.most_factor = 1e9}).has_value()) << equal.back();
  EXPECT_FALSE(worst_routing(test::deck_of({"mesh.device=host"}), machine, {}).has_value());
}

}  // namespace
}  // namespace shard8::project
