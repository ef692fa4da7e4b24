// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace shard8::test {

/// A new folder for one test, removed at the end of the scope.
class TempFolder {
 public:
  TempFolder() {
    static std::atomic<int> count = 0;
    path_ = std::filesystem::path(testing::TempDir()) /
            ("shard8_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string operator/(std::string_view name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  ASSERT_TRUE(file.good()) << path;
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Runs the action. Expects that it throws Error(code) with all of the parts in the message.
template <class Action>
void expect_error(Action&& action, base::ExitCode code, const std::vector<std::string>& parts) {
  try {
    action();
  } catch (const base::Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(base::to_int(error.code()), base::to_int(code)) << message;
    for (const auto& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
    }
    return;
  }
  ADD_FAILURE() << "nothing was thrown; expected '" << (parts.empty() ? "" : parts[0]) << "'";
}

}  // namespace shard8::test
