// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "project/report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "deck/load.hpp"
#include "machine/machine.hpp"
#include "tests/deck/decks.hpp"

namespace shard8::project {
namespace {

Sweep sweep_of(std::vector<Varied> varied, std::uint64_t most, const std::string& batch) {
  const deck::AtRoot root;
  const machine::Machine machine = machine::read("inputs/machines/h100-sxm.yaml");
  const auto load = [&](const base::Extents& mesh, std::span<const std::string> given) {
    std::vector<std::string> overrides{"model.layers=1", "mesh.device=cuda", "data.batch=" + batch};
    overrides.insert(overrides.end(), given.begin(), given.end());
    for (const base::Axis axis : base::kAxes)
      overrides.push_back("mesh." + std::string(name_of(axis)) + '=' + std::to_string(mesh[axis]));
    return deck::load("inputs/plan/llama3_8b.yaml", overrides).config;
  };
  return sweep(2, {}, most, machine, {.most_factor = 1e6}, std::move(varied), load);
}

TEST(ProjectSweep, a_micro_batch_that_is_cut_is_no_row) {
  // Two data ranks have one sequence each, one has two.
  const Sweep s = sweep_of({{"data.micro_batch", {"1", "2", "3", "64"}}}, std::uint64_t{1} << 40, "2");
  ASSERT_EQ(s.rows.size(), 4u);  // replicate 2, shard 2: one each; tensor 2: 1 and 2
  ASSERT_EQ(s.same.size(), 8u);
  for (const auto& [row, as] : s.same)
    EXPECT_EQ(as.front(), row.mesh[base::Axis::tensor] == 2 ? "2" : "1") << row.values.front();
  const std::string text = to_text(s);
  EXPECT_NE(text.find("left out, since their step is that of other values: 8; the first: data.micro_batch=2, as "
                      "data.micro_batch=1, on "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\nnot given, taken as said: "), std::string::npos) << text;
  const auto json = nlohmann::json::parse(to_json(s, {}));
  EXPECT_EQ(json["same_step"].size(), 8u);
  EXPECT_EQ(json["same_step"][0]["as"]["data.micro_batch"], "1");
  EXPECT_FALSE(json["projected"]["not_given"].empty());
}

TEST(ProjectSweep, what_does_not_fit_is_one_row_too) {
  const Sweep s = sweep_of({{"data.micro_batch", {"2", "3"}}}, 1, "2");
  EXPECT_EQ(s.too_large.size(), 3u);
  EXPECT_EQ(s.same.size(), 3u);
}

TEST(ProjectSweep, other_steps_are_rows_of_their_own) {
  const Sweep s =
      sweep_of({{"data.micro_batch", {"1", "2"}}, {"model.recompute", {"none", "full"}}}, std::uint64_t{1} << 40, "8");
  EXPECT_EQ(s.rows.size(), 12u);
  EXPECT_TRUE(s.same.empty());
}

}  // namespace
}  // namespace shard8::project
