// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/inputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/masters.hpp"
#include "comm/agree.hpp"
#include "io/digest.hpp"
#include "io/file.hpp"
#include "model/huggingface_entries.hpp"
#include "model/weight_file.hpp"
#include "train/trainer.hpp"
#include "train/training_file.hpp"

namespace shard8::train {

namespace {

checkpoint::ManifestInput input_of(const std::string& path, const io::Fingerprint& print) {
  return {path, print.length, print.samples, print.digest};
}

}  // namespace

std::optional<checkpoint::ManifestInput> input_of(const data::Dataset& dataset, const std::string& path,
                                                  const std::function<void(const std::string&)>& say) {
  const data::Inspection found = dataset.inspect();
  for (const std::string& warning : found.warnings) say(warning);
  if (!found.fingerprint) return std::nullopt;
  return input_of(path, *found.fingerprint);
}

checkpoint::ManifestInput input_of(const io::TensorFile& file) {
  return reading_weights(base::ExitCode::deck, [&] { return input_of(file.spec(), io::fingerprint_of(file)); });
}

std::optional<checkpoint::ManifestInput> validation_of(const data::Loader& loader, const deck::Config& config,
                                                       const std::optional<checkpoint::ManifestInput>& data,
                                                       const std::function<void(const std::string&)>& say) {
  const std::string& path = config.data.validation_path;
  auto found = path.empty() ? data : input_of(loader.dataset(), path, say);
  if (!found) found = checkpoint::ManifestInput{"", 0, 0, "0"};
  found->samples = validation_tokens(loader, config.run) / loader.dataset().seq();
  return found;
}

std::optional<double> unigram_entropy(const comm::Communicator& world, const data::Dataset& dataset,
                                      const deck::Config& config, const data::GoesOn& goes_on) {
  if (config.data.kind == deck::DataKind::tokens && config.verify.unigram_ratio_max <= 0) return std::nullopt;
  std::array<double, 1> entropy{0};
  comm::agree_on_root(world, 0, [&] { entropy[0] = data::unigram_entropy(dataset, goes_on); });
  world.all_reduce(entropy, comm::Communicator::Reduce::sum);
  return entropy[0];
}

namespace {

namespace fs = std::filesystem;
using base::ExitCode;
using checkpoint::Checkpoint;
using Say = std::function<void(const std::string&)>;

/// The code of what fails while weights are read from a checkpoint, or else from a file.
ExitCode code_of(const std::optional<Checkpoint>& from) { return from ? ExitCode::checkpoint : ExitCode::deck; }

/// Whether model.init_file names checkpoints. A folder with weights of Hugging Face is one of those.
bool is_checkpoint(const std::string& spec) {
  std::error_code ignored;
  if (!fs::is_directory(spec, ignored)) return false;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (fs::exists(fs::path(spec) / name, ignored)) return false;
  return checkpoint::names_checkpoints(spec);
}

/// The config.json that belongs to weights in the safetensors format, whether it is there or not.
std::optional<fs::path> config_beside(const std::string& spec) {
  std::error_code ignored;
  if (fs::is_directory(spec, ignored)) return fs::path(spec) / "config.json";
  if (spec.ends_with(".safetensors") || spec.ends_with(".json")) return fs::path(spec).parent_path() / "config.json";
  return std::nullopt;
}

std::string text_of(const std::string& path) {
  constexpr std::int64_t kLargest = 1 << 20;  // chosen: such files have about 1 kB
  io::require_content(path);
  const io::InputFile file(path);
  if (file.size() > kLargest)
    base::fail(ExitCode::deck, "'{}': has {} bytes; a configuration of Hugging Face has at most {}", path, file.size(),
               kLargest);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

void refuse(const std::string& path, const std::vector<std::string>& differences) {
  if (differences.empty()) return;
  base::fail(ExitCode::deck, "'{}' describes another model than the deck, which names it in model.init_file:\n  {}",
             path, fmt::join(differences, "\n  "));
}

/// Error(deck) unless the weights are those of the deck's model.
void check_model(const io::TensorFile& file, const std::optional<Checkpoint>& from, const deck::ModelConfig& model,
                 const Say& say) {
  std::error_code ignored;
  if (from) {
    const deck::ModelConfig saved = saved_config(*from).model;
    refuse(from->folder, model::model_differences(saved, model));
    const std::string drawn = drawn_experts_text(from->folder, saved);
    if (!drawn.empty() && model.moe.routing == deck::MoeRouting::learned) say(drawn);
  } else if (const auto config = config_beside(model.init_file);
             config && (fs::exists(*config, ignored) || fs::is_symlink(*config, ignored))) {
    const std::string path = config->string();
    refuse(path, model::config_differences(text_of(path), path, model));
  }
  const std::vector<std::string> others = model::check_tensors(file, model);
  if (others.empty()) return;
  std::string names;
  constexpr std::size_t kShown = 4;
  for (std::size_t i = 0; i < std::min(others.size(), kShown); ++i)
    names += fmt::format("{}'{}'", i == 0 ? "" : ", ", base::quotable(others[i]));
  if (others.size() > kShown) names += fmt::format(" and {} more", others.size() - kShown);
  say(fmt::format("{}: {} not read, since no part of the model has such a name: {}", file.spec(),
                  base::count(static_cast<std::int64_t>(others.size()), "tensor is", "tensors are"), names));
}

/// Says how the file was chosen, and compares it with the deck.
void check(const io::TensorFile& file, const std::optional<Checkpoint>& from, const deck::ModelConfig& model,
           const Say& say) {
  for (const std::string& note : file.notes()) say(note);
  reading_weights(code_of(from), [&] { check_model(file, from, model, say); });
}

std::unique_ptr<io::TensorFile> open(io::IoThread& io, const std::optional<Checkpoint>& from,
                                     const deck::ModelConfig& model, const checkpoint::LikelyRanks& likely) {
  return reading_weights(code_of(from), [&]() -> std::unique_ptr<io::TensorFile> {
    if (from) return std::make_unique<checkpoint::Masters>(*from, likely);
    return io::open_tensor_file(io, model.init_file);
  });
}

std::optional<Checkpoint> find(const deck::ModelConfig& model, const Say& say) {
  if (!is_checkpoint(model.init_file)) return std::nullopt;
  return reading_weights(ExitCode::checkpoint, [&] { return checkpoint::open_checkpoint(model.init_file, say); });
}

}  // namespace

std::unique_ptr<io::TensorFile> open_initial_weights(io::IoThread& io, const deck::ModelConfig& model, const Say& say) {
  const auto from = find(model, say);
  auto file = open(io, from, model, {});
  check(*file, from, model, say);
  return file;
}

std::unique_ptr<io::TensorFile> open_initial_weights(const comm::Communicator& world, io::IoThread& io,
                                                     const Setup& setup, const Say& say) {
  const deck::ModelConfig& model = setup.config.model;
  std::optional<Checkpoint> from;
  std::string found;  // the checkpoint's folder and its manifest
  comm::agree_on_root(world, 0, [&] {
    from = find(model, say);
    if (from) found = from->folder + '\n' + checkpoint::read_manifest_text(from->folder);
  });
  world.broadcast(found, 0);
  std::unique_ptr<io::TensorFile> file;
  comm::agree(world, [&] {
    checkpoint::LikelyRanks likely;
    if (!found.empty()) {
      const std::size_t end = found.find('\n');
      const std::string folder = found.substr(0, end);
      from = Checkpoint{folder, checkpoint::parse_manifest(std::string_view(found).substr(end + 1), folder)};
      likely = likely_ranks(setup, from->manifest.mesh);
    }
    file = open(io, from, model, likely);
  });
  comm::agree_on_root(world, 0, [&] { check(*file, from, model, say); });
  return file;
}

}  // namespace shard8::train
