// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/random/trial.hpp"

#include <fmt/format.h>

#include "train/plan/plan.hpp"

namespace shard8::test {

std::string text_of(int rank, const CallsByKind& all) {
  std::string text;
  for (const auto& [kind, of] : all)
    text += fmt::format("  rank {}: {} in {} of {}: {} calls, {} bytes of {}\n", rank, profile::name_of(kind.op),
                        kind.group, kind.group_size, of.calls, of.bytes, kind.dtype);
  return text;
}

CallsByKind planned_calls(const train::Setup& setup, std::uint64_t steps) {
  CallsByKind all;
  if (steps == 0) return all;
  for (const auto& [key, calls] : train::traffic(setup)) {
    Calls& of = all[kind_of(key)];
    of.calls += calls * steps;
    of.bytes += calls * steps * key.bytes;
  }
  return all;
}

}  // namespace shard8::test
