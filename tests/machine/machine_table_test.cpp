// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "machine/machine.hpp"

#include <set>

#include "tests/machine/machines.hpp"

namespace shard8::machine {
namespace {

TEST(MachineTable, the_file_to_be_filled_in_is_a_machine_file) {
  const Machine machine = read_text(print_table("yaml"), "m.yaml");
  EXPECT_EQ(machine.sources.size(), 2u);
  EXPECT_TRUE(machine.products.empty());
}

/// The file to be filled in with every example as an entry.
std::string filled() {
  std::string text = print_table("yaml");
  const auto fill = [&](const std::string& entry) {
    const auto at = text.find("  # " + entry + "\n");
    ASSERT_NE(at, std::string::npos) << entry;
    text.erase(at + 2, 2);
  };
  for (const Group& group : all_groups()) {
    if (group.required) continue;
    for (const std::string_view example : group.examples) fill(std::string(example));
  }
  for (std::size_t at = 0; (at = text.find("  # source: here\n", at)) != std::string::npos;) text.erase(at + 2, 2);
  for (const Group& group : all_groups())
    for (const Field& field : group.fields)
      if (group.form.empty() && !field.required) {
        const auto start = text.find("\n" + std::string(group.name) + ":\n");
        const auto at = text.find("  # " + field.key + ": " + std::string(field.example) + "\n", start);
        EXPECT_NE(at, std::string::npos) << group.name << '.' << field.key;
        if (at != std::string::npos) text.erase(at + 2, 2);
      }
  return text;
}

TEST(MachineTable, every_example_is_right) {
  const Machine machine = read_text(filled(), "m.yaml");
  EXPECT_EQ(machine.products.size(), 2u);
  EXPECT_EQ(machine.attention.size(), 1u);
  EXPECT_EQ(machine.kernels.size(), 1u);
  EXPECT_EQ(machine.collectives.size(), 2u);
  for (const Group& group : all_groups()) {
    if (!group.form.empty()) continue;
    for (const Field& field : group.fields)
      if (const auto* number = std::get_if<Number>(&field.value)) {
        EXPECT_TRUE(number->of(machine).given()) << group.name << '.' << field.key;
      }
  }
}

TEST(MachineTable, units) {
  const Machine m = read_text(filled(), "m.yaml");
  EXPECT_EQ(m.peak_bf16.value, 989.4e12);
  EXPECT_EQ(m.memory.value, 80.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(m.bandwidth.value, 3350e9);
  EXPECT_EQ(m.link_latency.value, 9e-6);
  EXPECT_EQ(m.rails.value, 8);
  EXPECT_EQ(m.rail_bandwidth.value, 45e9);
  EXPECT_EQ(m.restart_s.value, 300);
  EXPECT_EQ(m.failures.value, 2e-5);
  EXPECT_EQ(m.products.at(0).seconds, 540.1e-6);
  EXPECT_EQ(m.slowed_by(Load::product, Load::collective), 1.08);
  EXPECT_EQ(m.slowed_by(Load::collective, Load::product), 1.0);
}

TEST(MachineTable, every_number_is_a_key_once) {
  Machine machine;
  std::set<const Figure*> figures;
  std::set<std::string> keys;
  for (const Group& group : all_groups())
    for (const Field& field : group.fields) {
      EXPECT_TRUE(keys.insert(std::string(group.name) + "." + field.key).second) << field.key;
      EXPECT_FALSE(field.help.empty() || field.example.empty()) << field.key;
      if (const auto* number = std::get_if<Number>(&field.value)) {
        EXPECT_TRUE(figures.insert(&number->of(machine)).second) << field.key;
      }
    }
  // A Machine has so many; who adds one adds its key.
  EXPECT_EQ(figures.size(), static_cast<std::size_t>(kLoads * kLoads) + 29);
}

TEST(MachineTable, markdown_names_every_key) {
  const AtRoot at_root;
  const std::string page = print_table("markdown");
  for (const Group& group : all_groups()) {
    EXPECT_NE(page.find("### " + std::string(group.name) + "\n"), std::string::npos) << group.name;
    if (!group.form.empty()) continue;
    for (const Field& field : group.fields)
      EXPECT_NE(page.find("\n`" + field.key + "` | "), std::string::npos) << field.key;
  }
  EXPECT_THROW(print_table("toml"), base::Error);
}

TEST(MachineTable, summary_counts_entries_and_sources) {
  const std::string text = summary(read_text(filled(), "m.yaml"));
  EXPECT_NE(text.find("m.yaml: cluster, cuda, NVIDIA H100 80GB HBM3, 2 sources\n"), std::string::npos) << text;
  EXPECT_NE(text.find("products                  2 entries  here (measured)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("network_collectives       1 entry    here (measured)\n"), std::string::npos) << text;
}

TEST(MachineTable, shipped_machines_are_right) {
  const AtRoot at_root;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("inputs/machines")) {
    const Machine machine = read(entry.path().string());
    EXPECT_EQ(machine.name, entry.path().stem().string());
    EXPECT_FALSE(summary(machine).empty());
    expect_same(machine, read_text(write(machine), "again.yaml"));
    ++files;
  }
  EXPECT_GE(files, 2);
}

}  // namespace
}  // namespace shard8::machine
