// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/raw_deck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.hpp"
#include "deck/fields.hpp"
#include "deck/number.hpp"

namespace shard8::deck {
namespace {

/// The reason why a value is refused, and what is allowed. An empty message: the value was taken.
struct Problem {
  std::string message;
  std::string hint;
};

class Converter {
 public:
  Converter(Config& config, const Field& field, std::string_view path, const Token& word, bool text_needs_quotes)
      : config_(config), field_(field), path_(path), word_(word), strict_(text_needs_quotes) {}

  Problem operator()(Access<std::int64_t> member) {
    if (field_.automatic && word_.text == "auto") {
      if (strict_ && !word_.quoted) return needs_quotes();
      member(config_) = MeshConfig::kAuto;
      return {};
    }
    if (word_.quoted) return no_quotes();
    const auto parsed = parse_integer(word_.text);
    if (!parsed.value) return wrong_type("an integer", parsed.why);
    if (*parsed.value > kMostInteger) {
      return {fmt::format("{} = {} is too large", path_, word_.text), fmt::format("at most {}", kMostInteger)};
    }
    return assign(member, *parsed.value);
  }

  Problem operator()(Access<double> member) {
    if (word_.quoted) return no_quotes();
    const auto parsed = parse_real(word_.text);
    return parsed.value ? assign(member, *parsed.value) : wrong_type("a real number", parsed.why);
  }

  Problem operator()(Access<std::uint64_t> member) {
    if (word_.quoted) return no_quotes();
    const auto parsed = parse_unsigned(word_.text);
    if (!parsed.value) return wrong_type("an unsigned integer", parsed.why);
    member(config_) = *parsed.value;
    return {};
  }

  Problem operator()(Access<bool> member) {
    if (word_.quoted) return no_quotes();
    const auto parsed = parse_logical(word_.text);
    if (!parsed.value) return wrong_type("a logical value", parsed.why);
    member(config_) = *parsed.value;
    return {};
  }

  Problem operator()(Access<std::string> member) {
    if (strict_ && !word_.quoted) return needs_quotes();
    const bool control = std::any_of(word_.text.begin(), word_.text.end(),
                                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
    if (control) return {fmt::format("{} has a control character in it", path_), {}};
    if (!base::is_utf8(word_.text)) return {fmt::format("{} is not UTF-8", path_), "save the deck as UTF-8"};
    if (field_.not_empty && word_.text.empty()) {
      return {fmt::format("{} is empty", path_), "expected " + expected(field_)};
    }
    member(config_) = word_.text;
    return {};
  }

  Problem operator()(const ChoiceAccess& member) {
    if (strict_ && !word_.quoted) return needs_quotes();
    if (word_.text.empty()) return wrong_type({}, {});
    const auto at = std::find(member.names.begin(), member.names.end(), word_.text);
    if (at == member.names.end()) {
      const auto near = nearest(word_.text, member.names);
      return {
          fmt::format("unknown choice '{}' for {}", word_.text, path_),
          fmt::format("{}expected {}", near.empty() ? "" : fmt::format("did you mean '{}'? ", near), expected(field_))};
    }
    member.set(config_, static_cast<int>(at - member.names.begin()));
    return {};
  }

 private:
  template <class T>
  Problem assign(Access<T> member, T value) {
    if (!field_.bounds.hold(static_cast<double>(value))) {
      return {fmt::format("{} = {} is out of bounds", path_, word_.text), "expected " + expected(field_)};
    }
    member(config_) = value;
    return {};
  }

  Problem wrong_type(std::string_view type, const std::string& why) const {
    if (word_.text.empty()) {
      return {fmt::format("{} has no value", path_), "expected " + expected(field_)};
    }
    return {fmt::format("{} = {} is not {}{}{}", path_, word_.text, type, why.empty() ? "" : ": ", why),
            "expected " + expected(field_)};
  }

  Problem no_quotes() const {
    return {fmt::format("{} = '{}' is a quoted text", path_, word_.text),
            fmt::format("expected {}, without quotes", expected(field_))};
  }

  Problem needs_quotes() const {
    return {fmt::format("{} = {} is not quoted", path_, word_.text), "in a namelist texts and choices stand in quotes"};
  }

  Config& config_;
  const Field& field_;
  std::string_view path_;
  const Token& word_;
  bool strict_;
};

Problem convert(Config& config, const Field& field, std::string_view path, const Token& word, bool text_needs_quotes) {
  return std::visit(Converter(config, field, path, word, text_needs_quotes), field.access);
}

std::vector<std::string_view> group_names() {
  std::vector<std::string_view> names;
  for (const Group& group : all_groups()) names.push_back(group.name);
  return names;
}

// A hint such as "'tensor' is a key of group 'mesh'"; empty if no group has this key.
std::string other_home(std::string_view key) {
  for (const Group& group : all_groups()) {
    if (find_field(group, key) != nullptr) {
      return fmt::format("'{}' is a key of group '{}'", key, group.name);
    }
  }
  return {};
}

void unknown_group(Diagnostics& errors, Reading& reading, const Token& name) {
  reading.misspelt.insert(unknown_name(errors, name, fmt::format("unknown group '{}'", name.text), group_names(),
                                       "groups", other_home(name.text)));
}

void unknown_key(Diagnostics& errors, Reading& reading, const Group& group, const Token& key) {
  std::vector<std::string_view> names;
  for (const Field& field : group.fields) names.push_back(field.key);
  const std::string meant =
      unknown_name(errors, key, fmt::format("unknown key '{}' in group '{}'", key.text, group.name), names, "its keys",
                   other_home(key.text));
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
      if (!field.instead.empty() && reading.given(fmt::format("{}.{}", group.name, field.instead))) continue;
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
