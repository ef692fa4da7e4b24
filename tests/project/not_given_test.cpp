// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// A projection says which entries the machine file leaves out, whenever one of them would change a digit.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "deck/load.hpp"
#include "machine/fields.hpp"
#include "machine/machine.hpp"
#include "project/report.hpp"
#include "tests/deck/decks.hpp"

namespace shard8::project {
namespace {

using deck::AtRoot;
using machine::Machine;

deck::Config deck_of(const std::string& file, const Machine& m, std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"model.layers=2", m.device ? "mesh.device=cuda" : "mesh.device=host"});
  return deck::load(file, overrides).config;
}

struct Said {
  std::string digits;               ///< the JSON without the sources and without what is not given
  std::string text;                 ///< what `shard8 project` prints
  std::set<std::string> not_given;  ///< keys
};

Said said_of(const deck::Config& config, const Machine& m) {
  Answer answer;
  answer.step = project(config, m, {.most_factor = 1e6});
  profile::SummaryInput input;
  auto json = nlohmann::json::parse(to_json(answer, config, m, input));
  Said said;
  for (const std::string entry : json["projected"]["not_given"])
    said.not_given.insert(entry.substr(0, entry.find(' ')));
  json["projected"].erase("not_given");
  json["projected"].erase("sources");
  said.digits = json.dump();
  said.text = to_text(answer, config, m);
  return said;
}

/// Leaves out each of the machine's entries that stand alone, in turn.
void expect_named(const deck::Config& config, const Machine& full, int& named) {
  const Said before = said_of(config, full);
  const auto check = [&](const std::string& key, const Machine& without) {
    Said said;
    try {
      said = said_of(config, without);
    } catch (const base::Error& e) {
      EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
      return;
    }
    if (said.digits == before.digits) return;
    ++named;
    EXPECT_NE(said.text.find(key), std::string::npos) << key << " changes digits and is not named";
    const bool elsewhere = key == "device.watts" || key == "device.watts_idle" || key == "device.memory";
    EXPECT_TRUE(elsewhere || said.not_given.contains(key)) << key << " changes digits and is not in not_given";
    EXPECT_FALSE(before.not_given.contains(key)) << key << " is given";
  };
  for (const machine::Group& group : machine::all_groups())
    for (const machine::Field& field : group.fields) {
      Machine without = full;
      if (const auto* number = std::get_if<machine::Number>(&field.value))
        number->of(without) = {};
      else if (const auto* either = std::get_if<machine::Either>(&field.value); either && either->given != nullptr)
        without.*either->member = without.*either->given = false;
      else
        continue;
      check(group.name.data() + ('.' + field.key), without);
    }
}

/// Every entry that stands alone is given.
Machine filled(Machine m) {
  for (const machine::Group& group : machine::all_groups())
    for (const machine::Field& field : group.fields)
      if (const auto* number = std::get_if<machine::Number>(&field.value); number && !number->of(m).given())
        number->of(m) = {number->member == nullptr   ? 1.1
                         : group.name == "host"      ? 12e-6
                         : field.key == "calls"      ? 15e-6
                         : field.key == "watts_idle" ? 70
                                                     : 0.005,
                         0, 0};
  return m;
}

TEST(ProjectNotGiven, every_entry_that_changes_a_digit_is_named) {
  const AtRoot root;
  const std::string llama = "inputs/plan/llama3_8b.yaml", mixtral = "inputs/plan/mixtral_8x7b.yaml";
  const std::vector<std::pair<std::string, std::vector<std::string>>> decks{
      {llama, {"mesh.shard=1", "mesh.tensor=1", "data.batch=1"}},
      {llama, {"mesh.shard=1", "mesh.tensor=8", "data.batch=2"}},
      {llama, {"mesh.shard=4", "mesh.tensor=8", "overlap.enable=true", "data.batch=8", "data.micro_batch=1"}},
      {llama, {"mesh.replicate=2", "mesh.shard=8", "mesh.tensor=1", "data.batch=16"}},
      {mixtral, {}},
  };
  int named = 0;
  for (const char* name : {"h100-sxm", "h200-sxm"}) {
    const Machine m = machine::read(std::string("inputs/machines/") + name + ".yaml");
    for (const auto& [file, overrides] : decks) {
      SCOPED_TRACE(name + (' ' + file) + (overrides.empty() ? "" : ' ' + overrides[1]));
      expect_named(deck_of(file, m, overrides), m, named);
      expect_named(deck_of(file, m, overrides), filled(m), named);
    }
  }
  const Machine host = machine::read("inputs/machines/host.yaml");
  for (const char* mesh : {"mesh.tensor=1", "mesh.tensor=2"})
    expect_named(deck_of("inputs/quickstart.yaml", host, {"mesh.shard=1", mesh}), host, named);
  expect_named(deck_of("inputs/quickstart.yaml", host, {}), host, named);  // on two nodes
  EXPECT_GT(named, 150);
}

TEST(ProjectNotGiven, a_full_machine_file_leaves_nothing_out) {
  const AtRoot root;
  const Machine m = filled(machine::read("inputs/machines/h100-sxm.yaml"));
  const deck::Config config = deck_of("inputs/plan/llama3_8b.yaml", m, {"mesh.shard=8", "mesh.tensor=8"});
  EXPECT_TRUE(said_of(config, m).not_given.empty());
  EXPECT_EQ(said_of(config, m).text.find("not given"), std::string::npos);
}

TEST(ProjectNotGiven, defaults_are_said_with_their_units) {
  const AtRoot root;
  Machine m = machine::read("inputs/machines/h100-sxm.yaml");
  m.link_latency = m.issue_attention = m.oversubscription = {};
  const deck::Config config = deck_of("inputs/plan/llama3_8b.yaml", m, {"mesh.shard=8", "mesh.tensor=8"});
  const auto all = project(config, m, {.most_factor = 1e6}).not_given;
  const auto has = [&](const machine::NotGiven& entry) {
    return std::find(all.begin(), all.end(), entry) != all.end();
  };
  EXPECT_TRUE(has({"node.latency", "0 us"}));
  EXPECT_TRUE(has({"host.issue_attention", "0 us"}));
  EXPECT_TRUE(has({"host.issue_collective", "0 us"}));
  EXPECT_TRUE(has({"network.oversubscription", "1"}));
  EXPECT_TRUE(has({"spread.calls", "0 us"}));
  EXPECT_TRUE(has({"spread.steps", "0"}));
  EXPECT_FALSE(has({"spread.ranks", "0"}));
}

}  // namespace
}  // namespace shard8::project
