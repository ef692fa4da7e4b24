// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "fsdp/weight_store.hpp"
#include "tests/fsdp/stores.hpp"

namespace shard8::tests {

/// The pieces or the tensors of a pass.
template <class Copies>
const auto& of(const Copies& copies, fsdp::Pass pass) {
  return pass == fsdp::Pass::forward ? copies.forward : copies.backward;
}

/// The bytes of every piece, different for every element and step. Writes them into shards and, as hooks, into gather
/// buffers, and checks what kernels would read. They are no numbers of the piece's dtype, because gathers move bytes.
class PieceContents {
 public:
  explicit PieceContents(Units& units) : units_(units) {}

  int step = 0;
  /// By unit: the parameters that each hook was given.
  std::map<int, std::set<int>> before, after;
  /// By unit: how often `before` was called.
  std::map<int, int> gathers;

  /// Writes the stored shards, and the masters that kernels read in place. Hooks write the rest.
  void write_shards() const {
    const auto& buffers = units_.buffers;
    for (int u = 0; u < static_cast<int>(buffers.units().size()); ++u) {
      for (int p = 0; p < count(u); ++p) {
        const auto& pieces = buffers.pieces(u, p);
        const fsdp::CopyTensors& stored = buffers.stored(u)[index(p)];
        if (pieces.source == fsdp::Source::in_place && stored.forward.empty())
          write_own({{buffers.master(u)[index(p)]}, {}}, u, p);
        write_own(stored, u, p);
      }
    }
  }

  fsdp::GatherHooks hooks() {
    fsdp::GatherHooks hooks;
    hooks.before = [this](int u, std::span<const fsdp::GatherHooks::Own> own) {
      ++gathers[u];
      for (const auto& [p, travel] : own) {
        before[u].insert(p);
        expect_copies(travel, units_.buffers.pieces(u, p).travel, u);
        write_own(travel, u, p);
      }
    };
    hooks.after = [this](int u, std::span<const fsdp::GatherHooks::Arrived> arrived) {
      for (const auto& [p, travel, compute] : arrived) {
        after[u].insert(p);
        const auto& pieces = units_.buffers.pieces(u, p);
        expect_copies(travel, pieces.travel, u);
        expect_copies(compute, pieces.compute, u);
        for (const auto pass : {fsdp::Pass::forward, fsdp::Pass::backward}) {
          expect(of(travel, pass), {u, p, pass, false}, of(pieces.travel, pass), false);
          write(of(compute, pass), {u, p, pass, true}, of(pieces.compute, pass), 0, units_.buffers.layout(u, p).rows);
        }
      }
    };
    return hooks;
  }

  /// Checks a unit in use in `pass`: all bytes, and that only the expected copies are gathered.
  void expect_unit(const fsdp::GatheredUnit& unit, int u, fsdp::Pass pass) const {
    EXPECT_TRUE(unit.stamp.current());
    ASSERT_EQ(static_cast<int>(unit.parameters.size()), count(u));
    for (int p = 0; p < count(u); ++p) {
      SCOPED_TRACE(fmt::format("step {}, unit {}, parameter {}, in {}", step, u, p,
                               pass == fsdp::Pass::forward ? "forward" : "backward"));
      const auto& pieces = units_.buffers.pieces(u, p);
      const fsdp::Gathered& got = unit[index(p)];
      const fsdp::Copies& copies = pieces.converted() ? pieces.compute : pieces.travel;
      for (const auto copy : {fsdp::Pass::forward, fsdp::Pass::backward}) {
        const bool expected = !pieces.two() || !rotates(u) || copy == pass;
        ASSERT_EQ(of(got, copy).empty(), !expected);
        if (!expected) {
          EXPECT_THROW(got.of(copy), base::Error);
          continue;
        }
        const auto source = pieces.two() ? copy : fsdp::Pass::forward;
        expect(got.of(copy), {u, p, source, pieces.converted()}, of(copies, source),
               units_.buffers.units()[index(u)].parameters[index(p)].vector);
      }
    }
  }

  bool rotates(int u) const { return units_.buffers.gather().own_slot(u) < 0; }

 private:
  struct Place {
    int unit, parameter;
    fsdp::Pass pass;
    bool compute;  ///< a piece of `compute`, not of `travel`
  };
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int count(int u) const { return static_cast<int>(units_.buffers.units()[index(u)].parameters.size()); }

  std::byte content(const Place& at, std::size_t piece, std::int64_t i) const {
    std::uint64_t x = 0;
    for (const std::uint64_t part :
         {static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(at.unit),
          static_cast<std::uint64_t>(at.parameter), static_cast<std::uint64_t>(at.pass),
          static_cast<std::uint64_t>(at.compute), static_cast<std::uint64_t>(piece), static_cast<std::uint64_t>(i)})
      x = (x ^ (part + 1)) * 0x9e3779b97f4a7c15u + (x >> 29);
    return static_cast<std::byte>(x >> 40);
  }

  /// Writes the items of rows [first, ...) of a parameter of `rows` rows; zeros after its last row.
  void write(const std::vector<tensor::Tensor>& tensors, const Place& at, const std::vector<fsdp::Piece>& pieces,
             std::int64_t first, std::int64_t rows) const {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto row = pieces[i].cols * static_cast<std::int64_t>(tensor::size_of(pieces[i].dtype));
      const std::int64_t begin = first / pieces[i].row_block * row, end = rows / pieces[i].row_block * row;
      for (std::int64_t b = 0; b < static_cast<std::int64_t>(tensors[i].bytes()); ++b)
        tensors[i].data[b] = begin + b < end ? content(at, i, begin + b) : std::byte{0};
    }
  }
  void write_own(const fsdp::CopyTensors& own, int u, int p) const {
    const auto& layout = units_.buffers.layout(u, p);
    const auto& travel = units_.buffers.pieces(u, p).travel;
    for (const auto pass : {fsdp::Pass::forward, fsdp::Pass::backward}) {
      for (std::size_t i = 0; i < of(own, pass).size(); ++i)
        ASSERT_EQ(of(own, pass)[i].rows(), layout.rows_per_shard / of(travel, pass)[i].row_block);
      write(of(own, pass), {u, p, pass, false}, of(travel, pass),
            layout.first_row(units_.mesh.place[base::Axis::shard]), layout.rows);
    }
  }

  /// Checks the number of copies: of two copies a gather into a rotating slot brings one, any other gather both.
  void expect_copies(const fsdp::CopyTensors& tensors, const fsdp::Copies& copies, int u) const {
    const std::size_t given = (tensors.forward.empty() ? 0u : 1u) + (tensors.backward.empty() ? 0u : 1u);
    EXPECT_EQ(given, copies.two() && !rotates(u) ? 2u : 1u) << "unit " << u;
  }

  void expect(const std::vector<tensor::Tensor>& got, const Place& at, const std::vector<fsdp::Piece>& pieces,
              bool vector) const {
    if (got.empty()) return;
    ASSERT_EQ(got.size(), pieces.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::int64_t items = units_.buffers.layout(at.unit, at.parameter).rows / pieces[i].row_block;
      ASSERT_EQ(to_string(got[i].shape),
                to_string(vector ? tensor::Shape{items} : tensor::Shape{items, pieces[i].cols}));
      ASSERT_EQ(got[i].dtype, pieces[i].dtype);
      for (std::int64_t b = 0; b < static_cast<std::int64_t>(got[i].bytes()); ++b)
        ASSERT_EQ(got[i].data[b], content(at, i, b)) << "step " << step << ", unit " << at.unit << ", parameter "
                                                     << at.parameter << ", piece " << i << ", byte " << b;
    }
  }

  Units& units_;
};

}  // namespace shard8::tests
