// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "machine/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "base/text.hpp"
#include "deck/number.hpp"

namespace shard8::machine {
namespace {

using deck::kMostInteger;
using operation::Format;
using operation::Product;
using tensor::DType;
using tensor::Scaling;

constexpr std::array kProductKinds = {Product::Kind::fprop, Product::Kind::dgrad, Product::Kind::wgrad};
constexpr std::array kDTypes = {DType::fp32, DType::bf16, DType::e4m3, DType::e5m2};
constexpr std::array kScalings = {Scaling::none,     Scaling::tensor, Scaling::row_128,  Scaling::column_128,
                                  Scaling::tile_128, Scaling::row_32, Scaling::column_32};
constexpr std::array kOps = {profile::Collective::all_gather, profile::Collective::reduce_scatter,
                             profile::Collective::all_reduce, profile::Collective::all_to_all,
                             profile::Collective::send_receive};
constexpr std::string_view kDirections[] = {"forward", "backward"};
constexpr std::string_view kAnyOrder = "any-order";
constexpr std::string_view kTransposed = "^T";
constexpr std::string_view kGroups = "groups=";

template <class T, std::size_t n>
std::array<std::string_view, n> names_of(const std::array<T, n>& values) {
  std::array<std::string_view, n> names;
  for (std::size_t i = 0; i < n; ++i) names[i] = name_of(values[i]);
  return names;
}

/// The words of a row's name, one after the other.
class Words {
 public:
  Words(std::string_view name, std::vector<WrongWord>& wrong) : name_(name), wrong_(wrong) {
    for (std::size_t at = 0; at < name.size();) {
      const std::size_t begin = name.find_first_not_of(' ', at);
      if (begin == std::string_view::npos) break;
      const std::size_t end = std::min(name.find(' ', begin), name.size());
      words_.push_back(name.substr(begin, end - begin));
      at = end;
    }
  }

  /// Whether there are so many words. Adds an error if not.
  bool count(Table table, std::size_t least, std::size_t most) {
    if (words_.size() >= least && words_.size() <= most) return true;
    const Group& group = group_of(table);
    const std::string_view example = group.examples.front();
    wrong_.push_back({0, name_.size(),
                      fmt::format("'{}' is no row of group '{}': it has {}", base::quotable(name_), group.name,
                                  base::count(static_cast<std::int64_t>(words_.size()), "word", "words")),
                      fmt::format("expected {}, as in '{}'", group.form, example.substr(0, example.find(':')))});
    return false;
  }

  std::string_view next() { return next_ < words_.size() ? words_[next_++] : std::string_view(); }

  void error(std::string_view part, std::string message, std::string hint) {
    wrong_.push_back(
        {static_cast<std::size_t>(part.data() - name_.data()), part.size(), std::move(message), std::move(hint)});
  }

  /// The value of `values` that has the name `part`. `what` is the noun for messages.
  template <class T, std::size_t n>
  T one_of(std::string_view part, const char* what, const std::array<T, n>& values) {
    const auto names = names_of(values);
    return values[index_of(part, what, names)];
  }

  std::size_t index_of(std::string_view part, const char* what, std::span<const std::string_view> names) {
    const auto at = std::find(names.begin(), names.end(), part);
    if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
    const auto near = deck::nearest(part, names);
    error(part, fmt::format("unknown {} '{}'", what, base::quotable(part)),
          fmt::format("{}expected {}", near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                      deck::list_of(names)));
    return 0;
  }

  std::int64_t integer(std::string_view part, const char* what, std::int64_t least) {
    const auto parsed = deck::parse_integer(part);
    if (parsed.value && *parsed.value >= least && *parsed.value <= kMostInteger) return *parsed.value;
    error(part, fmt::format("{} '{}' is no integer from {} to {}", what, base::quotable(part), least, kMostInteger),
          parsed.why);
    return least;
  }

  /// The integers of "AxBxC".
  template <std::size_t n>
  std::array<std::int64_t, n> extents(std::string_view part, const char* form, std::int64_t least = 1) {
    std::array<std::int64_t, n> values;
    values.fill(least);
    if (static_cast<std::size_t>(std::count(part.begin(), part.end(), 'x')) != n - 1) {
      error(part, fmt::format("'{}' is not {}", base::quotable(part), form),
            fmt::format("expected {} with an x between them", base::count(n, "integer", "integers")));
      return values;
    }
    for (std::int64_t& value : values) {
      const auto end = std::min(part.find('x'), part.size());
      const std::string_view digits = part.substr(0, end);
      const auto parsed = deck::parse_integer(digits);
      if (parsed.value && *parsed.value >= least && *parsed.value <= kMostInteger)
        value = *parsed.value;
      else if (digits.empty())
        error(part, fmt::format("an integer is missing in {}", form), {});
      else
        integer(digits, "extent", least);
      part.remove_prefix(std::min(end + 1, part.size()));
    }
    return values;
  }

  std::uint64_t bytes(std::string_view part) {
    const auto plain = deck::parse_unsigned(part);
    if (plain.value && *plain.value > 0 && *plain.value < 1000000000000000000) return *plain.value;
    const auto sized = deck::parse_size(part);
    if (sized.value) return *sized.value;
    error(part, fmt::format("'{}' is no number of bytes", base::quotable(part)),
          "expected an integer from 1, or a size as in 1MiB");
    return 1;
  }

  Format format(std::string_view part) {
    Format format;
    if (part.ends_with(kTransposed)) {
      format.transposed = true;
      part.remove_suffix(kTransposed.size());
    }
    const std::size_t slash = part.find('/');
    const std::size_t errors = wrong_.size();
    format.dtype = one_of(part.substr(0, slash), "dtype", kDTypes);
    if (slash == std::string_view::npos) return format;
    const std::string_view scaling = part.substr(slash + 1);
    format.scaling = scaling.empty() ? missing_scaling(part) : one_of(scaling, "scaling", kScalings);
    if (wrong_.size() == errors && format.scaling != Scaling::none && tensor::size_of(format.dtype) > 1)
      error(part, fmt::format("{} has no scales", tensor::name_of(format.dtype)), "only e4m3 and e5m2 have");
    return format;
  }

 private:
  Scaling missing_scaling(std::string_view part) {
    const auto names = names_of(kScalings);
    error(part, "a scaling is missing behind '/'", fmt::format("expected {}", deck::list_of(names)));
    return Scaling::none;
  }

  std::string_view name_;
  std::vector<WrongWord>& wrong_;
  std::vector<std::string_view> words_;
  std::size_t next_ = 0;
};

Row product_row(Words& words) {
  ProductTime row;
  Product& p = row.product;
  p.kind = words.one_of(words.next(), "kind of product", kProductKinds);
  p.left = words.format(words.next());
  p.right = words.format(words.next());
  std::string_view out = words.next();
  p.accumulate = out.ends_with('+');
  if (p.accumulate) out.remove_suffix(1);
  p.out = words.one_of(out, "dtype", kDTypes);
  const auto [m, n, k] = words.extents<3>(words.next(), "MxNxK");
  p.rows = m;
  p.cols = n;
  p.inner = k;
  if (std::string_view groups = words.next(); !groups.empty()) {
    if (groups.starts_with(kGroups) && groups.size() > kGroups.size())
      p.groups = words.integer(groups.substr(kGroups.size()), "number of groups", 2);
    else
      words.error(groups, fmt::format("'{}' is no number of groups", base::quotable(groups)), "expected groups=G");
  }
  return row;
}

Row attention_row(Words& words) {
  AttentionTime row;
  row.attention.backward = words.index_of(words.next(), "direction", kDirections) == 1;
  row.attention.dtype = words.one_of(words.next(), "dtype", std::array{DType::fp32, DType::bf16});
  const std::string_view extents = words.next();
  const auto [batch, seq, heads, kv, dim] = words.extents<5>(extents, "BATCHxSEQxHEADSxKV_HEADSxHEAD_DIM");
  row.attention.shape = {batch, seq, heads, kv, dim};
  if (heads % kv != 0) words.error(extents, fmt::format("{} heads are no multiple of {} heads of keys", heads, kv), {});
  if (const std::string_view order = words.next(); !order.empty()) {
    words.index_of(order, "word", std::array{kAnyOrder});
    row.attention.shape.deterministic = false;
  }
  return row;
}

Row kernel_row(Words& words) {
  KernelTime row;
  const std::string_view name = words.next();
  const bool letters = std::all_of(name.begin(), name.end(),
                                   [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
  if (!letters)
    words.error(name, fmt::format("'{}' is no kernel", base::quotable(name)),
                "names have lower-case letters, digits and _; 'any' stands for every kernel");
  row.name = name;
  row.bytes = words.bytes(words.next());
  return row;
}

Row collective_row(Words& words, bool network) {
  CollectiveTime row;
  row.op = words.one_of(words.next(), "collective", kOps);
  const std::string_view ranks = words.next();
  if (network) {
    const auto [nodes, per_node] = words.extents<2>(ranks, "NODESxRANKS");
    if (nodes < 2)
      words.error(ranks, "a collective over nodes has at least 2 of them", "node_collectives has the others");
    row.nodes = static_cast<int>(nodes);
    row.ranks = static_cast<int>(per_node);
  } else {
    row.ranks = static_cast<int>(words.integer(ranks, "number of ranks", 2));
  }
  row.bytes = words.bytes(words.next());
  return row;
}

std::string text_of(const Format& format) {
  std::string text(tensor::name_of(format.dtype));
  if (format.scaling != Scaling::none) text += fmt::format("/{}", tensor::name_of(format.scaling));
  return format.transposed ? text.append(kTransposed) : text;
}

}  // namespace

Row parse_row(Table table, std::string_view name, std::vector<WrongWord>& wrong) {
  Words words(name, wrong);
  switch (table) {
    case Table::products:
      return words.count(table, 5, 6) ? product_row(words) : ProductTime{};
    case Table::attention:
      return words.count(table, 3, 4) ? attention_row(words) : AttentionTime{};
    case Table::node_collectives:
    case Table::network_collectives:
      return words.count(table, 3, 3) ? collective_row(words, table == Table::network_collectives) : CollectiveTime{};
    case Table::kernels:
    case Table::sources:
    case Table::none:
      break;
  }
  return words.count(table, 2, 2) ? kernel_row(words) : KernelTime{};
}

std::string row_name(const ProductTime& row) {
  const Product& p = row.product;
  return fmt::format("{} {} {} {}{} {}x{}x{}{}", name_of(p.kind), text_of(p.left), text_of(p.right),
                     tensor::name_of(p.out), p.accumulate ? "+" : "", p.rows, p.cols, p.inner,
                     p.groups > 1 ? fmt::format(" {}{}", kGroups, p.groups) : std::string());
}

std::string row_name(const AttentionTime& row) {
  const auto& s = row.attention.shape;
  return fmt::format("{} {} {}x{}x{}x{}x{}{}{}", kDirections[row.attention.backward ? 1 : 0],
                     tensor::name_of(row.attention.dtype), s.batch, s.seq, s.heads, s.kv_heads, s.head_dim,
                     s.deterministic ? "" : " ", s.deterministic ? "" : kAnyOrder);
}

std::string row_name(const KernelTime& row) { return fmt::format("{} {}", row.name, row.bytes); }

std::string row_name(const CollectiveTime& row) {
  const std::string nodes = row.nodes > 1 ? fmt::format("{}x", row.nodes) : "";
  return fmt::format("{} {}{} {}", profile::name_of(row.op), nodes, row.ranks, row.bytes);
}

}  // namespace shard8::machine
