// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "machine/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/text.hpp"
#include "deck/load.hpp"
#include "deck/number.hpp"
#include "deck/raw_deck.hpp"
#include "machine/checks.hpp"
#include "machine/fields.hpp"
#include "machine/rows.hpp"

namespace shard8::machine {
namespace {

using deck::RawEntry;
using deck::RawGroup;
using deck::Span;
using deck::Token;

constexpr double kLongest = 1e12;  // microseconds of a row: eleven days
constexpr const char* kTime = "expected microseconds, a real number > 0";

/// A part of a token, as a token of its own. Messages show its place.
Token part_of(const Token& token, std::size_t at, std::size_t size) {
  Token part{token.text.substr(at, size), token.quoted, token.where};
  part.where.column += static_cast<int>(at) + (token.quoted ? 1 : 0);
  part.where.length = std::max(static_cast<int>(part.text.size()), 1);
  return part;
}

std::string_view without_blanks(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// Reads what the front end found into a Machine, and adds an error for everything that cannot be read.
class Reader {
 public:
  Reader(deck::Diagnostics& errors, const deck::RawDeck& deck) : errors_(errors), deck_(deck) {}

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
      if (raw.name.text == group_of(Table::sources).name) read_sources(raw);
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

  /// Adds an error if there is no value. Returns whether there is one.
  bool has_value(const RawEntry& entry, const std::string& hint) {
    if (entry.state == RawEntry::State::missing || (entry.state == RawEntry::State::given && entry.value.text.empty()))
      errors_.error(entry.value.where, fmt::format("'{}' has no value", base::quotable(entry.key.text)), hint);
    return entry.state == RawEntry::State::given && !entry.value.text.empty();
  }

  bool is_text(const Token& value, std::string_view what) {
    const bool control = std::any_of(value.text.begin(), value.text.end(),
                                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
    if (control) errors_.error(value.where, fmt::format("{} has a control character in it", what), {});
    if (!base::is_utf8(value.text)) {
      errors_.error(value.where, fmt::format("{} is not UTF-8", what), "save the file as UTF-8");
      return false;
    }
    return !control;
  }

  void read_sources(const RawGroup& raw) {
    has_sources_ = true;
    constexpr auto kForm = "expected KIND: TEXT in quotes, as in 'measured: shard8 calibrate ...; card; date'";
    constexpr Source::Kind kKinds[] = {Source::Kind::measured, Source::Kind::imported, Source::Kind::datasheet,
                                       Source::Kind::chosen};
    std::vector<std::string_view> kinds;
    for (const auto kind : kKinds) kinds.push_back(name_of(kind));
    for (const RawEntry& entry : raw.entries) {
      const std::string& name = entry.key.text;
      Source source{name, Source::Kind::chosen, {}};
      const int index = static_cast<int>(machine.sources.size());
      const bool good = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
      });
      if (!good)
        errors_.error(entry.key.where, fmt::format("'{}' cannot be a source's name", base::quotable(name)),
                      "names have letters, digits, _ and -");
      machine.sources.push_back(source);  // entries that refer to it are right, whatever its text
      if (!has_value(entry, kForm) || !is_text(entry.value, "the source")) continue;
      const std::string& text = entry.value.text;
      const auto colon = text.find(':');
      const std::string_view rest =
          colon == std::string::npos ? "" : without_blanks(std::string_view(text).substr(colon + 1));
      if (rest.empty()) {
        errors_.error(entry.value.where, fmt::format("source '{}' has no kind and text", base::quotable(name)), kForm);
        continue;
      }
      const Token kind = part_of(entry.value, 0, colon);
      const auto at = std::find(kinds.begin(), kinds.end(), kind.text);
      if (at == kinds.end())
        deck::unknown_name(errors_, kind, fmt::format("unknown kind of source '{}'", base::quotable(kind.text)), kinds,
                           "kinds");
      else
        machine.sources[static_cast<std::size_t>(index)] = {name, kKinds[at - kinds.begin()], std::string(rest)};
    }
  }

  /// The index of a source, or -1 and an error.
  int source_of(const Token& name) {
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < machine.sources.size(); ++i) {
      if (machine.sources[i].name == name.text) return static_cast<int>(i);
      names.push_back(machine.sources[i].name);
    }
    if (!has_sources_) return -1;  // the missing group is an error of its own
    if (names.empty())
      errors_.error(name.where, fmt::format("unknown source '{}'", base::quotable(name.text)),
                    "the group 'sources' defines none");
    else
      deck::unknown_name(errors_, name, fmt::format("unknown source '{}'", base::quotable(name.text)), names,
                         "sources");
    return -1;
  }

  void read_group(const Group& group, const RawGroup& raw) {
    std::optional<int> source;
    for (const RawEntry& entry : raw.entries)
      if (group.sourced && entry.key.text == kSource)
        source = has_value(entry, "expected the name of one of the group 'sources'") ? source_of(entry.value) : -1;
    for (const RawEntry& entry : raw.entries) {
      if (group.sourced && entry.key.text == kSource) continue;
      if (group.table != Table::none)
        read_row(group, entry, source);
      else
        read_field(group, entry, source);
    }
    for (const Field& field : group.fields) {
      if (!field.required || given_.contains(fmt::format("{}.{}", group.name, field.key))) continue;
      errors_.error(raw.name.where, fmt::format("a key is missing in group '{}'", group.name),
                    fmt::format("{} must be given: {}, {}", field.key, field.help, expected(field)));
    }
  }

  /// Takes " @SOURCE" from the end of a value. Sets the source, the group's one if there is none at the end.
  Token without_source(const Group& group, const RawEntry& entry, std::optional<int> of_group, int& source) {
    const std::string_view text = entry.value.text;
    const auto at = text.rfind('@');
    source = of_group.value_or(-1);
    if (at != std::string_view::npos && at > 0 && text[at - 1] == ' ') {
      const std::string_view name = without_blanks(text.substr(at + 1));
      source = source_of(part_of(entry.value, static_cast<std::size_t>(name.data() - text.data()), name.size()));
      return part_of(entry.value, 0, without_blanks(text.substr(0, at)).size());
    }
    if (!of_group && has_sources_)
      errors_.error(entry.value.where, fmt::format("'{}' has no source", base::quotable(entry.key.text)),
                    fmt::format("write '@SOURCE' behind the value, or a key 'source' into group '{}'", group.name));
    return entry.value;
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
    std::vector<WrongWord> wrong_words;
    const Row row = parse_row(group.table, entry.key.text, wrong_words);
    for (const WrongWord& word : wrong_words)
      errors_.error(part_of(entry.key, word.at, word.size).where, word.message, word.hint);
    if (!has_value(entry, kTime)) return;
    int source = -1;
    const Token value = without_source(group, entry, of_group, source);
    const auto seconds = real(value, "the time", -6, {.low = 0, .high = kLongest, .open_low = true}, kTime);
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
    if (may_be_empty ? entry.state != RawEntry::State::given : !has_value(entry, hint)) return;
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
    const Token value = without_source(group, entry, of_group, figure.source);
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
    if (is_text(entry.value, path)) machine.*text.member = entry.value.text;
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
        errors_.error(Span{}, fmt::format("group '{}' is missing", group.name), std::string(group.help));
  }

  deck::Diagnostics& errors_;
  const deck::RawDeck& deck_;
  bool has_sources_ = false;
  std::set<std::string, std::less<>> found_, misspelt_;  // groups
  std::set<std::string, std::less<>> given_;             // "group.key"
};

}  // namespace

Machine read_text(std::string_view text, const std::string& name) {
  deck::require_text(text, name, "machine file");
  deck::Diagnostics errors;
  const int source = errors.add_source({name, deck::split_lines(text)});
  const deck::RawDeck raw = deck::read_yaml(errors, source, std::string(text));
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
