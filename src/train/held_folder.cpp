// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/held_folder.hpp"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "base/error.hpp"

namespace shard8::train {

HeldFolder::HeldFolder(const std::string& folder, const std::string& holder, const checkpoint::LockOptions& options)
    : lock_(folder, holder, options),
      counts_(
          std::chrono::milliseconds(std::lround(1e3 * options.limit_s / 6)), [this] { return count(); },
          [](const std::string&) {}) {}  // whoever asks lost() finds out, too

std::string HeldFolder::lost() {
  const std::lock_guard guard(mutex_);
  try {
    lock_.require_held();
  } catch (const base::Error& e) {
    return e.what();
  }
  return {};
}

/// Why the lock is lost, if it is. A heartbeat that could not be written is tried again.
std::optional<std::string> HeldFolder::count() {
  const std::lock_guard guard(mutex_);
  try {
    lock_.beat();
  } catch (const base::Error& e) {
    if (e.code() == base::ExitCode::checkpoint) return e.what();
  }
  return std::nullopt;
}

std::unique_ptr<HeldFolder> make_and_hold(const std::string& folder, const std::string& holder,
                                          const checkpoint::LockOptions& options, const std::function<void()>& make) {
  constexpr int kAttempts = 100;  // chosen; each one more means that the folder was removed just now
  for (int attempt = 1;; ++attempt) {
    make();
    try {
      return std::make_unique<HeldFolder>(folder, holder, options);
    } catch (const base::Error&) {
      std::error_code ignored;
      if (std::filesystem::exists(folder, ignored) || attempt == kAttempts) throw;
    }
  }
}

}  // namespace shard8::train
