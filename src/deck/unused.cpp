// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/unused.hpp"

#include <fmt/format.h>

#include <string_view>

#include "deck/checker.hpp"
#include "deck/fields.hpp"

namespace shard8::deck {
namespace {

struct Reader {
  std::string_view key;          ///< group.key
  std::string_view switched_by;  ///< the key that decides whether it is read
  bool (*reads)(const Config&);
};

bool in_fp8(const Config& c) { return c.fp8.on(); }
bool delayed(const Config& c) { return c.fp8.recipe == Recipe::delayed; }

constexpr Reader kReaders[] = {
    {"model.init_seed", "model.init_file", [](const Config& c) { return c.model.init_file.empty(); }},
    {"model.init_std", "model.init_file", [](const Config& c) { return c.model.init_file.empty(); }},
    {"model.rope_theta", "model.arch", [](const Config& c) { return c.model.arch == Arch::llama; }},
    {"fp8.format", "fp8.recipe", in_fp8},
    {"fp8.amax_history", "fp8.recipe", delayed},
    {"fp8.amax_algo", "fp8.recipe", delayed},
    {"fp8.margin", "fp8.recipe", delayed},
    {"fp8.power_of_2_scales", "fp8.recipe", in_fp8},
    {"fp8.weights", "fp8.recipe", in_fp8},
    {"fp8.first_layers_bf16", "fp8.recipe", in_fp8},
    {"fp8.last_layers_bf16", "fp8.recipe", in_fp8},
    {"data.path", "data.kind", [](const Config& c) { return c.data.kind != DataKind::synthetic; }},
    {"verify.tolerance", "verify.gold", [](const Config& c) { return !c.verify.gold.empty(); }},
};

}  // namespace

void warn_of_unused(Diagnostics& diagnostics, const Reading& reading) {
  const Checker check(diagnostics, reading);
  for (const Reader& reader : kReaders) {
    const auto given = reading.values.find(reader.key);
    if (given == reading.values.end() || reader.reads(reading.config)) continue;
    const Field& field = field_at(reader.key);
    if (value_text(field, reading.config) == value_text(field, Config{})) continue;  // as if it were not given
    diagnostics.warning(given->second, fmt::format("{} has no effect", check.shown(reader.key)),
                        fmt::format("nothing reads it with {}", check.shown(reader.switched_by)));
  }
}

}  // namespace shard8::deck
