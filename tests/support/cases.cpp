// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cases.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace shard8::tests {
namespace {

// all_gather -> AllGather
std::string suite_of_case(std::string_view name) {
  std::string suite;
  bool upper = true;
  for (const char c : name) {
    if (c == '_') {
      upper = true;
      continue;
    }
    suite += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = false;
  }
  return suite;
}

// Whether one part of a full name is the suite: GoogleTest writes Instances/AllGather/0 for parameters and types.
bool is_instance_of(std::string_view full, std::string_view suite) {
  while (!full.empty()) {
    const auto slash = full.find('/');
    if (full.substr(0, slash) == suite) return true;
    if (slash == std::string_view::npos) return false;
    full.remove_prefix(slash + 1);
  }
  return false;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::stringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

// Removes `flag` and the value after it from argv and returns the value; empty if argv does not have the flag.
std::string take(int& argc, char** argv, std::string_view flag) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] != flag) continue;
    std::string value = argv[i + 1];
    std::rotate(argv + i, argv + i + 2, argv + argc);
    argc -= 2;
    return value;
  }
  return {};
}

bool every_suite_listed(const std::vector<std::string>& cases) {
  bool listed = true;
  const auto& unit = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < unit.total_test_suite_count(); ++i) {
    const std::string_view name = unit.GetTestSuite(i)->name();
    const bool found = std::any_of(cases.begin(), cases.end(),
                                   [&](const std::string& c) { return is_instance_of(name, suite_of_case(c)); });
    if (found) continue;
    std::fprintf(stderr, "suite '%s' is in no case of this test: add it to CASES\n", unit.GetTestSuite(i)->name());
    listed = false;
  }
  return listed;
}

bool any_test_of(std::string_view suite) {
  const auto& unit = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < unit.total_test_suite_count(); ++i) {
    if (is_instance_of(unit.GetTestSuite(i)->name(), suite)) return true;
  }
  return false;
}

}  // namespace

bool init_cases(int& argc, char** argv) {
  const std::string chosen = take(argc, argv, "--case");
  const std::string cases = take(argc, argv, "--cases");
  if (!chosen.empty()) {
    const std::string suite = suite_of_case(chosen);
    ::testing::GTEST_FLAG(filter) = suite + ".*:*/" + suite + ".*:" + suite + "/*.*:*/" + suite + "/*.*";
  }
  ::testing::InitGoogleTest(&argc, argv);
  if (!cases.empty() && !every_suite_listed(split(cases))) return false;
  if (!chosen.empty() && !any_test_of(suite_of_case(chosen))) {
    std::fprintf(stderr, "case '%s' has no tests: no suite '%s' in this executable\n", chosen.c_str(),
                 suite_of_case(chosen).c_str());
    return false;
  }
  if (::testing::UnitTest::GetInstance()->total_test_count() == 0) {
    std::fprintf(stderr, "this executable has no tests\n");
    return false;
  }
  return true;
}

}  // namespace shard8::tests
