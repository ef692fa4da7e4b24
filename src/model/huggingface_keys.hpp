// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "deck/config.hpp"

/// The keys of config.json, for the sources that write and read it.
namespace shard8::model {

using ConfigJson = nlohmann::ordered_json;

/// A value of the model under Hugging Face's name and the deck's.
struct ConfigEntry {
  const char* key;
  const char* deck_key;
  ConfigJson value;
  /// What Transformers takes if config.json lacks the key; null: the key is not compared then, since shapes of tensors
  /// show the value.
  ConfigJson fallback = nullptr;
  bool at_least = false;  ///< config.json's value may be larger
};
std::vector<ConfigEntry> config_entries(const deck::ModelConfig& model);

/// A value that shard8 computes with and no deck changes. It is the default of Transformers: config.json may lack it,
/// or say null.
struct FixedEntry {
  const char* key;
  ConfigJson value;
};
std::vector<FixedEntry> fixed_entries(const deck::ModelConfig& model);

/// A value as messages show it.
std::string shown(const ConfigJson& value);

/// Whether a value of config.json is that of the model. Numbers are compared as fp32, since models compute with that.
bool fits(const ConfigJson& theirs, const ConfigJson& ours, bool at_least);

}  // namespace shard8::model
