// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "profile/compare/comparison.hpp"

// recorded_run/a and b are the output of two runs of one deck on one rank, on a machine that others used, too.

namespace shard8::profile::tests {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// A copy of recorded_run/a, which a test may change.
class Copy {
 public:
  Copy()
      : path_(fs::path(testing::TempDir()) /
              ("shard8_compare_" + std::to_string(::getpid()) + "_" + std::to_string(copies_++))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
    fs::copy(recorded("a"), path_);
  }
  ~Copy() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  static fs::path recorded(const char* name) {
    return fs::path(SHARD8_SOURCE_DIR) / "tests/profile/recorded_run" / name;
  }
  const fs::path& path() const { return path_; }
  std::string text(const char* file) const {
    std::ostringstream text;
    text << std::ifstream(path_ / file).rdbuf();
    return text.str();
  }
  void write(const char* file, const std::string& text) const { std::ofstream(path_ / file) << text; }
  void change(const std::function<void(Json&)>& edit) const {
    Json summary = Json::parse(text("summary.json"));
    edit(summary);
    write("summary.json", summary.dump());
  }
  void slow(const char* phase, const char* part, double factor) const {
    change([&](Json& summary) {
      for (Json& row : summary["phases"])
        if (row["phase"] == phase && row["part"] == part) row["mean_s"] = factor * row["mean_s"].get<double>();
    });
  }
  Comparison compared(const CompareLimits& limits = {}) const {
    return compare_runs(read_run(recorded("a")), read_run(path_), limits);
  }

 private:
  inline static int copies_ = 0;
  fs::path path_;
};

using Texts = std::vector<std::string>;

inline const ComparedFigure& figure(const Comparison& c, const std::string& kind, const std::string& name) {
  for (const ComparedKind& k : c.kinds)
    for (const ComparedFigure& f : k.figures)
      if (k.name == kind && f.name == name) return f;
  throw std::runtime_error("no figure " + kind + " " + name);
}

}  // namespace shard8::profile::tests
