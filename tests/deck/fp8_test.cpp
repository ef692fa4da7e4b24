// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// The keys of FP8: their defaults, values that contradict each other, and sizes that do and do not fit blocks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "deck/choices.hpp"
#include "deck/load.hpp"
#include "tests/deck/decks.hpp"

namespace shard8::deck {
namespace {

using Overrides = std::vector<std::string>;

/// A deck whose sizes fit every recipe, on one rank and with tensor = 2.
constexpr const char* kFittingDeck = R"(
model: {hidden: 256, ffn: 512, layers: 4, heads: 4, vocab: 256, seq: 128}
optimizer: {lr: 1e-3}
data: {kind: synthetic, batch: 12}
run: {steps: 50}
)";

Config fp8_deck(const Overrides& overrides, const char* deck = kFittingDeck) {
  return load_text(deck, "a.yaml", overrides).config;
}

// The first line of each error, without its place.
std::string errors_of(const Overrides& overrides, const char* deck = kFittingDeck) {
  try {
    fp8_deck(overrides, deck);
  } catch (const base::Error& error) {
    const std::string text = error.what();
    std::string found;
    for (auto at = text.find("error: "); at != std::string::npos; at = text.find("error: ", at + 1)) {
      if (!found.empty()) found += '\n';
      found += text.substr(at + 7, text.find('\n', at) - at - 7);
    }
    return found;
  }
  return "";
}

TEST(Fp8, defaults) {
  const Config c = fp8_deck({});
  EXPECT_FALSE(c.fp8.on());
  EXPECT_EQ(c.fp8.recipe, Recipe::none);
  EXPECT_EQ(c.fp8.format, Fp8Format::automatic);  // no recipe, no format
  EXPECT_EQ(c.fp8.amax_history, 1024);
  EXPECT_EQ(c.fp8.amax_algo, AmaxAlgo::max);
  EXPECT_EQ(c.fp8.margin, 0);
  EXPECT_FALSE(c.fp8.power_of_2_scales);
  EXPECT_EQ(c.fp8.weights, Fp8Weights::fp8);
  EXPECT_EQ(c.fp8.first_layers_bf16, 0);
  EXPECT_EQ(c.fp8.last_layers_bf16, 0);
  EXPECT_EQ(c.fsdp.gather, Gather::bf16);
  EXPECT_EQ(c.optimizer.moments, FloatType::fp32);
  EXPECT_EQ(c.optimizer.master, Master::fp32);
}

TEST(Fp8, defaults_that_depend_on_the_recipe) {
  struct Row {
    const char* recipe;
    Recipe value;
    Fp8Format format;
    bool power_of_2;
  };
  const Row rows[] = {{"delayed", Recipe::delayed, Fp8Format::hybrid, false},
                      {"current", Recipe::current, Fp8Format::hybrid, false},
                      {"block", Recipe::block, Fp8Format::e4m3, true},
                      {"mxfp8", Recipe::mxfp8, Fp8Format::e4m3, true}};
  for (const Row& row : rows) {
    for (const std::string compute : {"bf16", "fp32"}) {
      const std::string recipe = std::string("fp8.recipe=") + row.recipe;
      for (const Overrides& more : {Overrides{}, Overrides{"fp8.format=auto", "fsdp.gather=auto"}}) {
        Overrides overrides = {recipe, "precision.compute=" + compute};
        overrides.insert(overrides.end(), more.begin(), more.end());
        const Config c = fp8_deck(overrides);
        EXPECT_TRUE(c.fp8.on());
        EXPECT_EQ(c.fp8.recipe, row.value) << recipe;
        EXPECT_EQ(c.fp8.format, row.format) << recipe;
        EXPECT_EQ(c.fp8.power_of_2_scales, row.power_of_2) << recipe;
        EXPECT_EQ(c.fsdp.gather, Gather::fp8) << recipe;
      }
    }
  }
}

TEST(Fp8, what_is_given_stays) {
  EXPECT_TRUE(fp8_deck({"fp8.recipe=current", "fp8.power_of_2_scales=true"}).fp8.power_of_2_scales);
  EXPECT_FALSE(fp8_deck({"fp8.recipe=block", "fp8.power_of_2_scales=false"}).fp8.power_of_2_scales);
  EXPECT_EQ(fp8_deck({"fp8.format=hybrid"}).fp8.format, Fp8Format::hybrid);
  EXPECT_EQ(fp8_deck({"fp8.recipe=block", "fp8.format=hybrid"}).fp8.format, Fp8Format::hybrid);
  EXPECT_EQ(fp8_deck({"fp8.recipe=current", "fp8.weights=bf16"}).fsdp.gather, Gather::fp8);
  EXPECT_EQ(fp8_deck({"fp8.recipe=current", "fp8.weights=bf16", "fsdp.gather=bf16"}).fsdp.gather, Gather::bf16);
  EXPECT_EQ(fp8_deck({"fp8.recipe=delayed", "fp8.margin=16"}).fp8.margin, 16);
  EXPECT_EQ(fp8_deck({"fp8.recipe=delayed", "fp8.margin=-16"}).fp8.margin, -16);
  EXPECT_EQ(fp8_deck({"fp8.recipe=delayed", "fp8.amax_history=1"}).fp8.amax_history, 1);
  EXPECT_EQ(fp8_deck({"optimizer.moments=bf16"}).optimizer.moments, FloatType::bf16);
  EXPECT_EQ(fp8_deck({"optimizer.master=bf16_remainder"}).optimizer.master, Master::bf16_remainder);
  EXPECT_EQ(fp8_deck({"fp8.recipe=block", "optimizer.master=bf16_remainder"}).optimizer.master, Master::bf16_remainder);
  const Config ends = fp8_deck({"fp8.recipe=current", "fp8.first_layers_bf16=1", "fp8.last_layers_bf16=2"});
  EXPECT_EQ(ends.fp8.first_layers_bf16 + ends.fp8.last_layers_bf16, 3);
}

TEST(Fp8, what_is_written_is_read_back) {
  for (const std::string_view recipe : Choices<Recipe>::names) {
    for (const std::string weights : {"fp8", "bf16"}) {
      const Config config = fp8_deck({fmt::format("fp8.recipe={}", recipe), "fp8.weights=" + weights,
                                      "optimizer.moments=bf16", "optimizer.master=bf16_remainder"});
      const std::string yaml = to_yaml(config);
      const std::string namelist = to_namelist(config);
      EXPECT_NE(yaml.find(fmt::format("\n  recipe: {}\n", recipe)), std::string::npos) << yaml;
      EXPECT_EQ(to_yaml(load_text(yaml, "b.yaml").config), yaml);
      EXPECT_EQ(to_namelist(load_text(namelist, "b.nml").config), namelist);
      EXPECT_EQ(to_yaml(load_text(namelist, "b.nml").config), yaml);
    }
  }
}

TEST(Fp8, the_echo_says_what_was_made_of_defaults) {
  std::map<std::string, Echo> echo;
  for (const Echo& one : load_text(kFittingDeck, "a.yaml", Overrides{"fp8.recipe=block"}).echo) {
    echo[one.group + "." + one.key] = one;
  }
  EXPECT_EQ(std::get<std::string>(echo.at("fp8.recipe").value), "block");
  EXPECT_EQ(echo.at("fp8.recipe").origin, Origin::command_line);
  EXPECT_EQ(std::get<std::string>(echo.at("fp8.format").value), "e4m3");
  EXPECT_EQ(echo.at("fp8.format").origin, Origin::fallback);
  EXPECT_EQ(std::get<bool>(echo.at("fp8.power_of_2_scales").value), true);
  EXPECT_EQ(std::get<std::int64_t>(echo.at("fp8.amax_history").value), 1024);
  EXPECT_EQ(std::get<std::string>(echo.at("fsdp.gather").value), "fp8");
  EXPECT_EQ(std::get<std::string>(echo.at("optimizer.master").value), "fp32");
}

TEST(Fp8, gather_with_recipe_weights_and_compute) {
  // Allowed besides auto: with FP8 weights fp8; with other weights fp8 or the compute type; without a recipe fp32 or
  // bf16, but bf16 only with compute bf16.
  for (const std::string recipe : {"none", "delayed", "current", "block", "mxfp8"}) {
    for (const std::string weights : {"fp8", "bf16"}) {
      for (const std::string compute : {"bf16", "fp32"}) {
        for (const std::string gather : {"auto", "fp8", "bf16", "fp32"}) {
          const bool rounds = compute == "fp32" && gather == "bf16";
          bool allowed = gather == "auto";
          if (recipe == "none") {
            allowed = allowed || (gather != "fp8" && !rounds);
          } else {
            allowed = allowed || gather == "fp8" || (weights == "bf16" && gather == compute);
          }
          const Overrides overrides = {"fp8.recipe=" + recipe, "fp8.weights=" + weights, "precision.compute=" + compute,
                                       "fsdp.gather=" + gather};
          const std::string errors = errors_of(overrides);
          EXPECT_EQ(errors.empty(), allowed)
              << fmt::format("{} {} {} {}: ", recipe, weights, compute, gather) << errors;
          EXPECT_EQ(errors.find('\n'), std::string::npos) << "more than one error: " << errors;
        }
      }
    }
  }
}

TEST(Fp8, formats_and_scales_of_recipes) {
  for (const std::string recipe : {"delayed", "current", "block", "mxfp8"}) {
    const bool tensorwise = recipe == "delayed" || recipe == "current";
    for (const std::string format : {"hybrid", "e4m3"}) {
      const bool allowed = recipe == "block" || tensorwise == (format == "hybrid");
      EXPECT_EQ(errors_of({"fp8.recipe=" + recipe, "fp8.format=" + format}),
                allowed ? "" : fmt::format("fp8.format = {} is not that of fp8.recipe = {}", format, recipe));
    }
    for (const std::string rounded : {"true", "false"}) {
      const bool allowed = recipe == "delayed" ? rounded == "false" : recipe != "mxfp8" || rounded == "true";
      EXPECT_EQ(
          errors_of({"fp8.recipe=" + recipe, "fp8.power_of_2_scales=" + rounded}),
          allowed ? "" : fmt::format("fp8.power_of_2_scales = {} cannot be with fp8.recipe = {}", rounded, recipe));
    }
  }
}

// Each size once as a multiple of the recipe's block and once not, for each recipe, on one rank and on two tensor
// ranks.
TEST(Fp8, sizes_that_fit) {
  const std::pair<std::string, int> recipes[] = {{"delayed", 16}, {"current", 16}, {"mxfp8", 32}, {"block", 128}};
  for (const auto& [recipe, g] : recipes) {
    for (const int t : {1, 2}) {
      const std::string cut = t == 1 ? "" : " / mesh.tensor";
      const auto numbers = [t](int n) {
        return t == 1 ? fmt::format("{}", n) : fmt::format("{} / {} = {}", n, t, n / t);
      };
      const auto deck = [&](int hidden, int ffn, int tokens) {
        return Overrides{"fp8.recipe=" + recipe,
                         fmt::format("mesh.tensor={}", t),
                         fmt::format("model.hidden={}", hidden),
                         fmt::format("model.ffn={}", ffn),
                         "data.batch=1",
                         fmt::format("model.seq={}", tokens)};
      };
      const int fits = 3 * g * t, half = fits + g * t / 2;  // 3 blocks a rank, and 3.5
      EXPECT_EQ(errors_of(deck(fits, fits, fits)), "") << recipe;
      EXPECT_EQ(errors_of(deck(fits, half, fits)),
                fmt::format("model.ffn{} = {} is not a multiple of {}", cut, numbers(half), g));
      EXPECT_EQ(
          errors_of(deck(fits, fits, half)),
          fmt::format("micro-batch * model.seq{} = 1 * {}{} is not a multiple of {} (ceil(data.batch / data ranks) "
                      "= ceil(1 / 1) = 1 sequences)",
                      cut, numbers(half), t == 1 ? fmt::format(" = {}", half) : "", g));
      EXPECT_EQ(errors_of(deck(half, fits, fits)),
                fmt::format("model.hidden{} = {} is not a multiple of {}", cut, numbers(half), g));
    }
  }
}

TEST(Fp8, parts_of_qkv) {
  // With one scale for a tensor the width of a rank's [q;k;v] must fit; with block scales the width of each part.
  const Overrides narrow = {"model.hidden=64", "model.ffn=64", "model.heads=16"};
  const auto errors = [&narrow](const std::string& recipe, const std::string& kv_heads, const std::string& tensor) {
    Overrides overrides = narrow;
    overrides.push_back("fp8.recipe=" + recipe);
    overrides.push_back("model.kv_heads=" + kv_heads);
    overrides.push_back("mesh.tensor=" + tensor);
    return errors_of(overrides);
  };
  EXPECT_EQ(errors("current", "2", "1"), "");  // 64 + 2 * 8 = 80
  EXPECT_EQ(errors("current", "2", "2"),
            "(model.hidden + 2 * model.kv_heads * model.hidden / model.heads) / mesh.tensor = (64 + 2 * 2 * 64 / 16) / "
            "2 = 40 is not a multiple of 16");
  EXPECT_EQ(errors("delayed", "1", "1"),
            "model.hidden + 2 * model.kv_heads * model.hidden / model.heads = 64 + 2 * 1 * 64 / 16 = 72 is not a "
            "multiple of 16");
  EXPECT_EQ(errors("mxfp8", "2", "1"),
            "model.kv_heads * model.hidden / model.heads = 2 * 64 / 16 = 8 is not a multiple of 32");
  EXPECT_EQ(errors("mxfp8", "8", "1"), "");
  EXPECT_EQ(errors_of({"fp8.recipe=block", "model.kv_heads=2"}), "");
  EXPECT_EQ(
      errors_of({"fp8.recipe=block", "model.kv_heads=2", "mesh.tensor=2"}),
      "model.kv_heads * model.hidden / model.heads / mesh.tensor = 2 * 256 / 4 / 2 = 64 is not a multiple of 128");
}

TEST(Fp8, no_recipe_takes_any_size) {
  EXPECT_EQ(errors_of({"model.hidden=66", "model.heads=3", "model.ffn=101", "model.seq=33", "data.batch=7"}), "");
}

/// A width counts only where a layer in FP8 has it.
TEST(Fp8, widths_of_layers_in_bf16_are_not_judged) {
  const auto errors = [](const char* first, const char* last, const char* dense, const char* width) {
    return errors_of({"fp8.recipe=delayed", "moe.experts=4", "moe.ffn=256", width,
                      std::string("fp8.first_layers_bf16=") + first, std::string("fp8.last_layers_bf16=") + last,
                      std::string("moe.dense_layers=") + dense});
  };
  const char* const experts = "moe.ffn=24";
  EXPECT_EQ(errors("0", "2", "2", experts), "");
  EXPECT_EQ(errors("0", "2", "3", experts), "");
  EXPECT_EQ(errors("0", "1", "2", experts), "moe.ffn = 24 is not a multiple of 16");
  EXPECT_EQ(errors("3", "0", "3", experts), "moe.ffn = 24 is not a multiple of 16");
  const char* const dense = "model.ffn=250";
  EXPECT_EQ(errors("1", "0", "1", dense), "");
  EXPECT_EQ(errors("2", "1", "1", dense), "");
  EXPECT_EQ(errors("0", "3", "0", dense), "");
  EXPECT_EQ(errors("1", "0", "2", dense), "model.ffn = 250 is not a multiple of 16");
  EXPECT_EQ(errors("0", "3", "1", dense), "model.ffn = 250 is not a multiple of 16");
  EXPECT_EQ(errors_of({"fp8.recipe=delayed", "fp8.first_layers_bf16=3", dense}),
            "model.ffn = 250 is not a multiple of 16");
}

TEST(Fp8, sizes_without_a_value_are_not_judged) {
  EXPECT_EQ(errors_of({"fp8.recipe=block", "model.ffn=x"}),
            "model.ffn = x is not an integer: it does not begin with a number");
  EXPECT_EQ(errors_of({"fp8.recipe=block", "mesh.tensor=0", "model.ffn=100"}), "mesh.tensor = 0 is out of bounds");
  EXPECT_EQ(errors_of({"fp8.recipe=blocks", "model.ffn=100", "fp8.power_of_2_scales=true"}),
            "unknown choice 'blocks' for fp8.recipe");
}

TEST(Fp8, the_quickstart_fits) {
  const AtRoot at_root;
  const auto errors = [](const std::string& recipe, const std::string& more) -> std::string {
    try {
      load("inputs/quickstart.yaml", Overrides{"fp8.recipe=" + recipe, more});
    } catch (const base::Error& error) {
      return error.what();
    }
    return "";
  };
  for (const std::string recipe : {"delayed", "current"}) {
    EXPECT_EQ(errors(recipe, "mesh.tensor=1"), "");
    EXPECT_EQ(errors(recipe, "mesh.tensor=2"), "");
  }
  EXPECT_EQ(errors("mxfp8", "mesh.tensor=1"), "");
}

}  // namespace
}  // namespace shard8::deck
