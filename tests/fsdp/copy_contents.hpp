// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "fsdp/weight_store.hpp"
#include "tests/fsdp/units.hpp"

namespace shard8::tests {

template <class Copies>
const auto& of(const Copies& copies, fsdp::Pass pass) {
  return pass == fsdp::Pass::forward ? copies.forward : copies.backward;
}

/// The bytes of every copy, different for every element and step. Writes them into shards and, as hooks, into gather
/// buffers, and checks what kernels would read. They are no numbers of the copy's dtype, because gathers move bytes.
class CopyContents {
 public:
  explicit CopyContents(Units& units) : units_(units) {}

  int step = 0;
  /// By unit: the parameters that each hook was given.
  std::map<int, std::set<int>> before, after;
  /// By unit: how often `before` was called.
  std::map<int, int> gathers;

  /// Writes the stored shards, and the masters that kernels read in place. Hooks write the rest.
  void write_shards() const {
    for (int u = 0; u < static_cast<int>(units_.buffers.units().size()); ++u) {
      for (int p = 0; p < count(u); ++p) {
        const fsdp::WeightForms& w = weight(u, p);
        const bool master = w.source == fsdp::Source::in_place && w.stored.empty();
        write_own(master ? fsdp::Copies{w.master, w.master} : w.stored, u, p);
      }
    }
  }

  fsdp::GatherHooks hooks() {
    fsdp::GatherHooks hooks;
    hooks.before = [this](int u, std::span<const fsdp::GatherHooks::Own> own) {
      ++gathers[u];
      for (const auto& [p, communicated] : own) {
        before[u].insert(p);
        expect_copies(communicated, weight(u, p).communicated, u);
        write_own(communicated, u, p);
      }
    };
    hooks.after = [this](int u, std::span<const fsdp::GatherHooks::Arrived> arrived) {
      for (const auto& [p, communicated, read] : arrived) {
        after[u].insert(p);
        const fsdp::WeightForms& w = weight(u, p);
        expect_copies(communicated, w.communicated, u);
        expect_copies(read, w.read, u);
        for (const auto pass : passes(w.communicated)) expect(of(communicated, pass), {u, p, pass, false});
        for (const auto pass : passes(w.read)) write(of(read, pass), {u, p, pass, true}, 0);
      }
    };
    return hooks;
  }

  /// Checks a unit in use in `pass`: all bytes, and that only the expected copies are gathered.
  void expect_unit(std::span<const fsdp::GatheredWeight> unit, int u, fsdp::Pass pass) const {
    ASSERT_EQ(static_cast<int>(unit.size()), count(u));
    for (int p = 0; p < count(u); ++p) {
      SCOPED_TRACE(fmt::format("step {}, unit {}, parameter {}, in {}", step, u, p,
                               pass == fsdp::Pass::forward ? "forward" : "backward"));
      const fsdp::WeightForms& w = weight(u, p);
      const fsdp::GatheredWeight& got = unit[index(p)];
      EXPECT_TRUE(got.stamp.current());
      for (const auto copy : {fsdp::Pass::forward, fsdp::Pass::backward}) {
        const bool expected = !w.read.two() || !rotates(u) || copy == pass;
        ASSERT_EQ(of(got, copy).empty(), !expected);
        if (!expected) continue;
        expect(of(got, copy), {u, p, w.read.two() ? copy : fsdp::Pass::forward, w.converted()});
        ASSERT_EQ(of(got, copy).data.shape.rank(), w.vector ? 1 : 2);
      }
    }
  }

  bool rotates(int u) const { return units_.buffers.gather().own_slot(u) < 0; }

 private:
  struct Place {
    int unit, parameter;
    fsdp::Pass pass;
    bool read;  ///< a converted copy, not what is communicated
  };
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int count(int u) const { return static_cast<int>(units_.buffers.units()[index(u)].parameters.size()); }
  const fsdp::WeightForms& weight(int u, int p) const { return units_.buffers.weights(u)[index(p)]; }
  /// One pass if one copy serves both, otherwise both.
  static std::vector<fsdp::Pass> passes(const fsdp::Formats& formats) {
    if (!formats.two()) return {fsdp::Pass::forward};
    return {fsdp::Pass::forward, fsdp::Pass::backward};
  }

  std::byte content(const Place& at, bool scale, std::int64_t i) const {
    std::uint64_t x = 0;
    for (const std::uint64_t part :
         {static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(at.unit),
          static_cast<std::uint64_t>(at.parameter), static_cast<std::uint64_t>(at.pass),
          static_cast<std::uint64_t>(at.read), static_cast<std::uint64_t>(scale), static_cast<std::uint64_t>(i)})
      x = (x ^ (part + 1)) * 0x9e3779b97f4a7c15u + (x >> 29);
    return static_cast<std::byte>(x >> 40);
  }

  static bool has_blocks(const tensor::Operand& copy) {
    return copy.scaling != tensor::Scaling::none && copy.scaling != tensor::Scaling::tensor;
  }

  /// Writes the rows [first, ...) of a parameter; zeros after its last row.
  void write(const tensor::Operand& copy, const Place& at, std::int64_t first) const {
    if (copy.empty()) return;
    const auto put = [&](const tensor::Tensor& t, bool scale) {
      const std::int64_t block = scale ? tensor::block_rows(copy.scaling) : 1;
      const auto row = static_cast<std::int64_t>(t.bytes()) / t.rows();
      const std::int64_t begin = first / block * row, end = weight(at.unit, at.parameter).layout.rows / block * row;
      for (std::int64_t b = 0; b < static_cast<std::int64_t>(t.bytes()); ++b)
        t.data[b] = begin + b < end ? content(at, scale, begin + b) : std::byte{0};
    };
    put(copy.data, false);
    if (has_blocks(copy)) put(copy.scale_inv, true);
  }
  void write_own(const fsdp::Copies& own, int u, int p) const {
    const fsdp::WeightForms& w = weight(u, p);
    for (const auto pass : passes(w.communicated)) {
      if (of(own, pass).empty()) continue;
      ASSERT_EQ(of(own, pass).rows(), w.layout.rows_per_shard);
      ASSERT_EQ(w.shard, units_.mesh.place[base::Axis::shard]);
      write(of(own, pass), {u, p, pass, false}, w.layout.first_row(w.shard));
    }
  }

  /// Checks the number of copies: of two copies a gather into a rotating slot brings one, any other gather both.
  void expect_copies(const fsdp::Copies& copies, const fsdp::Formats& formats, int u) const {
    EXPECT_FALSE(copies.empty());
    EXPECT_EQ(copies.two(), formats.two() && !rotates(u)) << "unit " << u;
  }

  /// Checks dtype, shape and bytes of a copy, and its scale if it has one.
  void expect(const tensor::Operand& got, const Place& at) const {
    if (got.empty()) return;
    const fsdp::WeightForms& w = weight(at.unit, at.parameter);
    const fsdp::Format& format = of(at.read ? w.read : w.communicated, at.pass);
    ASSERT_EQ(got.data.dtype, format.dtype);
    ASSERT_EQ(got.scaling, format.scaling);
    ASSERT_EQ(got.data.rows(), w.layout.rows);
    ASSERT_EQ(got.data.cols(), w.cols);
    const auto bytes = [&](const tensor::Tensor& t, bool scale) {
      for (std::int64_t b = 0; b < static_cast<std::int64_t>(t.bytes()); ++b)
        ASSERT_EQ(t.data[b], content(at, scale, b)) << "step " << step << ", unit " << at.unit << ", parameter "
                                                    << at.parameter << (scale ? ", scales" : "") << ", byte " << b;
    };
    bytes(got.data, false);
    if (format.scaling == tensor::Scaling::tensor) {
      ASSERT_EQ(got.scale_inv.data, w.scale_inv.data);
    }
    if (!has_blocks(got)) return;
    ASSERT_EQ(to_string(got.scale_inv.shape), to_string(tensor::scale_shape(format.scaling, w.layout.rows, w.cols)));
    ASSERT_EQ(got.scale_inv.dtype, tensor::scale_dtype(format.scaling));
    bytes(got.scale_inv, true);
  }

  Units& units_;
};

}  // namespace shard8::tests
