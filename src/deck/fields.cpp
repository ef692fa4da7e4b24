// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/fields.hpp"

#include <array>
#include <stdexcept>
#include <string>

#include "deck/field_tables.hpp"

namespace shard8::deck {

std::span<const Group> all_groups() {
  static const std::array<Group, 10> groups = {{
      {"model", "The transformer that is trained.", model_fields()},
      {"mesh", "How ranks are laid out: replicate * shard * tensor of them.", mesh_fields()},
      {"precision", "Number formats.", precision_fields()},
      {"fp8", "8-bit products: QKV, proj, fc1 and fc2 of the layers.", fp8_fields()},
      {"fsdp", "The life of sharded weights.", fsdp_fields()},
      {"optimizer", "AdamW and the learning rate.", optimizer_fields()},
      {"data", "What is read, and how much of it in a step.", data_fields()},
      {"run", "How long, and what is printed on the way.", run_fields()},
      {"verify", "What the end of a run is held against.", verify_fields()},
      {"output", "What a run writes.", output_fields()},
  }};
  return groups;
}

const Group* find_group(std::string_view name) {
  for (const Group& group : all_groups()) {
    if (group.name == name) return &group;
  }
  return nullptr;
}

const Field* find_field(const Group& group, std::string_view key) {
  for (const Field& field : group.fields) {
    if (field.key == key) return &field;
  }
  return nullptr;
}

const Field& field_at(std::string_view path) {
  const auto dot = path.find('.');
  const Group* group = find_group(path.substr(0, dot));
  const Field* field = nullptr;
  if (group != nullptr && dot != std::string_view::npos) {
    field = find_field(*group, path.substr(dot + 1));
  }
  if (field == nullptr) throw std::logic_error("no key '" + std::string(path) + "' in the deck");
  return *field;
}

}  // namespace shard8::deck
