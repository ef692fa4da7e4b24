// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "machine/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/text.hpp"
#include "deck/number.hpp"

namespace shard8::machine {
namespace {

using deck::RawEntry;
using deck::Token;

constexpr auto kSourceForm = "expected KIND: TEXT in quotes, as in 'measured: shard8 calibrate ...; card; date'";
constexpr Source::Kind kSourceKinds[] = {Source::Kind::measured, Source::Kind::imported, Source::Kind::datasheet,
                                         Source::Kind::chosen};

std::string_view without_blanks(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool is_letter_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

}  // namespace

Token part_of(const Token& token, std::size_t at, std::size_t size) {
  Token part{token.text.substr(at, size), token.quoted, token.where};
  part.where.column += static_cast<int>(at) + (token.quoted ? 1 : 0);
  part.where.length = std::max(static_cast<int>(part.text.size()), 1);
  return part;
}

bool has_value(deck::Diagnostics& errors, const RawEntry& entry, const std::string& hint) {
  const bool given = entry.state == RawEntry::State::given;
  if (entry.state == RawEntry::State::missing || (given && entry.value.text.empty()))
    errors.error(entry.value.where, fmt::format("'{}' has no value", base::quotable(entry.key.text)), hint);
  return given && !entry.value.text.empty();
}

bool is_text(deck::Diagnostics& errors, const Token& value, std::string_view what) {
  const bool control = std::any_of(value.text.begin(), value.text.end(), is_control);
  const bool utf8 = base::is_utf8(value.text);
  if (control) errors.error(value.where, fmt::format("{} has a control character in it", what), {});
  if (!utf8) errors.error(value.where, fmt::format("{} is not UTF-8", what), "save the file as UTF-8");
  return utf8 && !control;
}

void SourceReader::read(const deck::RawGroup& group) {
  any_ = !group.entries.empty();
  if (!any_ && !group.has_value) errors_.error(group.name.where, "group 'sources' defines no source", kSourceForm);
  for (const RawEntry& entry : group.entries) read_source(entry);
}

void SourceReader::read_source(const RawEntry& entry) {
  const std::string& name = entry.key.text;
  sources_.push_back({name, Source::Kind::chosen, {}});
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_letter_of_name))
    errors_.error(entry.key.where, fmt::format("'{}' cannot be a source's name", base::quotable(name)),
                  "names have letters, digits, _ and -");
  if (!has_value(errors_, entry, kSourceForm) || !is_text(errors_, entry.value, "the source")) return;
  const std::string_view text = entry.value.text;
  const auto colon = text.find(':');
  const std::string_view rest = colon == std::string_view::npos ? "" : without_blanks(text.substr(colon + 1));
  if (rest.empty()) {
    errors_.error(entry.value.where, fmt::format("source '{}' has no kind and text", base::quotable(name)),
                  kSourceForm);
    return;
  }
  const Token kind = part_of(entry.value, 0, colon);
  std::vector<std::string_view> kinds;
  for (const auto one : kSourceKinds) kinds.push_back(name_of(one));
  const auto at = std::find(kinds.begin(), kinds.end(), kind.text);
  if (at == kinds.end())
    deck::unknown_name(errors_, kind, fmt::format("unknown kind of source '{}'", base::quotable(kind.text)), kinds,
                       "kinds");
  else
    sources_.back() = {name, kSourceKinds[at - kinds.begin()], std::string(rest)};
}

int SourceReader::find(const Token& name) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].name == name.text) return static_cast<int>(i);
    names.push_back(sources_[i].name);
  }
  if (any_)
    deck::unknown_name(errors_, name, fmt::format("unknown source '{}'", base::quotable(name.text)), names, "sources");
  return -1;
}

Token SourceReader::without_source(const Group& group, const RawEntry& entry, std::optional<int> of_group,
                                   int& source) {
  const std::string_view text = entry.value.text;
  const auto at = text.rfind('@');
  source = of_group.value_or(-1);
  if (at != std::string_view::npos && at > 0 && text[at - 1] == ' ') {
    const std::string_view name = without_blanks(text.substr(at + 1));
    source = find(part_of(entry.value, static_cast<std::size_t>(name.data() - text.data()), name.size()));
    return part_of(entry.value, 0, without_blanks(text.substr(0, at)).size());
  }
  if (!of_group && any_)
    errors_.error(entry.value.where, fmt::format("'{}' has no source", base::quotable(entry.key.text)),
                  fmt::format("write '@SOURCE' behind the value, or a key 'source' into group '{}'", group.name));
  return entry.value;
}

namespace {

// Chosen: measured times have noise, and the smallest sizes are in caches.
constexpr double kFasterThanPeak = 1.05, kFasterThanMemory = 1.2, kFasterThanSmaller = 0.5;
constexpr std::uint64_t kBeyondCaches = std::uint64_t{256} << 20;

std::string microseconds(double seconds) { return deck::format_scaled(seconds, -6) + " us"; }

template <class T>
void check_twice(deck::Diagnostics& errors, const std::vector<T>& rows, const std::vector<deck::Span>& places) {
  std::map<std::string, int> lines;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string name = row_name(rows[i]);
    const auto [first, fresh] = lines.emplace(name, rows[i].line);
    if (!fresh)
      errors.error(places[i], fmt::format("the row '{}' stands here a second time", name),
                   fmt::format("the first is on line {}", first->second));
  }
}

void check_collectives(deck::Diagnostics& errors, const Machine& machine, const std::vector<deck::Span>& places) {
  const auto& rows = machine.collectives;
  const auto kind = [&](std::size_t i) { return std::tie(rows[i].nodes, rows[i].op, rows[i].ranks); };
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple_cat(kind(a), std::tie(rows[a].bytes, rows[a].line)) <
           std::tuple_cat(kind(b), std::tie(rows[b].bytes, rows[b].line));
  });
  const CollectiveTime* slowest = nullptr;  // of those with fewer bytes
  for (std::size_t n = 0; n < order.size(); ++n) {
    const CollectiveTime& row = rows[order[n]];
    if (n == 0 || kind(order[n]) != kind(order[n - 1])) slowest = nullptr;
    if (slowest != nullptr && slowest->bytes < row.bytes && row.seconds < kFasterThanSmaller * slowest->seconds)
      errors.error(
          places[order[n]],
          fmt::format("'{}' takes {}, less than half of the {} for {} bytes on line {}", row_name(row),
                      microseconds(row.seconds), microseconds(slowest->seconds), slowest->bytes, slowest->line),
          "one of the two is wrong: measure both again");
    if (slowest == nullptr || row.seconds > slowest->seconds) slowest = &row;
    if (machine.device && machine.node_devices.given() && row.ranks > machine.node_devices.value)
      errors.error(places[order[n]], fmt::format("{} ranks are on one node", row.ranks),
                   fmt::format("node.devices on line {} is {}", machine.node_devices.line, machine.node_devices.value));
  }
}

void check_products(deck::Diagnostics& errors, const Machine& machine, const std::vector<deck::Span>& places) {
  for (std::size_t i = 0; i < machine.products.size(); ++i) {
    const ProductTime& row = machine.products[i];
    const std::size_t bytes =
        std::min(tensor::size_of(row.product.left.dtype), tensor::size_of(row.product.right.dtype));
    const Figure& peak = machine.peak_of(bytes);
    const double rate = row.product.flops() / row.seconds;
    if (!peak.given() || rate <= kFasterThanPeak * peak.value) continue;
    errors.error(places[i],
                 fmt::format("'{}' in {} is {:.5g} TFLOP/s, more than the device's peak", row_name(row),
                             microseconds(row.seconds), rate / 1e12),
                 fmt::format("{} on line {} is {} TFLOP/s; times are in microseconds",
                             bytes == 1   ? "device.peak_fp8"
                             : bytes == 2 ? "device.peak_bf16"
                                          : "device.peak_fp32",
                             peak.line, deck::format_scaled(peak.value, 12)));
  }
}

void check_kernels(deck::Diagnostics& errors, const Machine& machine, const std::vector<deck::Span>& places) {
  if (!machine.bandwidth.given()) return;
  for (std::size_t i = 0; i < machine.kernels.size(); ++i) {
    const KernelTime& row = machine.kernels[i];
    const double rate = static_cast<double>(row.bytes) / row.seconds;
    if (row.bytes <= kBeyondCaches || rate <= kFasterThanMemory * machine.bandwidth.value) continue;
    errors.error(places[i],
                 fmt::format("'{}' in {} is {:.5g} GB/s, more than the device's memory has", row_name(row),
                             microseconds(row.seconds), rate / 1e9),
                 fmt::format("device.bandwidth on line {} is {} GB/s; times are in microseconds",
                             machine.bandwidth.line, deck::format_scaled(machine.bandwidth.value, 9)));
  }
}

}  // namespace

void check_together(deck::Diagnostics& errors, const Machine& machine, const Places& places) {
  check_twice(errors, machine.products, places.products);
  check_twice(errors, machine.attention, places.attention);
  check_twice(errors, machine.kernels, places.kernels);
  check_twice(errors, machine.collectives, places.collectives);
  check_products(errors, machine, places.products);
  check_kernels(errors, machine, places.kernels);
  check_collectives(errors, machine, places.collectives);
  if (machine.watts.given() && machine.watts_idle.given() && machine.watts_idle.value > machine.watts.value)
    errors.error(places.figures.at("device.watts_idle"),
                 fmt::format("device.watts_idle = {} is above device.watts", machine.watts_idle.value),
                 fmt::format("device.watts on line {} is {}", machine.watts.line, machine.watts.value));
}

}  // namespace shard8::machine
