// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <string>
#include <vector>

#include "deck/number.hpp"

namespace shard8::deck {
namespace {

bool is_finite(double bound) { return bound - bound == 0.0; }

// The text in single quotes; quotes in the text are doubled. YAML and namelists both read this form.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += c;
    out += c;
  }
  return out + "'";
}

constexpr std::size_t kLongestName = 64;

bool same(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_up, up, row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_up = std::move(up);
    up = row;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t cost = same(a[i - 1], b[j - 1]) ? 0 : 1;
      row[j] = std::min({up[j] + 1, row[j - 1] + 1, up[j - 1] + cost});
      const bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swapped) row[j] = std::min(row[j], two_up[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string text_of(const Bounds& bounds) {
  if (is_finite(bounds.low) && is_finite(bounds.high) && !bounds.open_low && !bounds.open_high) {
    return fmt::format("{} from {} to {}", bounds.or_zero ? ", 0 or" : "", bounds.low, bounds.high);
  }
  std::string text;
  if (is_finite(bounds.low)) text += fmt::format(" {} {}", bounds.open_low ? ">" : ">=", bounds.low);
  if (is_finite(bounds.high)) {
    text += fmt::format("{} {} {}", text.empty() ? "" : " and", bounds.open_high ? "<" : "<=", bounds.high);
  }
  return text;
}

std::span<const Group> all_groups() {
  static const std::array<Group, 13> groups = {{
      {"model", "The transformer that is trained.", model_fields()},
      {"moe", "Experts in place of feed-forward blocks.", moe_fields()},
      {"mesh", "How replicate * shard * tensor ranks are laid out.", mesh_fields()},
      {"precision", "Number formats.", precision_fields()},
      {"fp8", "8-bit products: QKV, proj, fc1 and fc2 of the layers.", fp8_fields()},
      {"fsdp", "When sharded weights are gathered, and in which dtype.", fsdp_fields()},
      {"overlap",
       "Which exchanges of tokens are overlapped with matrix products. direct: a product of each rank's "
       "tokens runs as soon as they arrive. pipeline: each rank's tokens leave as soon as their product is done. ring, "
       "on hosts: tokens or partial sums pass from neighbour to neighbour. bulk: during the product that the key "
       "names. "
       "auto: the run times off and the first other method, and keeps the faster.",
       overlap_fields()},
      {"optimizer", "AdamW and the learning rate.", optimizer_fields()},
      {"data", "What is read, and how many sequences a step takes.", data_fields()},
      {"run", "How long the run trains, and when it stops.", run_fields()},
      {"checkpoint", "What a run saves, and where it restarts.", checkpoint_fields()},
      {"verify", "What the losses of a run are compared with.", verify_fields()},
      {"output", "What a run writes. Names of files may not contain '/'.", output_fields()},
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

std::string list_of(std::span<const std::string_view> names, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : fmt::format(" {} ", last);
    text += names[i];
  }
  return text;
}

std::string expected(const Field& field) {
  const std::string bounds = text_of(field.bounds);
  const Bounds& b = field.bounds;
  if (field.access.index() == 0 && b.low == 1 && !b.open_low && !is_finite(b.high)) return "a positive integer";
  if (field.access.index() == 2 && b.low > 0)
    return fmt::format("{}a positive number from {} to {}", b.or_zero ? "0 or " : "", b.low, b.high);
  switch (field.access.index()) {
    case 0:
      return "an integer" + bounds + (field.automatic ? ", or auto" : "");
    case 1:
      return "an unsigned integer";
    case 2:
      return "a real number" + bounds;
    case 3:
      return "true or false";
    case 4:
      return field.not_empty ? "a text, not empty" : "a text";
    default:
      return list_of(std::get<ChoiceAccess>(field.access).names);
  }
}

std::string required_text(const Field& field) {
  return field.instead.empty() ? "required" : fmt::format("required without {}", field.instead);
}

std::string value_text(const Field& field, const Config& config) {
  // The table's functions return references that are not const, so they get a copy of the Config.
  Config copy = config;
  return std::visit(
      [&](const auto& get) -> std::string {
        using T = std::remove_cvref_t<decltype(get)>;
        if constexpr (std::is_same_v<T, ChoiceAccess>) {
          return std::string(get.names[static_cast<std::size_t>(get.get(config))]);
        } else if constexpr (std::is_same_v<T, Access<double>>) {
          return format_real(get(copy));
        } else {
          const auto& value = get(copy);
          if constexpr (std::is_same_v<T, Access<std::int64_t>>)
            if (field.automatic && value == MeshConfig::kAuto) return "auto";
          return fmt::format("{}", value);
        }
      },
      field.access);
}

std::string spelled(const Field& field, const Config& config, Spelling spelling) {
  const std::string value = value_text(field, config);
  const bool text = std::holds_alternative<Access<std::string>>(field.access);
  const bool choice = std::holds_alternative<ChoiceAccess>(field.access);
  const bool word = choice || (field.automatic && value == "auto");
  return text || (word && spelling == Spelling::namelist) ? quoted(value) : value;
}

std::string default_text(const Field& field) {
  if (!field.default_note.empty()) return std::string(field.default_note);
  return spelled(field, Config{}, Spelling::yaml);
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.size() > kLongestName) return {};
  std::string_view best;
  std::size_t least = kLongestName;
  for (const std::string_view candidate : candidates) {
    const std::size_t far = distance(word, candidate);
    if (far < least && 3 * far <= std::max(word.size(), candidate.size())) {
      least = far;
      best = candidate;
    }
  }
  return best;
}

}  // namespace shard8::deck
