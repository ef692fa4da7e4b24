// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.hpp"

namespace shard8::deck {
namespace {

constexpr std::size_t kMostShown = 50;
constexpr std::size_t kWidest = 200;  // characters of a line or message, before and after a place

// What a terminal can show: other control characters than tabs become '?'.
std::string printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) c = '?';
  }
  return text;
}

std::string shortened(const std::string& text) {
  return text.size() <= 2 * kWidest ? text : text.substr(0, 2 * kWidest) + "...";
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// As wide as the given text on a terminal: tabs stay, a UTF-8 character is one column.
std::string blank_like(std::string_view text) {
  std::string blank;
  for (const char c : text) {
    if (!continues_character(c)) blank += c == '\t' ? '\t' : ' ';
  }
  return blank;
}

}  // namespace

int Diagnostics::add_source(Source source) {
  sources_.push_back(std::move(source));
  return static_cast<int>(sources_.size()) - 1;
}

Diagnostics::Entry Diagnostics::entry_of(Span where, std::string message, std::string hint) {
  return {where, shortened(printable(std::move(message))), printable(std::move(hint))};
}

void Diagnostics::error(Span where, std::string message, std::string hint) {
  entries_.push_back(entry_of(where, std::move(message), std::move(hint)));
}

void Diagnostics::warning(Span where, std::string message, std::string hint) {
  warnings_.push_back(entry_of(where, std::move(message), std::move(hint)));
}

std::vector<std::string> Diagnostics::warnings() const {
  std::vector<std::string> texts;
  for (const Entry& entry : warnings_) texts.push_back(render(entry, "warning"));
  return texts;
}

std::string Diagnostics::render(const Entry& entry, std::string_view kind) const {
  const Span& at = entry.where;
  const Source& from = source(at.source);
  std::string out = from.numbered ? fmt::format("{}:{}:{}", from.name, at.line, at.column) : from.name;
  out += fmt::format(": {}: {}", kind, entry.message);
  const auto row = static_cast<std::size_t>(at.line - 1);
  if (at.length == 0 || row >= from.lines.size()) {
    return out + (entry.hint.empty() ? "" : "; " + entry.hint) + '\n';
  }
  std::string line = printable(from.lines[row]);
  auto before = std::min(static_cast<std::size_t>(at.column - 1), line.size());
  if (before > kWidest) {
    line = "..." + line.substr(before - kWidest);
    before = kWidest + 3;
  }
  line = shortened(line);
  std::string caret = blank_like(std::string_view(line).substr(before, static_cast<std::size_t>(at.length)));
  caret.assign(std::max<std::size_t>(caret.size(), 1), '~');
  caret[0] = '^';
  out += fmt::format("\n{:>5} | {}\n      | {}{}", from.numbered ? std::to_string(at.line) : "", line,
                     blank_like(std::string_view(line).substr(0, before)), caret);
  return out + (entry.hint.empty() ? "" : "  " + entry.hint) + '\n';
}

std::string Diagnostics::text() const {
  std::vector<Entry> sorted = entries_;
  const auto key = [](const Entry& e) { return std::tie(e.where.source, e.where.line, e.where.column); };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Entry& a, const Entry& b) { return key(a) < key(b); });
  std::vector<std::string> shown;
  for (const Entry& entry : sorted) {
    std::string one = render(entry, "error");
    if (std::find(shown.begin(), shown.end(), one) == shown.end()) shown.push_back(std::move(one));
  }
  std::string all;
  for (std::size_t i = 0; i < std::min(shown.size(), kMostShown); ++i) all += shown[i];
  if (shown.size() > kMostShown) {
    all += fmt::format("and {} more errors\n", shown.size() - kMostShown);
  }
  if (!all.empty()) all.pop_back();
  return all;
}

void Diagnostics::throw_if_any() const {
  if (!empty()) throw base::Error(base::ExitCode::deck, text());
}

}  // namespace shard8::deck
