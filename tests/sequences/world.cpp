// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/sequences/world.hpp"

#include <fmt/format.h>

#include <algorithm>
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

std::string step_folder(std::int64_t step) { return fmt::format("step_{:08d}", step); }

const Checkpoint* Folder::newest(int training) const {
  const Checkpoint* newest = nullptr;
  for (const auto& [step, one] : checkpoints)
    if (one.usable() && (training < 0 || one.training == training) &&
        (newest == nullptr || one.serial > newest->serial))
      newest = &one;
  return newest;
}

bool Folder::holds_other(int training) const {
  return std::any_of(checkpoints.begin(), checkpoints.end(), [&](const auto& one) {
    return one.second.training != training && one.second.state != Checkpoint::State::no_manifest;
  });
}

bool Folder::holds_unknown(int training) const {
  return std::any_of(checkpoints.begin(), checkpoints.end(), [&](const auto& one) {
    return one.second.training != training && one.second.state == Checkpoint::State::no_manifest;
  });
}

std::string Restart::text() const {
  if (kind == Kind::automatic) return "auto";
  if (kind == Kind::none) return "none";
  return step < 0 ? folder : folder + "/" + step_folder(step);
}

std::vector<std::string> Command::arguments(const std::string& prefix) const {
  Deck shown = deck;
  shown.data_path = prefix + deck.data_path;
  auto arguments = shown.arguments();
  arguments.push_back("output.dir=" + prefix + output);
  if (!folder.empty()) arguments.push_back("checkpoint.dir=" + prefix + folder);
  if (restart.kind == Restart::Kind::path)
    arguments.push_back("checkpoint.restart=" + prefix + restart.text());
  else if (restart.kind == Restart::Kind::none)
    arguments.emplace_back("checkpoint.restart=none");
  if (allow_changes) arguments.emplace_back("checkpoint.allow_changes=true");
  if (replace) arguments.emplace_back("output.replace=true");
  if (stop_after > 0) arguments.push_back(fmt::format("run.stop_after={}", stop_after));
  if (final_loss_max > 0) arguments.push_back(fmt::format("verify.final_loss_max={}", final_loss_max));
  if (!gold.empty()) arguments.insert(arguments.end(), {"verify.gold=" + prefix + gold, "verify.tolerance=1e-5"});
  return arguments;
}

std::string Command::shell() const {
  std::string text = requeue ? "SLURM_RESTART_COUNT=1 " : "";
  text += fmt::format("mpiexec -n {} shard8 run deck.yaml", deck.mesh.ranks());
  for (const std::string& one : arguments()) text += " " + one;
  return text;
}

}  // namespace shard8::test
