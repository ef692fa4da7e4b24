// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/calibrate_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "bench/calibrate.hpp"
#include "machine/fields.hpp"

namespace shard8::bench {

using machine::CollectiveTime;

bool contradict(const CollectiveTime& a, const CollectiveTime& b) {
  if (kind_of_row(a) != kind_of_row(b) || a.bytes == b.bytes) return false;
  return a.bytes < b.bytes ? b.seconds < 0.5 * a.seconds : a.seconds < 0.5 * b.seconds;
}

int add_collective_rows(std::vector<CollectiveTime>& to, const std::vector<CollectiveTime>& rows) {
  int wrong = 0;
  for (const CollectiveTime& row : rows) {
    const auto same = [&](const CollectiveTime& other) {
      return kind_of_row(other) == kind_of_row(row) && other.bytes == row.bytes;
    };
    if (std::any_of(to.begin(), to.end(), same)) continue;
    if (std::any_of(to.begin(), to.end(), [&](const CollectiveTime& other) { return contradict(other, row); }))
      ++wrong;
    else
      to.push_back(row);
  }
  return wrong;
}

namespace {

/// The number of a file's rows that a machine has already: of the same product, or of the same collective, ranks and
/// bytes.
int known_rows(const machine::Machine& in, const ImportedRows& rows) {
  const auto count = [](const auto& mine, const auto& theirs, const auto& same) {
    return std::count_if(theirs.begin(), theirs.end(), [&](const auto& row) {
      return std::any_of(mine.begin(), mine.end(), [&](const auto& m) { return same(m, row); });
    });
  };
  const auto known =
      count(in.products, rows.products,
            [](const auto& a, const auto& b) { return WorkKey::of(a.product) == WorkKey::of(b.product); }) +
      count(in.collectives, rows.collectives,
            [](const auto& a, const auto& b) { return kind_of_row(a) == kind_of_row(b) && a.bytes == b.bytes; });
  return static_cast<int>(known);
}

/// Adds the rows of tables whose keys are not there. `source_of` gives a row's source in `to`.
template <class Rows, class SourceOf>
std::vector<std::string> add_tables(machine::Machine& to, const Rows& from, const std::string& name,
                                    const SourceOf& source_of) {
  const auto rows = [&](auto& mine, const auto& theirs, const auto& same) {
    const auto own = static_cast<std::ptrdiff_t>(mine.size());
    for (auto row : theirs) {
      const auto is_same = [&](const auto& m) { return same(m, row); };
      if (std::any_of(mine.begin(), mine.begin() + own, is_same)) continue;
      row.source = source_of(row);
      row.line = 0;
      mine.push_back(row);
    }
  };
  rows(to.products, from.products,
       [](const auto& a, const auto& b) { return WorkKey::of(a.product) == WorkKey::of(b.product); });
  if constexpr (requires { from.attention; }) {
    rows(to.attention, from.attention,
         [](const auto& a, const auto& b) { return WorkKey::of(a.attention) == WorkKey::of(b.attention); });
    rows(to.kernels, from.kernels, [](const auto& a, const auto& b) { return a.name == b.name && a.bytes == b.bytes; });
  }
  std::vector<CollectiveTime> further = from.collectives;
  for (CollectiveTime& row : further) {
    row.source = source_of(row);
    row.line = 0;
  }
  const int wrong = add_collective_rows(to.collectives, further);
  if (wrong == 0) return {};
  return {fmt::format("{}: {} left out: of two, the larger would take less than half the time of the smaller", name,
                      base::count(wrong, "collective was", "collectives were"))};
}

}  // namespace

std::vector<std::string> add_imported(machine::Machine& to, const ImportedRows& imported) {
  const std::string name = imported.file.substr(imported.file.find_last_of('/') + 1);
  const int source = to.add_source(machine::Source::Kind::imported, "import", name);
  std::vector<std::string> remarks;
  if (const int known = known_rows(to, imported); known > 0)
    remarks.push_back(fmt::format("{}: {} left out: measured here, or in a file that was imported before",
                                  imported.file, base::count(known, "row was", "rows were")));
  for (std::string& remark : add_tables(to, imported, imported.file, [&](const auto&) { return source; }))
    remarks.push_back(std::move(remark));
  return remarks;
}

std::vector<std::string> add_base(machine::Machine& to, const machine::Machine& base) {
  const auto source_of = [&](int theirs) {
    const machine::Source& s = base.sources.at(static_cast<std::size_t>(theirs));
    return to.add_source(s.kind, s.name, s.text);
  };
  const auto figure = [&](machine::Figure& mine, const machine::Figure& theirs) {
    if (!mine.given() && theirs.given()) mine = {theirs.value, source_of(theirs.source), 0};
  };
  // A job may see a part of a node only. The base's times of collectives are of the whole one.
  if (to.device && base.node_devices.value > to.node_devices.value) to.node_devices = to.node_cores = {};
  for (const machine::Group& group : machine::all_groups())
    for (const machine::Field& field : group.fields)
      if (const auto* number = std::get_if<machine::Number>(&field.value)) figure(number->of(to), number->of(base));
  if (to.note.empty()) to.note = base.note;
  return add_tables(to, base, base.path, [&](const auto& row) { return source_of(row.source); });
}

}  // namespace shard8::bench
