// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "project/report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace shard8::project {
namespace {

using Json = nlohmann::ordered_json;

/// A step of 1 s, 0.9 to 1.2 s, in which a device computes for 0.6 s.
Projection step() {
  Projection p;
  p.low_s = 0.9, p.nominal_s = 1, p.high_s = 1.2;
  p.computing_s = 0.6;
  return p;
}

machine::Machine machine_of(bool watts, bool idle) {
  machine::Machine m;
  m.path = "m.yaml";
  if (watts) m.watts = {.value = 700, .source = 0};
  if (idle) m.watts_idle = {.value = 100, .source = 0};
  return m;
}

TEST(ProjectEnergy, busy_and_idle_watts_of_all_devices) {
  const auto e = energy_of(step(), machine_of(true, true), 4);
  ASSERT_TRUE(e);
  EXPECT_DOUBLE_EQ(e->watts, 4 * (0.6 * 700 + 0.4 * 100));
  EXPECT_DOUBLE_EQ(e->nominal_j, 1840);
  EXPECT_DOUBLE_EQ(e->low_j, 0.9 * 1840);
  EXPECT_DOUBLE_EQ(e->high_j, 1.2 * 1840);
  Json summary;
  add_energy(summary, e, machine_of(true, true), 1000);
  EXPECT_DOUBLE_EQ(summary["energy"]["joules_per_token"].get<double>(), 1.84);
  EXPECT_NE(energy_text(e, machine_of(true, true), 1000).find("projected energy: 1840 J a step"), std::string::npos);
}

TEST(ProjectEnergy, without_idle_watts_the_band_is_wide_and_it_is_said) {
  const auto e = energy_of(step(), machine_of(true, false), 1);
  ASSERT_TRUE(e);
  EXPECT_DOUBLE_EQ(e->low_j, 0.9 * 420);
  EXPECT_DOUBLE_EQ(e->nominal_j, 700);
  EXPECT_DOUBLE_EQ(e->high_j, 840);
  EXPECT_NE(energy_text(e, machine_of(true, false), 1).find("m.yaml gives no device.watts_idle"), std::string::npos);
}

TEST(ProjectEnergy, without_watts_there_is_a_reason) {
  const auto e = energy_of(step(), machine_of(false, true), 1);
  EXPECT_FALSE(e);
  Json summary;
  add_energy(summary, e, machine_of(false, true), 1);
  EXPECT_FALSE(summary.contains("energy"));
  EXPECT_EQ(summary["energy_missing"], "m.yaml gives no device.watts: give it, and device.watts_idle");
}

}  // namespace
}  // namespace shard8::project
