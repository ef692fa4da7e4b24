// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/fields.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "deck/load.hpp"
#include "tests/deck/decks.hpp"

namespace shard8::deck {
namespace {

TEST(Table, the_page_is_current) {
  const AtRoot at_root;
  EXPECT_EQ(read_file("docs/deck.md"), print_table("markdown"))
      << "write it again: build/cpu/bin/shard8 deck --format markdown > docs/deck.md";
}

TEST(Table, the_page_has_every_key) {
  const std::string page = print_table("markdown");
  for (const Group& group : all_groups()) {
    const auto begin = page.find(fmt::format("\n## {}\n", group.name));
    ASSERT_NE(begin, std::string::npos) << group.name;
    const std::string section = page.substr(begin, page.find("\n## ", begin + 1) - begin);
    for (const Field& field : group.fields) {
      const auto row = section.find(fmt::format("\n`{}` |", field.key));
      ASSERT_NE(row, std::string::npos) << group.name << "." << field.key;
      const std::string line = section.substr(row + 1, section.find('\n', row + 1) - row - 1);
      EXPECT_NE(line.find(field.required ? fmt::format("| {} |", required_text(field)) : default_text(field)),
                std::string::npos)
          << line;
      EXPECT_FALSE(field.help.empty()) << line;
    }
  }
}

TEST(Table, defaults_are_in_their_bounds) {
  Config config;
  for (const Group& group : all_groups()) {
    for (const Field& field : group.fields) {
      if (field.required || !field.default_note.empty()) continue;
      if (const auto* real = std::get_if<Access<double>>(&field.access)) {
        EXPECT_TRUE(field.bounds.hold((*real)(config))) << field.key;
      } else if (const auto* integer = std::get_if<Access<std::int64_t>>(&field.access)) {
        EXPECT_TRUE(field.bounds.hold(static_cast<double>((*integer)(config)))) << field.key;
      } else if (const auto* text = std::get_if<Access<std::string>>(&field.access)) {
        EXPECT_FALSE(field.not_empty && (*text)(config).empty()) << field.key;
      }
    }
  }
}

// The printed deck with its required keys filled in, as a user would fill them in.
std::string filled(std::string text, const std::string& equals, const std::string& quote) {
  const std::pair<std::string, std::string> values[] = {
      {"hidden", "64"}, {"ffn", "192"}, {"layers", "2"}, {"heads", "4"},
      {"vocab", "256"}, {"seq", "32"},  {"lr", "1e-3"},  {"kind", quote + "synthetic" + quote},
      {"batch", "8"},   {"steps", "20"}};
  for (const auto& [key, value] : values) {
    const std::string line = fmt::format("\n  {}{}\n", key, equals);
    const auto at = text.find(line);
    EXPECT_NE(at, std::string::npos) << key;
    text.insert(at + line.size() - 1, " " + value);
  }
  return text;
}

TEST(Table, a_filled_in_print_is_a_deck) {
  const std::string least = to_yaml(load_text(kLeastDeck, "a.yaml").config);
  EXPECT_EQ(to_yaml(load_text(filled(print_table("yaml"), ":", ""), "b.yaml").config), least);
  EXPECT_EQ(to_yaml(load_text(filled(print_table("nml"), " =", "'"), "b.nml").config), least);
}

TEST(Table, a_filled_in_print_gives_no_warning) {
  EXPECT_EQ(load_text(filled(print_table("yaml"), ":", ""), "b.yaml").warnings, std::vector<std::string>{});
  EXPECT_EQ(load_text(filled(print_table("nml"), " =", "'"), "b.nml").warnings, std::vector<std::string>{});
}

TEST(Table, an_unfilled_print_says_what_is_missing) {
  for (const std::string format : {"yaml", "nml"}) {
    try {
      load_text(print_table(format), "a." + format);
      FAIL() << "loaded";
    } catch (const base::Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("model.hidden has no value"), std::string::npos) << text;
      EXPECT_NE(text.find("run.steps has no value"), std::string::npos) << text;
    }
  }
}

TEST(Table, one_group_alone) {
  const std::string text = print_table("yaml", "mesh");
  EXPECT_NE(text.find("\nmesh:\n"), std::string::npos);
  EXPECT_EQ(text.find("model:"), std::string::npos);
}

TEST(Table, unknown_names) {
  const auto message = [](const char* format, const char* group) -> std::string {
    try {
      print_table(format, group);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::ExitCode::deck);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("yaml", "mash"),
            "unknown group 'mash'; did you mean 'mesh'? expected model, moe, mesh, precision, fp8, fsdp, "
            "overlap, optimizer, data, run, checkpoint, verify or output");
  EXPECT_EQ(message("json", ""), "unknown format 'json'; expected yaml, nml, markdown or schema");
}

}  // namespace
}  // namespace shard8::deck
