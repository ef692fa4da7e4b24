// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/measurement.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace shard8::profile {
namespace {

constexpr MeasurementKind kAll{.name = "trial", .format = 3};
constexpr std::string_view kTwo[] = {"driver", "device"};
constexpr MeasurementKind kSome{.name = "trial", .format = 3, .required = kTwo};

const Conditions kConditions{{"program", "0.1.0 (abc)"}, {"device", "H100"}, {"driver", "13.0"}, {"mesh", "1 x 1 x 2"}};
const Measurement kMeasurement{kConditions, R"({"rows":[{"key":"a","s":0.001},"text"]})"};

std::string reason_of(const std::string& text, const MeasurementKind& kind = kAll) {
  std::string reason;
  const auto read = measurement_of_text(text, kind, reason);
  EXPECT_EQ(read.has_value(), reason.empty()) << text;
  return reason;
}

TEST(MeasurementText, round_trip) {
  const std::string text = to_text(kMeasurement, kAll);
  std::string reason;
  const auto read = measurement_of_text(text, kAll, reason);
  ASSERT_TRUE(read.has_value()) << reason;
  EXPECT_EQ(read->conditions, kMeasurement.conditions);
  EXPECT_EQ(read->payload, kMeasurement.payload);
  EXPECT_EQ(to_text(*read, kAll), text);
  EXPECT_THROW(static_cast<void>(to_text({kConditions, "no JSON"}, kAll)), base::Error);
}

TEST(MeasurementText, cut_anywhere) {
  const std::string text = to_text(kMeasurement, kAll);
  for (std::size_t bytes = 0; bytes + 2 < text.size(); ++bytes)  // the last two are a bracket and a line feed
    EXPECT_NE(reason_of(text.substr(0, bytes)), "") << bytes << " of " << text.size() << " bytes";
}

TEST(MeasurementText, wrong_everywhere) {
  const std::string text = to_text(kMeasurement, kAll);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    EXPECT_NE(other.find(from), std::string::npos) << from;
    return reason_of(other.replace(other.find(from), from.size(), to));
  };
  EXPECT_EQ(changed("\"format\": 3", "\"format\": 2"), "its format is 2, and this program reads 3");
  EXPECT_NE(changed("\"format\": 3", "\"format\": \"3\""), "");
  EXPECT_EQ(changed("\"format\": 3", "\"format\": [3]"),
            "it is no measurement of 'trial': 'format' is a list, not a whole number");
  EXPECT_EQ(changed("\"kind\": \"trial\"", "\"kind\": \"other\""), "it is a measurement of 'other', not of 'trial'");
  EXPECT_NE(changed("\"kind\": \"trial\"", "\"kind\": 3"), "");
  EXPECT_NE(changed("\"device\": \"H100\"", "\"device\": 100"), "");
  EXPECT_NE(changed("\"device\": \"H100\"", "\"device\": null"), "");
  EXPECT_NE(changed("\"measured\"", "\"other\""), "");
  EXPECT_NE(changed("\"measured_with\"", "\"other\""), "");
  EXPECT_EQ(reason_of(R"({"format":3,"kind":"trial","measured_with":["a"],"measured":1})"),
            "it is no measurement of 'trial': 'measured_with' is a list, not an object");
  EXPECT_EQ(reason_of(""), "it is empty");
  for (const char* const other : {"3", "null", "[]", "{}", "\"text\"", "\xff\xfe", "cublaslt 130100 ...", "1e999"})
    EXPECT_NE(reason_of(other), "") << other;
  const std::string deep(100000, '[');
  EXPECT_NE(reason_of(deep), "");
  EXPECT_EQ(reason_of(R"({"format":3,"kind":"trial","measured_with":{},"measured":)" + deep),
            "its values are nested more than 32 deep");
}

TEST(MeasurementFits, each_condition_alone) {
  std::string reason;
  ASSERT_TRUE(fits(kConditions, kConditions, kAll, reason)) << reason;
  for (std::size_t i = 0; i < kConditions.size(); ++i) {
    const auto& [name, value] = kConditions[i];
    Conditions other = kConditions;
    other[i].second = "another";
    EXPECT_FALSE(fits(kConditions, other, kAll, reason)) << name;
    EXPECT_EQ(reason, name + " was " + value + ", and is another now");
    Conditions fewer = kConditions;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(fits(fewer, kConditions, kAll, reason)) << name;
    EXPECT_EQ(reason, name + " was not recorded, and is " + value + " now");
    EXPECT_FALSE(fits(kConditions, fewer, kAll, reason)) << name;
    EXPECT_EQ(reason, name + " was " + value + ", and is not recorded now");
    const std::array<std::string_view, 1> ignored{name};
    EXPECT_TRUE(fits(kConditions, other, kAll, reason, ignored)) << name;
    const bool required = name == kTwo[0] || name == kTwo[1];
    EXPECT_EQ(fits(kConditions, other, kSome, reason), !required) << name;
    if (required) {
      EXPECT_THROW(static_cast<void>(fits(kConditions, fewer, kSome, reason)), base::Error) << name;
    }
  }
  EXPECT_FALSE(fits({}, kConditions, kAll, reason));
}

/// The first in the order of the conditions now, whatever the order was.
TEST(MeasurementFits, first_difference) {
  Conditions other(kConditions.rbegin(), kConditions.rend());
  std::string reason;
  EXPECT_TRUE(fits(other, kConditions, kAll, reason)) << reason;
  for (auto& [name, value] : other) value = "x";
  EXPECT_FALSE(fits(other, kConditions, kAll, reason));
  EXPECT_EQ(reason, "program was x, and is 0.1.0 (abc) now");
  EXPECT_FALSE(fits(other, kConditions, kSome, reason));
  EXPECT_EQ(reason, "driver was x, and is 13.0 now");
}

}  // namespace
}  // namespace shard8::profile
