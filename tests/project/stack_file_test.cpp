// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "tests/project/stack_deck.hpp"

// The files of stacks: which groups count for a deck, errors, and those that are shipped.

namespace shard8 {
namespace {

using namespace test;

TEST(File, GroupsCountByDeck) {
  const auto stack = stack_of(R"(
deck: {fsdp.prefetch: 2, precision.reduce: bf16}
deck_fp8: {fp8.recipe: delayed}
deck_bf16: {fsdp.gather: fp32}
deck_overlap: {overlap.qkv_fprop: off}
deck_fp8_tensor: {fsdp.prefetch: 3}
structure: {head: whole, recomputed: fc1}
structure_fp8: {recomputed: qkv proj fc1}
structure_tensor: {tensor_copies: 2}
structure_fp8_tensor: {recomputed: qkv=keys fc1}
structure_overlap: {recomputed: qkv=0.5}
)");
  using Texts = std::vector<std::string>;
  EXPECT_EQ(overrides(stack, deck_of()), (Texts{"fsdp.prefetch=2", "precision.reduce=bf16", "fsdp.gather=fp32"}));
  const deck::Config fp8 = deck_of({"fp8.recipe=current"});
  EXPECT_EQ(overrides(stack, fp8), (Texts{"fsdp.prefetch=2", "precision.reduce=bf16", "fp8.recipe=delayed"}));
  const deck::Config overlap = deck_of({"mesh.shard=1", "mesh.tensor=2", "overlap.enable=true", "data.batch=2"});
  EXPECT_EQ(overrides(stack, overlap).back(), "overlap.qkv_fprop=off");
  EXPECT_EQ(structure_of(stack, deck_of()).recomputed, (std::array<double, 4>{0, 0, 1, 0}));
  EXPECT_EQ(structure_of(stack, fp8).recomputed, (std::array<double, 4>{1, 1, 1, 0}));
  EXPECT_EQ(structure_of(stack, fp8).tensor_copies, 0);
  EXPECT_EQ(structure_of(stack, overlap).tensor_copies, 2);
  const deck::Config both = deck_of({"mesh.shard=1", "mesh.tensor=2", "data.batch=2", "fp8.recipe=current"});
  EXPECT_EQ(overrides(stack, both).back(), "fsdp.prefetch=3");
  EXPECT_EQ(structure_of(stack, both).tensor_copies, 2);
  constexpr double kKeys = static_cast<double>(kKvHeads) / (kHeads + 2 * kKvHeads);
  EXPECT_EQ(structure_of(stack, both).recomputed, (std::array<double, 4>{kKeys, 0, 1, 0}));
  const deck::Config all =
      deck_of({"mesh.shard=1", "mesh.tensor=2", "data.batch=2", "fp8.recipe=current", "overlap.enable=true"});
  EXPECT_EQ(structure_of(stack, all).recomputed, (std::array<double, 4>{0.5, 0, 0, 0}));
  EXPECT_THROW(stack_of("structure: {recomputed: qkv=keys qkv=0.5}\n"), base::Error);
}

TEST(File, ErrorsHavePlaceValueAndRemedy) {
  const std::string text = R"(stack:
  format: 2
  nam: x
deck:
  fsdp.prefech: 1
structure:
  head: hole
  gather_copies: -1
  recomputed: qkv=2
  hed: whole
structur_fp8:
  head: whole
kernels:
  rope: fast
)";
  try {
    project::read_stack_text(text, "s.yaml");
    FAIL() << "read";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::deck);
    const std::string what = error.what();
    for (const char* part :
         {"s.yaml:2:11: error: stack.format = 2 is not allowed", "expected 1", "s.yaml:3:3: error: unknown key 'nam'",
          "did you mean 'name'?", "s.yaml:1:1: error: stack.name is missing",
          "s.yaml:5:3: error: 'fsdp.prefech' is no key of a deck", "did you mean 'fsdp.prefetch'?",
          "s.yaml:7:9: error: structure.head = hole is not allowed", "expected chunks or whole",
          "s.yaml:8:18: error: structure.gather_copies = -1 is not allowed", "expected a number from 0 to 64",
          "structure.recomputed = qkv=2 is not allowed", "s.yaml:10:3: error: unknown key 'hed'",
          "s.yaml:11:1: error: unknown group 'structur_fp8'", "did you mean 'structure_fp8'?",
          "s.yaml:14:9: error: kernels.rope = fast is not allowed"})
      EXPECT_NE(what.find(part), std::string::npos) << part << "\nin\n" << what;
  }
  EXPECT_THROW(project::read_stack("/no/such/stack.yaml"), base::Error);
}

}  // namespace
}  // namespace shard8
