// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>

#include "tests/model/fp8_module.hpp"

namespace shard8::tests {

using deck::Recipe;
using tensor::DType;

namespace {

int all_ranks() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

}  // namespace

std::vector<Fp8Setting> fp8_settings(bool and_bf16) {
  std::vector<Fp8Setting> all;
  for (const Setting& of : settings()) {
    const bool bf16 = of.compute == DType::bf16, llama = of.arch == deck::Arch::llama;
    if (bf16 && (!and_bf16 || all_ranks() > 2)) continue;
    const auto add = [&](const Fp8Setting& setting, bool with_llama) {
      if (setting.kind == Recipe::block && all_ranks() > 2) return;
      if (!bf16 || with_llama == llama) all.push_back(setting);
    };
    add({of, Recipe::delayed, false, false}, true);
    add({of, Recipe::delayed, true, false}, false);
    add({of, Recipe::current, false, false}, true);
    add({of, Recipe::mxfp8, false, false}, false);
    add({of, Recipe::block, false, false}, true);
    add({of, Recipe::block, false, true}, false);
  }
  return all;
}

std::string name_of(const Fp8Setting& s) {
  constexpr const char* kNames[] = {"none", "delayed", "current", "block", "mxfp8"};
  return fmt::format("{}, {}{}{}", name_of(s.of), kNames[static_cast<int>(s.kind)], s.later ? ", a later step" : "",
                     s.any_scales ? ", any scales" : "");
}

deck::ModelConfig fp8_model(const Fp8Setting& s) {
  const bool wide = s.kind == Recipe::block;
  const int ranks = all_ranks();
  deck::ModelConfig m = small_model(s.of.arch);
  m.hidden = wide ? 256 : 128;
  m.ffn = 256;
  m.heads = 4;
  // As few key heads as blocks allow.
  m.kv_heads = s.of.arch == deck::Arch::llama ? std::min(4, wide ? 2 * ranks : std::max(2, ranks)) : 4;
  m.seq = 16;
  return m;
}

std::int64_t fp8_batch(const Fp8Setting& s) { return (s.kind == Recipe::block ? 8 : 2) * all_ranks(); }

fp8::Recipe recipe_of(const Fp8Setting& s) {
  deck::Config config;
  config.model = fp8_model(s);
  config.precision.compute = s.of.compute == DType::bf16 ? deck::FloatType::bf16 : deck::FloatType::fp32;
  config.fp8.recipe = s.kind;
  const bool blocks = s.kind == Recipe::block || s.kind == Recipe::mxfp8;
  config.fp8.format = blocks ? deck::Fp8Format::e4m3 : deck::Fp8Format::hybrid;
  config.fp8.power_of_2_scales = blocks && !s.any_scales;
  config.fp8.amax_history = 3;
  return fp8::Recipe::make(config);
}

}  // namespace shard8::tests
