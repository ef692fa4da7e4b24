// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace shard8::base {

/// `name` for a rank: "trace.rank0003.json" for "trace.json".
inline std::string rank_file_name(const std::string& name, int rank) {
  const auto dot = name.rfind('.');
  return fmt::format("{}.rank{:04}{}", name.substr(0, dot), rank, dot == std::string::npos ? "" : name.substr(dot));
}

/// The rank for which `file` is rank_file_name() of `name`; nothing for any other file.
inline std::optional<int> rank_of_file_name(const std::string& file, const std::string& name) {
  const std::string begin = name.substr(0, name.rfind('.')) + ".rank";
  if (!file.starts_with(begin)) return std::nullopt;
  int rank = 0;
  std::from_chars(file.data() + begin.size(), file.data() + file.size(), rank);
  if (rank < 0 || rank_file_name(name, rank) != file) return std::nullopt;
  return rank;
}

}  // namespace shard8::base
