// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/lock.hpp"

namespace shard8::checkpoint {

namespace {

// Every text has this length, so that one write replaces another. Chosen: the names of hosts and runs fit.
constexpr std::size_t kTextBytes = 512;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string host_name() {
  std::array<char, 256> name = {};
  const bool known = ::gethostname(name.data(), name.size() - 1) == 0;
  return known ? base::printable(name.data()) : "unknown";
}

template <class T>
bool number_from(std::string_view text, T& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() && value >= 0;
}

/// Takes "KEY value\n" off the beginning.
bool take_line(std::string_view& text, std::string_view key, std::string_view& value) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with(key) || text.substr(key.size(), 1) != " ") return false;
  value = text.substr(key.size() + 1, end - key.size() - 1);
  text.remove_prefix(end + 1);
  return !value.empty() && base::printable(value) == value;
}

}  // namespace

std::optional<std::int64_t> start_of_process(std::int64_t pid) {
  const std::string text = contents(fmt::format("/proc/{}/stat", pid));
  // "PID (NAME) STATE ..." (proc(5)); NAME may hold anything. The start time is field 22, 19 after the state.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return std::nullopt;
  std::string_view rest = std::string_view(text).substr(name_end + 2);
  if (rest[0] == 'Z' || rest[0] == 'X' || rest[0] == 'x') return std::nullopt;  // dead, not yet waited for
  for (int field = 3; field < 22; ++field) {
    const auto space = rest.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(space + 1);
  }
  std::int64_t start = 0;
  return number_from(rest.substr(0, rest.find(' ')), start) ? std::optional(start) : std::nullopt;
}

LockHolder this_process(std::string run) {
  LockHolder self;
  self.host = host_name();
  std::string boot = contents("/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  self.boot = boot.empty() ? "unknown" : boot;
  std::error_code error;
  const auto pids = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  self.pid_namespace = error ? "unknown" : pids.string();
  self.pid = ::getpid();
  self.start = start_of_process(self.pid).value_or(0);
  self.run = std::move(run);
  return self;
}

std::string lock_text(const LockHolder& holder) {
  std::string text =
      fmt::format("shard8 lock\nhost {}\nboot {}\npid_namespace {}\npid {}\nstart {}\nrun {}\nbeats {}\n", holder.host,
                  holder.boot, holder.pid_namespace, holder.pid, holder.start, holder.run, holder.beats);
  SHARD8_REQUIRE(text.size() < kTextBytes, "the lock's text has {} bytes, at most {} fit: {}", text.size(),
                 kTextBytes - 1, text);
  text.resize(kTextBytes - 1, ' ');
  return text + "\n";
}

std::optional<LockHolder> parse_lock(std::string_view text) {
  LockHolder holder;
  std::string_view host, boot, pids, pid, start, run, beats;
  constexpr std::string_view kFirst = "shard8 lock\n";
  if (text.size() != kTextBytes || !text.starts_with(kFirst)) return std::nullopt;
  text.remove_prefix(kFirst.size());
  const bool complete = take_line(text, "host", host) && take_line(text, "boot", boot) &&
                        take_line(text, "pid_namespace", pids) && take_line(text, "pid", pid) &&
                        take_line(text, "start", start) && take_line(text, "run", run) &&
                        take_line(text, "beats", beats);
  if (!complete || text.find_first_not_of(" \n") != std::string_view::npos) return std::nullopt;
  if (!number_from(pid, holder.pid) || !number_from(start, holder.start) || !number_from(beats, holder.beats)) {
    return std::nullopt;
  }
  holder.host = host;
  holder.boot = boot;
  holder.pid_namespace = pids;
  holder.run = run;
  return holder;
}

}  // namespace shard8::checkpoint
