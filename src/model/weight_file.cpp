// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/weight_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "deck/choices.hpp"

namespace shard8::model {

using base::ExitCode;

namespace {

constexpr std::string_view kPrefix = "transformer.";
constexpr const char* kHead = "lm_head.weight";

/// Elements of the head and of the table that are compared at once: 4 MiB of each. Chosen.
constexpr std::int64_t kPanel = std::int64_t{1} << 20;

bool is_gpt2(const deck::ModelConfig& model) { return model.arch == deck::Arch::gpt2; }

/// Whether a tensor of the file has the source's shape.
bool fits(const std::vector<std::int64_t>& shape, const std::string& name, const SourceBox& source, bool vector) {
  const std::int64_t rows = source.stored_rows(), cols = source.stored_cols();
  const bool positions = name.ends_with("wpe.weight");
  if (vector) return shape.size() == 1 && shape[0] == rows;
  return shape.size() == 2 && (positions ? shape[0] >= rows : shape[0] == rows) && shape[1] == cols;
}

/// The file's name of a tensor: as it is, or without the prefix that GPT-2 checkpoints may omit.
std::string found_name(const io::TensorFile& file, const std::string& name) {
  if (file.contains(name) || !name.starts_with(kPrefix)) return name;
  std::string bare = name.substr(kPrefix.size());
  return file.contains(bare) ? bare : name;
}

/// A tensor's name, without kPrefix if the model is a GPT-2.
std::string_view bare_name(std::string_view name, const deck::ModelConfig& model) {
  if (is_gpt2(model) && name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return name;
}

/// A tensor of a layer.
struct InLayer {
  std::int32_t layer = 0;
  std::string_view name;  ///< behind the layer's number, "mlp.up_proj.weight"
};

/// The layer of a tensor: the number behind "model.layers." or "h.".
std::optional<InLayer> in_layer(std::string_view full_name, const deck::ModelConfig& model) {
  const std::string_view before = is_gpt2(model) ? "h." : "model.layers.";
  std::string_view name = bare_name(full_name, model);
  if (!name.starts_with(before)) return std::nullopt;
  name.remove_prefix(before.size());
  InLayer found;
  const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), found.layer);
  if (status != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  found.name = name.substr(static_cast<std::size_t>(end - name.data()) + 1);
  return found;
}

std::int64_t layers_in(const io::TensorFile& file, const deck::ModelConfig& model) {
  std::int64_t layers = 0;
  for (const std::string& name : file.names())
    if (const auto found = in_layer(name, model)) layers = std::max(layers, std::int64_t{found->layer} + 1);
  return layers;
}

/// Whether Transformers computes the tensor itself, although some files hold it: masks and rotary frequencies.
bool is_buffer(std::string_view name, const deck::ModelConfig& model) {
  const auto found = in_layer(name, model);
  if (is_gpt2(model)) return found && (found->name == "attn.bias" || found->name == "attn.masked_bias");
  if (name == "model.rotary_emb.inv_freq") return true;
  if (!found || !found->name.starts_with("self_attn.rotary_emb.")) return false;
  return found->name.ends_with(".inv_freq") || found->name.ends_with(".cos_cached") ||
         found->name.ends_with(".sin_cached");
}

/// Whether a tensor has the name of a part of the model: what is in layers, embeddings, norms and heads.
bool is_of_model(std::string_view name, const deck::ModelConfig& model) {
  if (name.starts_with("lm_head.")) return true;
  if (!is_gpt2(model)) return name.starts_with("model.");
  if (name.starts_with(kPrefix)) return true;
  for (const std::string_view part : {"h.", "wte.", "wpe.", "ln_f."})
    if (name.starts_with(part)) return true;
  return false;
}

/// The first names and how many there are.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", base::quotable(names[i]));
  return text + (names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

/// What is wrong with all names of a file that lacks the tensor `needed`; empty if nothing is seen.
std::string why_missing(const io::TensorFile& file, const std::string& needed, const deck::ModelConfig& model) {
  const std::vector<std::string> names = file.names();
  if (names.empty()) return {};
  // The names are in order, so what the first and the last begin with, all begin with.
  const auto end = std::mismatch(names.front().begin(), names.front().end(), names.back().begin(), names.back().end());
  const std::string common(names.front().begin(), end.first);
  for (std::size_t dot = common.find('.'); dot != std::string::npos; dot = common.find('.', dot + 1)) {
    const std::string prefix = common.substr(0, dot + 1);
    if (file.contains(prefix + needed) || file.contains(prefix + std::string(bare_name(needed, model))))
      return fmt::format(
          "{}: all {} tensors begin with '{}', which the names of a {} do not: give a copy of the file without this "
          "prefix",
          file.spec(), names.size(), prefix, deck::to_string(model.arch));
  }
  constexpr std::string_view kLlamaPrefix = "model.";
  if (needed.starts_with(kLlamaPrefix) && file.contains(needed.substr(kLlamaPrefix.size())))
    return fmt::format(
        "{}: there is no tensor '{}', but '{}': give a copy of the file whose names begin with '{}', as those of the "
        "whole model do",
        file.spec(), needed, needed.substr(kLlamaPrefix.size()), kLlamaPrefix);
  if (needed == kHead)
    return fmt::format(
        "{}: there is no tensor '{}', which the model needs: set model.tie_embeddings to true if the head is the "
        "table, or check the group or file of model.init_file",
        file.spec(), needed);
  return {};
}

/// The names in the file of all tensors of the model. Error(deck) if one is not there as it is needed.
std::set<std::string> needed_names(const io::TensorFile& file, const deck::ModelConfig& model) {
  std::string first, first_name;
  std::set<std::string> good, wrong;
  for (const UnitSpec& unit : make_units(model)) {
    for (const ParameterSpec& parameter : unit.parameters) {
      for (const SourceBox& source : parameter.sources) {
        try {
          good.insert(name_in(file, source, parameter.vector));
        } catch (const base::Error& error) {
          if (wrong.empty()) first = error.what(), first_name = source.name;
          wrong.insert(source.name);
        }
      }
    }
  }
  if (wrong.empty()) return good;
  if (!file.contains(found_name(file, first_name)))
    if (const std::string why = why_missing(file, first_name, model); !why.empty()) first = why;
  base::fail(ExitCode::deck, "{}{}", first,
             wrong.size() == 1 ? "" : fmt::format(" ({} tensors in all do not fit)", wrong.size()));
}

/// Error(deck) unless a head in the file has the values of the table to which the deck ties it.
void check_tied_head(const io::TensorFile& file, const deck::ModelConfig& model) {
  if (!model.tie_embeddings || !file.contains(kHead)) return;
  const std::string table = found_name(file, is_gpt2(model) ? "transformer.wte.weight" : "model.embed_tokens.weight");
  constexpr const char* kRemedy =
      "set model.tie_embeddings to false, as tie_word_embeddings of a config.json, to train the head by itself, or "
      "give a "
      "copy of the file without it";
  const std::vector<std::int64_t>& shape = file.shape(kHead);
  if (shape != file.shape(table))
    base::fail(ExitCode::deck, "{}: '{}' has shape ({}) and '{}' has ({}), but model.tie_embeddings = true: {}",
               file.spec(), kHead, fmt::join(shape, ", "), table, fmt::join(file.shape(table), ", "), kRemedy);
  const std::int64_t rows = shape[0], cols = shape[1];
  const std::int64_t rows_at_once = std::clamp<std::int64_t>(kPanel / cols, 1, rows);
  std::vector<float> ours(static_cast<std::size_t>(rows_at_once * cols)), theirs(ours.size());
  for (std::int64_t first = 0; first < rows; first += rows_at_once) {
    const io::Box box{first, std::min(rows_at_once, rows - first), 0, cols};
    file.read_box(table, box, ours.data(), cols);
    file.read_box(kHead, box, theirs.data(), cols);
    for (std::int64_t i = 0; i < box.rows * cols; ++i) {
      const float a = ours[static_cast<std::size_t>(i)], b = theirs[static_cast<std::size_t>(i)];
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      base::fail(ExitCode::deck,
                 "{}: '{}' is not a copy of '{}' ({} and {} in row {}, column {}), but model.tie_embeddings = true: {}",
                 file.spec(), kHead, table, b, a, first + i / cols, i % cols, kRemedy);
    }
  }
}

}  // namespace

std::string name_in(const io::TensorFile& file, const SourceBox& source, bool vector) {
  std::string name = found_name(file, source.name);
  if (!file.contains(name))
    base::fail(ExitCode::deck,
               "{}: there is no tensor '{}', which the model needs: check model.arch, model.layers and "
               "model.tie_embeddings, or the group or file of model.init_file",
               file.spec(), name);
  const auto& shape = file.shape(name);
  if (!fits(shape, name, source, vector))
    base::fail(ExitCode::deck,
               "{}: tensor '{}' has shape ({}), the model needs ({}{}): check the model group of the deck", file.spec(),
               name, fmt::join(shape, ", "), source.stored_rows(),
               vector ? "" : ", " + std::to_string(source.stored_cols()));
  if (const std::string& why = file.unreadable(name); !why.empty())
    base::fail(ExitCode::deck, "{}: tensor '{}' {}", file.spec(), name, why);
  return name;
}

std::vector<std::string> check_tensors(const io::TensorFile& file, const deck::ModelConfig& model) {
  const std::set<std::string> needed = needed_names(file, model);
  const std::int64_t layers = layers_in(file, model);
  if (layers > model.layers)
    base::fail(ExitCode::deck, "{}: has {} layers, but model.layers = {}: set model.layers to {}", file.spec(), layers,
               model.layers, layers);
  std::vector<std::string> dropped, others;
  for (const std::string& name : file.names()) {
    if (needed.contains(name) || is_buffer(name, model) || (model.tie_embeddings && name == kHead)) continue;
    (is_of_model(name, model) ? dropped : others).push_back(name);
  }
  if (!dropped.empty())
    base::fail(ExitCode::deck,
               "{}: has {} that a {} does not have and that would be dropped: {}: use weights of a plain {}, or a copy "
               "of the file without {} if the other weights do not need {}",
               file.spec(), base::count(static_cast<std::int64_t>(dropped.size()), "tensor", "tensors"),
               deck::to_string(model.arch), listed(dropped), deck::to_string(model.arch),
               dropped.size() == 1 ? "it" : "them", dropped.size() == 1 ? "it" : "them");
  check_tied_head(file, model);
  return others;
}

}  // namespace shard8::model
