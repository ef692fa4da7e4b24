// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/calibrate_import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "bench/calibrate.hpp"
#include "kernels/elementwise.hpp"
#include "machine/fields.hpp"
#include "tensor/arena.hpp"
#include "tensor/transfer.hpp"

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

std::vector<machine::KernelTime> time_memory(const tensor::Exec& exec, std::uint64_t most) {
  using Clock = std::chrono::steady_clock;
  constexpr std::uint64_t kLeast = 65536, kFactor = 4;
  constexpr std::int64_t kColumns = 1024;
  constexpr int kBlocks = 5;
  constexpr double kBlock_s = 0.01;               // chosen: many calls, so that the device never waits for the host
  const auto rows_of = [](std::uint64_t bytes) {  // three matrices of bf16 are passed
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / (3 * 2 * kColumns)));
  };
  const std::int64_t most_rows = rows_of(most);
  tensor::Arena arena("memory", tensor::MemoryKind::buffers,
                      3 * (tensor::bytes_of(tensor::DType::bf16, most_rows * kColumns) + tensor::kAlignment));
  std::vector<tensor::Tensor> whole;
  for (int i = 0; i < 3; ++i) {
    whole.push_back(arena.allocate({most_rows, kColumns}, tensor::DType::bf16));
    kernels::fill_zero(exec, whole.back());
  }
  std::vector<machine::KernelTime> times;
  for (std::uint64_t bytes = kLeast; bytes <= most; bytes *= kFactor) {
    const std::int64_t rows = rows_of(bytes);
    const auto seconds_of = [&](int calls) {
      tensor::finish(exec);
      const auto begin = Clock::now();
      for (int i = 0; i < calls; ++i)
        kernels::residual_add(exec, whole[0].slice(0, rows), whole[1].slice(0, rows), whole[2].slice(0, rows), {});
      tensor::finish(exec);
      return std::chrono::duration<double>(Clock::now() - begin).count() / calls;
    };
    seconds_of(1);
    const int calls = std::clamp(static_cast<int>(kBlock_s / seconds_of(2)), 2, 2000);
    std::vector<double> blocks;
    for (int b = 0; b < kBlocks; ++b) blocks.push_back(seconds_of(calls));
    std::nth_element(blocks.begin(), blocks.begin() + kBlocks / 2, blocks.end());
    machine::KernelTime time;
    time.name = "any";
    time.bytes = static_cast<std::uint64_t>(rows * kColumns) * 6;
    time.seconds = blocks[kBlocks / 2];
    times.push_back(time);
  }
  return times;
}

}  // namespace shard8::bench
