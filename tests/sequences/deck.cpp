// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/sequences/deck.hpp"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>

namespace shard8::test {

namespace {

constexpr const char* kDigits[kAlphabets] = {"0123456789", "9876543210", "5738201946"};
constexpr int kFirst = 1000, kLast = 1999, kPiece = 100;

std::string numbers(int first, int last, int alphabet) {
  std::string text;
  for (int number = first; number <= last; ++number) {
    for (const char digit : std::to_string(number)) text += kDigits[alphabet][digit - '0'];
    text += '\n';
  }
  return text;
}

/// The first number of an appended piece.
int piece_begin(int piece) { return 5000 + piece * kPiece; }

}  // namespace

std::string text_of(const Mesh& mesh) { return fmt::format("{} x {} x {}", mesh.replicate, mesh.shard, mesh.tensor); }

void write_content(const std::filesystem::path& file, const Content& content) {
  std::ofstream out(file, std::ios::binary);
  out << numbers(kFirst, kLast, content.alphabet);
  for (int piece = 0; piece < content.appended; ++piece)
    out << numbers(piece_begin(piece), piece_begin(piece) + kPiece - 1, 0);
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

std::string shell_append(const std::string& file, int piece) {
  return fmt::format("seq {} {} >> {}", piece_begin(piece), piece_begin(piece) + kPiece - 1, file);
}

std::string shell_of(const std::string& file, const Content& content) {
  std::string text = fmt::format("seq {} {}", kFirst, kLast);
  if (content.alphabet > 0) text += fmt::format(" | tr 0-9 {}", kDigits[content.alphabet]);
  text += " > " + file;
  for (int piece = 0; piece < content.appended; ++piece) text += "; " + shell_append(file, piece);
  return text;
}

std::string BaseDeck::text() const {
  std::string text =
      fmt::format("model:      {{arch: {}, hidden: 32, ffn: 64, heads: 2, vocab: 256, seq: 16}}\n", arch);
  text += fmt::format("precision:  {{compute: {}}}\n", compute);
  if (recipe != "none") text += fmt::format("fp8:        {{recipe: {}, amax_history: 3}}\n", recipe);
  text += fmt::format("optimizer:  {{warmup: 2, decay_steps: {}}}\n", kMostSteps);
  text += "data:       {kind: bytes, batch: 6}\n";
  return text;
}

BaseDeck draw_base_deck(Draw& draw) {
  BaseDeck deck;
  deck.arch = draw.one_of({"llama", "gpt2"});
  const auto kind = draw.between(0, 5);
  if (kind >= 4) deck.compute = "bf16";
  if (kind == 5) deck.recipe = "delayed";
  return deck;
}

std::string Deck::training_text() const {
  return fmt::format("layers {}, lr {}, clip {}, seed {}, alphabet {}, appended {}", layers, lr, clip, seed,
                     content.alphabet, content.appended);
}

std::vector<std::string> Deck::arguments() const {
  return {fmt::format("model.layers={}", layers),
          "optimizer.lr=" + lr,
          "optimizer.clip=" + clip,
          fmt::format("data.seed={}", seed),
          fmt::format("mesh.replicate={}", mesh.replicate),
          fmt::format("mesh.shard={}", mesh.shard),
          fmt::format("mesh.tensor={}", mesh.tensor),
          "data.path=" + data_path,
          fmt::format("run.steps={}", steps),
          fmt::format("run.log_every={}", log_every),
          fmt::format("fsdp.prefetch={}", prefetch),
          fmt::format("checkpoint.every={}", every),
          fmt::format("checkpoint.keep={}", keep),
          fmt::format("checkpoint.async={}", async)};
}

}  // namespace shard8::test
