// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "machine/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "deck/load.hpp"
#include "deck/number.hpp"
#include "deck/raw_deck.hpp"
#include "machine/fields.hpp"

namespace shard8::machine {
namespace {

using deck::RawEntry;
using deck::RawGroup;
using deck::Span;
using deck::Token;

constexpr double kLongest = 1e12;  // microseconds of a row: eleven days
constexpr const char* kTime = "expected microseconds, a real number > 0";

/// Reads what the front end found into a Machine, and adds an error for everything that cannot be read.
class Reader {
 public:
  Reader(deck::Diagnostics& errors, const deck::RawDeck& deck)
      : errors_(errors), deck_(deck), sources_(errors, machine.sources) {}

  /// Whether the file says a version of the format that can be read.
  bool version() {
    for (const RawGroup& group : deck_.groups)
      for (const RawEntry& entry : group.entries) {
        if (group.name.text != "machine" || entry.key.text != "format" || entry.state != RawEntry::State::given)
          continue;
        const auto number = deck::parse_integer(entry.value.text);
        if (!number.value || *number.value == kFormat) continue;
        errors_.error(entry.value.where, fmt::format("format {} of machine files is not known", *number.value),
                      fmt::format("this version of shard8 reads format {}: take the one that wrote the file, or "
                                  "calibrate again",
                                  kFormat));
        return false;
      }
    return true;
  }

  void read() {
    for (const RawGroup& raw : deck_.groups)
      if (raw.name.text == group_of(Table::sources).name) sources_.read(raw);
    for (const RawGroup& raw : deck_.groups) {
      const Group* const group = find_group(raw.name.text);
      if (group == nullptr) {
        unknown_group(raw.name);
        continue;
      }
      found_.emplace(group->name);
      if (raw.has_value)
        errors_.error(raw.name.where, fmt::format("group '{}' has a value", group->name),
                      "its keys go on lines of their own below it, indented");
      if (group->table != Table::sources) read_group(*group, raw);
    }
    if (deck_.complete) check_required();
  }

  Machine machine;
  Places places;

 private:
  void unknown_group(const Token& name) {
    std::vector<std::string_view> names;
    for (const Group& group : all_groups()) names.push_back(group.name);
    misspelt_.insert(deck::unknown_name(errors_, name, fmt::format("unknown group '{}'", base::quotable(name.text)),
                                        names, "groups"));
  }

  void read_group(const Group& group, const RawGroup& raw) {
    std::optional<int> source;
    for (const RawEntry& entry : raw.entries)
      if (group.sourced && entry.key.text == kSource)
        source = has_value(errors_, entry, "expected the name of one of the group 'sources'")
                     ? sources_.find(entry.value)
                     : -1;
    for (const RawEntry& entry : raw.entries) {
      if (group.sourced && entry.key.text == kSource) continue;
      if (group.table != Table::none)
        read_row(group, entry, source);
      else
        read_field(group, entry, source);
    }
    std::vector<std::string_view> missing;
    for (const Field& field : group.fields)
      if (field.required && !given_.contains(fmt::format("{}.{}", group.name, field.key))) missing.push_back(field.key);
    if (missing.empty()) return;
    const bool one = missing.size() == 1;
    errors_.error(raw.name.where, fmt::format("{} missing in group '{}'", one ? "a key is" : "keys are", group.name),
                  fmt::format("{} must be given", deck::list_of(missing, "and")));
  }

  /// A real number in the unit 10^power, or an error.
  std::optional<double> real(const Token& value, const std::string& path, int power, const deck::Bounds& bounds,
                             const std::string& hint) {
    if (!plain(value, path, hint)) return {};
    const auto in_file = deck::parse_real(value.text);
    const auto number = deck::parse_scaled(value.text, power);
    if (!number.value || !in_file.value) {
      const std::string& why = in_file.value ? number.why : in_file.why;
      return wrong(value,
                   fmt::format("{} = {} is not a real number{}{}", path, base::quotable(value.text),
                               why.empty() ? "" : ": ", why),
                   hint);
    }
    if (!bounds.hold(*in_file.value))
      return wrong(value, fmt::format("{} = {} is out of bounds", path, value.text), hint);
    return number.value;
  }

  bool plain(const Token& value, const std::string& path, const std::string& hint) {
    if (value.quoted)
      errors_.error(value.where, fmt::format("{} = '{}' is a quoted text", path, base::quotable(value.text)),
                    hint + ", without quotes");
    return !value.quoted;
  }

  std::nullopt_t wrong(const Token& value, const std::string& message, const std::string& hint) {
    errors_.error(value.where, message, hint);
    return std::nullopt;
  }

  void read_row(const Group& group, const RawEntry& entry, std::optional<int> of_group) {
    if (const std::string_view source_key = kSource; !deck::nearest(entry.key.text, {&source_key, 1}).empty()) {
      deck::unknown_name(errors_, entry.key, fmt::format("unknown key '{}'", base::quotable(entry.key.text)),
                         {&source_key, 1}, "keys");
      return;
    }
    std::vector<WrongWord> wrong_words;
    const Row row = parse_row(group.table, entry.key.text, wrong_words);
    for (const WrongWord& word : wrong_words)
      errors_.error(part_of(entry.key, word.at, word.size).where, word.message, word.hint);
    if (!has_value(errors_, entry, kTime)) return;
    int source = -1;
    const Token value = sources_.without_source(group, entry, of_group, source);
    const auto seconds = real(value, "time", -6, {.low = 0, .high = kLongest, .open_low = true}, kTime);
    if (!wrong_words.empty() || !seconds) return;
    std::visit(
        [&](auto one) {
          one.seconds = *seconds;
          one.source = source;
          one.line = entry.key.where.line;
          add(std::move(one), entry.key.where);
        },
        row);
  }

  void add(ProductTime row, Span where) { add_to(machine.products, places.products, std::move(row), where); }
  void add(AttentionTime row, Span where) { add_to(machine.attention, places.attention, std::move(row), where); }
  void add(KernelTime row, Span where) { add_to(machine.kernels, places.kernels, std::move(row), where); }
  void add(CollectiveTime row, Span where) { add_to(machine.collectives, places.collectives, std::move(row), where); }

  template <class T>
  static void add_to(std::vector<T>& rows, std::vector<Span>& spans, T row, Span where) {
    rows.push_back(std::move(row));
    spans.push_back(where);
  }

  void read_field(const Group& group, const RawEntry& entry, std::optional<int> of_group) {
    const auto at = std::find_if(group.fields.begin(), group.fields.end(),
                                 [&](const Field& field) { return field.key == entry.key.text; });
    if (at == group.fields.end()) return unknown_key(group, entry.key);
    const std::string path = fmt::format("{}.{}", group.name, at->key);
    given_.insert(path);
    places.figures[path] = entry.value.where;
    const std::string hint = "expected " + expected(*at);
    const bool may_be_empty = std::holds_alternative<Text>(at->value) && !at->required;
    if (may_be_empty ? entry.state != RawEntry::State::given : !has_value(errors_, entry, hint)) return;
    std::visit([&](const auto& value) { set(value, group, *at, entry, of_group, path, hint); }, at->value);
  }

  void unknown_key(const Group& group, const Token& key) {
    std::vector<std::string_view> names;
    if (group.sourced) names.push_back(kSource);
    for (const Field& field : group.fields) names.push_back(field.key);
    std::string home;
    for (const Group& other : all_groups())
      for (const Field& field : other.fields)
        if (field.key == key.text && home.empty())
          home = fmt::format("'{}' is a key of group '{}'", field.key, other.name);
    const std::string meant = deck::unknown_name(
        errors_, key, fmt::format("unknown key '{}' in group '{}'", base::quotable(key.text), group.name), names,
        "its keys", home);
    given_.insert(fmt::format("{}.{}", group.name, meant));
  }

  void set(const Number& number, const Group& group, const Field&, const RawEntry& entry, std::optional<int> of_group,
           const std::string& path, const std::string& hint) {
    Figure figure;
    const Token value = sources_.without_source(group, entry, of_group, figure.source);
    figure.line = entry.key.where.line;
    if (number.unit.size) {
      if (!plain(value, path, hint)) return;
      const auto size = deck::parse_size(value.text);
      if (!size.value || !number.bounds.hold(static_cast<double>(*size.value))) {
        errors_.error(value.where,
                      fmt::format("{} = {} is not a size that a device has{}{}", path, base::quotable(value.text),
                                  size.why.empty() ? "" : ": ", size.why),
                      hint);
        return;
      }
      figure.value = static_cast<double>(*size.value);
    } else {
      if (number.integer && plain(value, path, hint)) {
        const auto integer = deck::parse_integer(value.text);
        if (!integer.value) {
          errors_.error(value.where,
                        fmt::format("{} = {} is not an integer{}{}", path, base::quotable(value.text),
                                    integer.why.empty() ? "" : ": ", integer.why),
                        hint);
          return;
        }
      }
      const auto read = real(value, path, number.unit.power, number.bounds, hint);
      if (!read) return;
      figure.value = *read;
    }
    number.of(machine) = figure;
  }

  void set(const Text& text, const Group&, const Field&, const RawEntry& entry, std::optional<int>,
           const std::string& path, const std::string&) {
    if (is_text(errors_, entry.value, path)) machine.*text.member = entry.value.text;
  }

  void set(const Either& either, const Group&, const Field&, const RawEntry& entry, std::optional<int>,
           const std::string& path, const std::string&) {
    const auto at = std::find(either.names.begin(), either.names.end(), entry.value.text);
    if (at == either.names.end())
      deck::unknown_name(errors_, entry.value,
                         fmt::format("unknown choice '{}' for {}", base::quotable(entry.value.text), path),
                         either.names, "choices");
    else
      machine.*either.member = at == either.names.begin() + 1;
    if (either.given != nullptr) machine.*either.given = true;
  }

  void set(const Version&, const Group&, const Field&, const RawEntry& entry, std::optional<int>,
           const std::string& path, const std::string& hint) {
    if (!plain(entry.value, path, hint)) return;
    if (!deck::parse_integer(entry.value.text).value)
      errors_.error(entry.value.where, fmt::format("{} = {} is not an integer", path, base::quotable(entry.value.text)),
                    hint);
  }

  void check_required() {
    for (const Group& group : all_groups())
      if (group.required && !found_.contains(group.name) && !misspelt_.contains(group.name))
        errors_.error(Span{}, fmt::format("group '{}' is missing", group.name),
                      "'shard8 deck --machine' prints a file to be filled in");
  }

  deck::Diagnostics& errors_;
  const deck::RawDeck& deck_;
  SourceReader sources_;
  std::set<std::string, std::less<>> found_, misspelt_;  // groups
  std::set<std::string, std::less<>> given_;             // "group.key"
};

void refuse_a_deck(const deck::RawDeck& raw, const std::string& name) {
  bool model = false;
  for (const RawGroup& group : raw.groups) {
    if (group.name.text == "machine") return;
    model = model || group.name.text == "model";
  }
  if (model)
    base::fail(base::ExitCode::deck,
               "{}: error: this is a deck of a training, not a machine file; 'shard8 deck --machine' prints one to be "
               "filled in",
               name);
}

}  // namespace

Machine read_text(std::string_view text, const std::string& name) {
  deck::require_text(text, name, "machine file");
  deck::Diagnostics errors;
  const int source = errors.add_source({name, deck::split_lines(text)});
  const deck::RawDeck raw = deck::read_yaml(errors, source, std::string(text));
  refuse_a_deck(raw, name);
  Reader reader(errors, raw);
  if (!reader.version()) errors.throw_if_any();
  reader.read();
  check_together(errors, reader.machine, reader.places);
  errors.throw_if_any();
  reader.machine.path = name;
  sort_rows(reader.machine);
  return std::move(reader.machine);
}

Machine read(const std::string& path) { return read_text(deck::read_text_file(path, "machine file"), path); }

}  // namespace shard8::machine
