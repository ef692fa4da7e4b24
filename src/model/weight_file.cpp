// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/weight_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "deck/choices.hpp"
#include "model/huggingface_entries.hpp"

namespace shard8::model {

using base::ExitCode;

namespace {

constexpr std::string_view kPrefix = "transformer.";
constexpr const char* kHead = "lm_head.weight";

/// Elements of the head and of the table that are compared at once: 4 MiB of each. Chosen.
constexpr std::int64_t kComparedPanel = std::int64_t{1} << 20;

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

constexpr std::string_view kQwenExperts = "mlp.experts.", kMixtralExperts = "block_sparse_moe.experts.";

/// Whether a tensor of a layer is the router, or one of an expert.
bool is_of_experts(std::string_view name) {
  return name.find(".experts.") != name.npos || name.ends_with("mlp.gate.weight") ||
         name.ends_with("block_sparse_moe.gate.weight");
}

bool is_norm_of_heads(std::string_view name) {
  return name.ends_with("q_norm.weight") || name.ends_with("k_norm.weight");
}

/// What the names of a file say about a llama's experts.
struct ExpertsInFile {
  std::int64_t experts = 0, first_layer = 0;
  bool norms = false;  ///< of queries and keys
};

ExpertsInFile experts_in(const io::TensorFile& file, const deck::ModelConfig& model) {
  ExpertsInFile found;
  for (const std::string& name : file.names()) {
    const auto inside = in_layer(name, model);
    if (!inside) continue;
    found.norms = found.norms || is_norm_of_heads(name);
    for (const std::string_view before : {kQwenExperts, kMixtralExperts}) {
      if (!inside->name.starts_with(before)) continue;
      const std::string_view number = inside->name.substr(before.size());
      std::int32_t expert = 0;
      if (std::from_chars(number.data(), number.data() + number.size(), expert).ec != std::errc()) continue;
      found.first_layer = found.experts == 0 ? inside->layer : std::min<std::int64_t>(found.first_layer, inside->layer);
      found.experts = std::max(found.experts, std::int64_t{expert} + 1);
    }
  }
  return found;
}

/// Which keys make a llama lack the tensor `needed` of a feed-forward block or of the norms of heads; empty if none.
std::string why_no_experts(const io::TensorFile& file, const std::string& needed, const deck::ModelConfig& model) {
  const auto inside = in_layer(needed, model);
  if (is_gpt2(model) || !inside) return {};
  if (!is_norm_of_heads(needed) && !inside->name.starts_with("mlp.") && !inside->name.starts_with("block_sparse_moe."))
    return {};
  const ExpertsInFile found = experts_in(file, model);
  std::vector<std::string> changes;
  if (found.norms != model.qk_norm) changes.push_back(fmt::format("model.qk_norm to {}", found.norms));
  if ((found.experts > 0) != model.moe.on()) changes.push_back(fmt::format("moe.experts to {}", found.experts));
  if (found.experts > 0 && found.first_layer != model.moe.dense_layers)
    changes.push_back(fmt::format("moe.dense_layers to {}", found.first_layer));
  if (changes.empty()) return {};
  return fmt::format(
      "{}: there is no tensor '{}', which the model needs; the file has {}, and {}norms of queries and keys: "
      "set {}",
      file.spec(), needed,
      found.experts > 0
          ? fmt::format("{} from layer {} on", base::count(found.experts, "expert", "experts"), found.first_layer)
          : "no experts",
      found.norms ? "" : "no ", fmt::join(changes, " and "));
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
        "table, and so tie_word_embeddings in a config.json beside the file, or check the group or file of "
        "model.init_file",
        file.spec(), needed);
  return why_no_experts(file, needed, model);
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
      "set model.tie_embeddings to false, and so tie_word_embeddings in a config.json beside the file, to train the "
      "head by itself, or give a copy of the file without it";
  const std::vector<std::int64_t>& shape = file.shape(kHead);
  if (shape != file.shape(table))
    base::fail(ExitCode::deck, "{}: '{}' has shape ({}) and '{}' has ({}), but model.tie_embeddings = true: {}",
               file.spec(), kHead, fmt::join(shape, ", "), table, fmt::join(file.shape(table), ", "), kRemedy);
  const std::int64_t rows = shape[0], cols = shape[1];
  const std::int64_t rows_at_once = std::clamp<std::int64_t>(kComparedPanel / cols, 1, rows);
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

/// For an error: the deck's keys on which it depends whether the model has a tensor of this name.
std::string_view keys_of_missing(std::string_view name) {
  if (is_norm_of_heads(name)) return "model.qk_norm";
  if (is_of_experts(name)) return "moe.experts, moe.dense_layers and model.qk_norm";
  return "model.arch, model.layers and model.tie_embeddings";
}

/// For an error: the remedy for a tensor whose `shape` in the file is not the one that the model needs, `source`. For
/// tensors of experts and norms of heads these are the deck's keys with the values that the file has, for others it is
/// the group model as a whole.
std::string remedy_of_shape(const std::vector<std::int64_t>& shape, const SourceBox& source, bool vector) {
  const std::string_view name = source.name;
  const bool is_down = name.ends_with("down_proj.weight") || name.ends_with("w2.weight");
  std::vector<std::string> keys;  // of each dimension
  if (is_norm_of_heads(name))
    keys = {"model.head_dim"};
  else if (is_of_experts(name) && name.ends_with("gate.weight"))
    keys = {"moe.experts", "model.hidden"};
  else if (is_of_experts(name))
    keys = is_down ? std::vector<std::string>{"model.hidden", "moe.ffn"}
                   : std::vector<std::string>{"moe.ffn", "model.hidden"};
  if (keys.size() != shape.size() || vector != (keys.size() == 1)) return "check the model group of the deck";
  const std::array<std::int64_t, 2> needed{source.stored_rows(), source.stored_cols()};
  std::vector<std::string> changes;
  for (std::size_t d = 0; d < keys.size(); ++d)
    if (shape[d] != needed[d]) changes.push_back(fmt::format("{} to {}", keys[d], shape[d]));
  return fmt::format("set {}", fmt::join(changes, " and "));
}

}  // namespace

std::string name_in(const io::TensorFile& file, const SourceBox& source, bool vector) {
  std::string name = found_name(file, source.name);
  if (!file.contains(name))
    base::fail(ExitCode::deck,
               "{}: there is no tensor '{}', which the model needs: check {}, or the group or file of model.init_file",
               file.spec(), name, keys_of_missing(name));
  const auto& shape = file.shape(name);
  if (!fits(shape, name, source, vector))
    base::fail(ExitCode::deck, "{}: tensor '{}' has shape ({}), the model needs ({}{}): {}", file.spec(), name,
               fmt::join(shape, ", "), source.stored_rows(), vector ? "" : ", " + std::to_string(source.stored_cols()),
               remedy_of_shape(shape, source, vector));
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
  if (!dropped.empty()) {
    const bool norms = !is_gpt2(model) && !model.qk_norm && std::ranges::all_of(dropped, is_norm_of_heads);
    base::fail(ExitCode::deck,
               "{}: has {} that a {} does not have and that would be dropped: {}: {}use weights of a plain {}, or a "
               "copy of the file without {} if the other weights do not need {}",
               file.spec(), base::count(static_cast<std::int64_t>(dropped.size()), "tensor", "tensors"),
               architecture_of(model).model_type, listed(dropped), norms ? "set model.qk_norm to true, or " : "",
               architecture_of(model).model_type, dropped.size() == 1 ? "it" : "them",
               dropped.size() == 1 ? "it" : "them");
  }
  check_tied_head(file, model);
  return others;
}

}  // namespace shard8::model
