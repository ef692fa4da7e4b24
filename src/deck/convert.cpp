// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/convert.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "deck/nearest.hpp"
#include "deck/number.hpp"

namespace shard8::deck {
namespace {

class Converter {
 public:
  Converter(Config& config, const Field& field, std::string_view path, const Token& word, bool text_needs_quotes)
      : config_(config), field_(field), path_(path), word_(word), strict_(text_needs_quotes) {}

  Problem operator()(Access<std::int64_t> member) {
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

}  // namespace

Problem convert(Config& config, const Field& field, std::string_view path, const Token& word, bool text_needs_quotes) {
  return std::visit(Converter(config, field, path, word, text_needs_quotes), field.slot);
}

}  // namespace shard8::deck
