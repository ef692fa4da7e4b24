// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace shard8::base {
namespace {

using Json = nlohmann::ordered_json;

/// What is wrong with the document for this reader; empty: nothing.
std::string problem(const std::string& text, const std::function<void(const Json&)>& read) {
  try {
    const Json document = parse_json<Json>(text);
    in_json(document, [&] { read(document); });
    return {};
  } catch (const JsonProblem& e) {
    return e.what();
  }
}

constexpr const char* kText = R"({"steps": {"p50_s": null, "n": 2.5, "many": 1e30},
  "phases": [{"mean_s": 1}, {"mean_s": "x"}], "flag": 1, "names": ["a", 3], "minus": -1})";

TEST(Json, a_missing_key_is_named_with_its_place) {
  EXPECT_EQ(problem(kText, [](const Json& j) { json_member(j, "version"); }), "it has no 'version'");
  EXPECT_EQ(problem(kText, [](const Json& j) { json_member(json_member(j, "steps"), "p95_s"); }),
            "it has no 'steps.p95_s'");
  EXPECT_EQ(problem(kText, [](const Json& j) { json_member(json_element(json_member(j, "phases"), 1), "part"); }),
            "it has no 'phases[1].part'");
  EXPECT_EQ(problem(kText, [](const Json& j) { json_element(json_member(j, "phases"), 2); }),
            "'phases' has 2 elements, not 3 or more");
}

TEST(Json, a_value_of_another_type_is_named_with_its_place) {
  const auto steps = [](const Json& j) -> const Json& { return json_member(j, "steps"); };
  EXPECT_EQ(problem(kText, [&](const Json& j) { json_value<double>(steps(j), "p50_s"); }),
            "'steps.p50_s' is null, not a number");
  EXPECT_EQ(problem(kText, [&](const Json& j) { json_value<int>(steps(j), "n"); }),
            "'steps.n' is 2.5, not a whole number");
  EXPECT_EQ(problem(kText, [&](const Json& j) { json_value<std::int64_t>(steps(j), "many"); }),
            "'steps.many' is 1e+30, not a whole number");
  EXPECT_EQ(problem(kText, [](const Json& j) { json_value<std::uint64_t>(j, "minus"); }),
            "'minus' is -1, not a whole number from 0");
  EXPECT_EQ(problem(kText, [](const Json& j) { json_value<bool>(j, "flag"); }), "'flag' is 1, not true or false");
  EXPECT_EQ(problem(kText, [](const Json& j) { json_value<std::vector<std::string>>(j, "names"); }),
            "'names[1]' is 3, not a text");
  EXPECT_EQ(problem(kText, [](const Json& j) { json_list(json_member(j, "steps")); }),
            "'steps' is an object, not a list");
  EXPECT_EQ(problem("[1]", [](const Json& j) { json_member(j, "a"); }), "it is a list, not an object");
  EXPECT_EQ(problem(kText,
                    [](const Json& j) {
                      for (const Json& row : json_list(json_member(j, "phases"))) json_value<double>(row, "mean_s");
                    }),
            "'phases[1].mean_s' is \"x\", not a number");
}

TEST(Json, what_fits_is_read) {
  EXPECT_EQ(problem(kText,
                    [](const Json& j) {
                      EXPECT_EQ(json_value<std::int8_t>(j, "minus"), -1);
                      EXPECT_EQ(json_value<double>(j, "flag"), 1);
                      EXPECT_EQ(json_value_or<int>(j, "nothing", 7), 7);
                    }),
            "");
}

// Neither the names nor the numbers of the library's exceptions.
TEST(Json, what_the_library_says_has_no_mark_of_it) {
  for (const char* text : {"", "{", "{\"a\": 1,}", "nul", "{\"a\": 1e999}", "\"\xff\""}) {
    const std::string said = problem(text, [](const Json&) {});
    EXPECT_NE(said, "") << text;
    EXPECT_EQ(said.find("json.exception"), std::string::npos) << said;
  }
  EXPECT_NE(problem("{\n1", [](const Json&) {}).find("line 2, column 1"), std::string::npos);
  const std::string said = problem("{\"a\": \"x\"}", [](const Json& j) { static_cast<void>(j.at("a").get<int>()); });
  EXPECT_EQ(said, "type must be number, but is string");
}

// Copies of the library recurse.
TEST(Json, a_document_that_is_nested_deeply_is_refused) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  const auto read = [](const Json&) {};
  EXPECT_EQ(problem(nested(kDeepestJson), read), "");
  EXPECT_EQ(problem(nested(kDeepestJson + 1), read), "its values are nested more than 64 deep");
  EXPECT_EQ(problem("{\"a\": " + nested(200000) + "}", read), "its values are nested more than 64 deep");
  EXPECT_EQ(problem(std::string(200000, '['), read), "its values are nested more than 64 deep");
  EXPECT_EQ(problem("[\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\"]", read), "") << "a text";
}

}  // namespace
}  // namespace shard8::base
