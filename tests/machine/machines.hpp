// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.hpp"
#include "machine/fields.hpp"
#include "machine/machine.hpp"
#include "tests/deck/decks.hpp"

namespace shard8::machine {

using deck::AtRoot;
using deck::read_file;

/// The message of the error with which reading the text ends; empty if it is read. The exit code must be 2.
inline std::string error_of(const std::string& text, const std::string& name = "m.yaml") {
  try {
    read_text(text, name);
  } catch (const base::Error& error) {
    EXPECT_EQ(base::to_int(error.code()), 2);
    return error.what();
  }
  return {};
}

template <class T>
void expect_same_rows(const std::vector<T>& a, const std::vector<T>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(row_name(a[i]), row_name(b[i]));
    EXPECT_EQ(a[i].seconds, b[i].seconds) << row_name(a[i]);
    EXPECT_EQ(a[i].source, b[i].source) << row_name(a[i]);
  }
}

/// The machines are equal, bit for bit, but for their paths and lines. Both have sorted rows.
inline void expect_same(const Machine& a, const Machine& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.note, b.note);
  EXPECT_EQ(a.device_name, b.device_name);
  EXPECT_EQ(a.copies_in_node, b.copies_in_node);
  EXPECT_EQ(a.moved_by_given, b.moved_by_given);
  ASSERT_EQ(a.sources.size(), b.sources.size());
  for (std::size_t i = 0; i < a.sources.size(); ++i) {
    EXPECT_EQ(a.sources[i].name, b.sources[i].name);
    EXPECT_EQ(a.sources[i].kind, b.sources[i].kind);
    EXPECT_EQ(a.sources[i].text, b.sources[i].text);
  }
  for (const Group& group : all_groups())
    for (const Field& field : group.fields)
      if (const auto* number = std::get_if<Number>(&field.value)) {
        EXPECT_EQ(number->of(a).value, number->of(b).value) << group.name << '.' << field.key;
        EXPECT_EQ(number->of(a).source, number->of(b).source) << group.name << '.' << field.key;
      }
  expect_same_rows(a.products, b.products);
  expect_same_rows(a.attention, b.attention);
  expect_same_rows(a.kernels, b.kernels);
  expect_same_rows(a.collectives, b.collectives);
}

}  // namespace shard8::machine
