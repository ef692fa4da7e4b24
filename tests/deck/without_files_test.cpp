// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/load.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "deck/fields.hpp"

namespace shard8::deck {
namespace {

Config with_files() {
  Config config;
  config.data.kind = DataKind::tokens;
  config.data.path = "tokens.h5:/train";
  config.data.validation_path = "tokens.h5:/validation";
  config.data.validation = 0.25;
  config.model.init_file = "model.safetensors";
  config.run.validate_every = 10;
  config.run.validate_batches = 3;
  config.run.skeleton = Skeleton::communication;
  config.run.skeleton_times = "machine.yaml";
  config.verify.gold = "gold.jsonl";
  config.verify.tolerance = 1e-6;
  config.verify.final_loss_max = 2;
  return config;
}

TEST(WithoutFiles, no_file_is_read) {
  const Config config = without_files(with_files());
  for (const Group& group : all_groups()) {
    if (group.name == "checkpoint" || group.name == "output") continue;  // what they name is written
    for (const Field& field : group.fields)
      if (const auto* text = std::get_if<Access<std::string>>(&field.access)) {
        Config read = config;
        EXPECT_EQ((*text)(read), "") << group.name << "." << field.key;
      }
  }
  EXPECT_EQ(config.data.kind, DataKind::synthetic);
  EXPECT_FALSE(config.data.validates());
}

TEST(WithoutFiles, a_step_keeps_its_operations) {
  const Config before = with_files(), after = without_files(before);
  const std::set<std::string> changes{
      "data.kind",         "data.path",          "data.validation",      "data.validation_path",
      "model.init_file",   "run.validate_every", "run.validate_batches", "run.skeleton",
      "run.skeleton_times"};
  for (const Group& group : all_groups())
    for (const Field& field : group.fields) {
      const std::string key = fmt::format("{}.{}", group.name, field.key);
      if (group.name == "verify") continue;
      EXPECT_EQ(value_text(field, before) != value_text(field, after), changes.contains(key)) << key;
    }
  EXPECT_EQ(after.verify.final_loss_max, VerifyConfig{}.final_loss_max);
}

}  // namespace
}  // namespace shard8::deck
