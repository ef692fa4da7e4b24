// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/weight_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "base/error.hpp"

namespace shard8::model {

using base::ExitCode;

namespace {

constexpr std::string_view kPrefix = "transformer.";

/// Whether a tensor of the file has the source's shape.
bool fits(const std::vector<std::int64_t>& shape, const std::string& name, const SourceBox& source, bool vector) {
  const std::int64_t rows = source.stored_rows(), cols = source.stored_cols();
  const bool positions = name.ends_with("wpe.weight");
  if (vector) return shape.size() == 1 && shape[0] == rows;
  return shape.size() == 2 && (positions ? shape[0] >= rows : shape[0] == rows) && shape[1] == cols;
}

/// The number of layers that the file has names of: 1 + the highest number behind "model.layers." or "h.".
std::int64_t layers_in(const io::TensorFile& file, deck::Arch arch) {
  const std::string_view before = arch == deck::Arch::llama ? "model.layers." : "h.";
  std::int64_t layers = 0;
  for (const std::string& full : file.names()) {
    std::string_view name = full;
    if (arch == deck::Arch::gpt2 && name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    if (!name.starts_with(before)) continue;
    name.remove_prefix(before.size());
    std::int64_t layer = 0;
    const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), layer);
    if (status == std::errc() && end != name.data() + name.size() && *end == '.') layers = std::max(layers, layer + 1);
  }
  return layers;
}

}  // namespace

std::string name_in(const io::TensorFile& file, const SourceBox& source, bool vector) {
  std::string name = source.name;
  if (!file.contains(name) && name.starts_with(kPrefix) && file.contains(name.substr(kPrefix.size())))
    name = name.substr(kPrefix.size());
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
  return name;
}

void check_tensors(const io::TensorFile& file, const deck::ModelConfig& model) {
  std::string first;
  std::set<std::string> wrong;
  for (const UnitSpec& unit : make_units(model, 1, 0)) {
    for (const ParameterSpec& parameter : unit.parameters) {
      for (const SourceBox& source : parameter.sources) {
        try {
          name_in(file, source, parameter.vector);
        } catch (const base::Error& error) {
          if (wrong.empty()) first = error.what();
          wrong.insert(source.name);
        }
      }
    }
  }
  if (!wrong.empty())
    base::fail(ExitCode::deck, "{}{}", first,
               wrong.size() == 1 ? "" : fmt::format(" ({} tensors in all do not fit)", wrong.size()));
  const std::int64_t layers = layers_in(file, model.arch);
  if (layers > model.layers)
    base::fail(ExitCode::deck, "{}: has {} layers, but model.layers = {}: set model.layers to {}", file.spec(), layers,
               model.layers, layers);
}

}  // namespace shard8::model
