// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/reading.hpp"

#include <fmt/format.h>

#include <vector>

#include "deck/convert.hpp"
#include "deck/fields.hpp"
#include "deck/nearest.hpp"

namespace shard8::deck {
namespace {

std::vector<std::string_view> group_names() {
  std::vector<std::string_view> names;
  for (const Group& group : all_groups()) names.push_back(group.name);
  return names;
}

// "'tensor' is a key of group 'mesh'", or nothing.
std::string other_home(std::string_view key) {
  for (const Group& group : all_groups()) {
    if (find_field(group, key) != nullptr) {
      return fmt::format("'{}' is a key of group '{}'", key, group.name);
    }
  }
  return {};
}

// Returns what was meant, or nothing.
std::string unknown(Diagnostics& errors, const Token& name, const std::string& what,
                    const std::vector<std::string_view>& names, std::string_view all) {
  const std::string near(nearest(name.text, names));
  std::string hint = other_home(name.text);
  if (!near.empty()) {
    hint = fmt::format("did you mean '{}'?", near);
  } else if (hint.empty()) {
    hint = fmt::format("{} are {}", all, list_of(names, "and"));
  }
  errors.error(name.where, what, hint);
  return near;
}

void unknown_group(Diagnostics& errors, Reading& reading, const Token& name) {
  reading.misspelt.insert(unknown(errors, name, fmt::format("unknown group '{}'", name.text), group_names(), "groups"));
}

void unknown_key(Diagnostics& errors, Reading& reading, const Group& group, const Token& key) {
  std::vector<std::string_view> names;
  for (const Field& field : group.fields) names.push_back(field.key);
  const std::string meant =
      unknown(errors, key, fmt::format("unknown key '{}' in group '{}'", key.text, group.name), names, "its keys");
  reading.misspelt.insert(fmt::format("{}.{}", group.name, meant));
}

}  // namespace

void read_fields(Diagnostics& errors, Reading& reading, const RawDeck& deck) {
  for (const RawGroup& raw : deck.groups) {
    const Group* group = find_group(raw.name.text);
    if (group == nullptr) {
      unknown_group(errors, reading, raw.name);
      continue;
    }
    reading.groups.emplace(raw.name.text, raw.name.where);
    if (raw.has_value) {
      errors.error(raw.name.where, fmt::format("group '{}' has a value", group->name),
                   "its keys go on lines of their own below it, indented");
    }
    for (const RawEntry& entry : raw.entries) {
      const Field* field = find_field(*group, entry.key.text);
      if (field == nullptr) {
        unknown_key(errors, reading, *group, entry.key);
        continue;
      }
      const std::string path = fmt::format("{}.{}", group->name, field->key);
      reading.values[path] = entry.value.where;
      Problem problem;
      if (entry.state == RawEntry::State::missing) {
        problem = {path + " has no value", "expected " + expected(*field)};
      } else if (entry.state == RawEntry::State::given) {
        problem = convert(reading.config, *field, path, entry.value, deck.text_needs_quotes);
      }
      const bool taken = problem.message.empty();
      if (!taken) errors.error(entry.value.where, problem.message, problem.hint);
      if (!taken || entry.state == RawEntry::State::rejected) reading.broken.insert(path);
    }
  }
}

void check_required(Diagnostics& errors, Reading& reading) {
  for (const Group& group : all_groups()) {
    const auto at = reading.groups.find(group.name);
    const bool there = at != reading.groups.end();
    std::vector<std::string_view> missing;
    for (const Field& field : group.fields) {
      const std::string path = fmt::format("{}.{}", group.name, field.key);
      if (!field.required || reading.given(path)) continue;
      reading.broken.insert(path);
      const std::string_view meant = there ? path : group.name;
      if (reading.misspelt.find(meant) == reading.misspelt.end()) missing.push_back(field.key);
    }
    if (missing.empty()) continue;
    const bool one = missing.size() == 1;
    errors.error(there ? at->second : Span{},
                 there ? fmt::format("{} missing in group '{}'", one ? "a key is" : "keys are", group.name)
                       : fmt::format("group '{}' is missing", group.name),
                 fmt::format("{} must be given, {} no default", list_of(missing, "and"), one ? "it has" : "they have"));
  }
}

}  // namespace shard8::deck
