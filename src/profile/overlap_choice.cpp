// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/overlap_choice.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shard8::profile {

ExchangeMethods OverlapChoice::resolve(ExchangeMethods methods) const {
  std::ranges::replace(methods, ExchangeMethod::automatic, ExchangeMethod::off);
  for (const Row& row : rows) methods[row.exchange] = row.chosen();
  return methods;
}

std::string to_text(const OverlapChoice& choice) {
  if (choice.rows.empty()) return {};
  std::string text = fmt::format("overlap of the keys that are auto: {}\n", choice.from);
  text += fmt::format("  {:<12}{:>12}  {:<10}{:>12}  {}\n", "key", "plain ms", "method", "ms", "chosen");
  std::string overrides;
  for (const OverlapChoice::Row& row : choice.rows) {
    text += fmt::format("  {:<12}{:>12.4f}  {:<10}{:>12.4f}  {}\n", name_of(row.exchange), 1e3 * row.plain_s,
                        name_of(row.method), 1e3 * row.method_s, name_of(row.chosen()));
    overrides += fmt::format(" overlap.{}={}", name_of(row.exchange), name_of(row.chosen()));
  }
  return text + fmt::format("  as overrides:{}\n", overrides);
}

}  // namespace shard8::profile
