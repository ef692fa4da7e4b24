// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// What is written is read back to the same machine, bit for bit.
#include <cmath>
#include <cstring>
#include <random>

#include "tests/machine/machines.hpp"

namespace shard8::machine {
namespace {

using operation::Product;
using tensor::DType;
using tensor::Scaling;

class RandomMachine {
 public:
  explicit RandomMachine(unsigned seed) : engine_(seed) {}

  Machine make() {
    Machine m;
    m.name = "it's a name: # @x";
    m.note = one_in(2) ? "" : "\xc3\xa9 'quoted' \"twice\"";
    m.device = one_in(2);
    m.device_name = one_in(2) ? "" : "card";
    m.copies_in_node = one_in(2);
    m.moved_by_given = m.copies_in_node || one_in(2);
    for (int i = 0; i < 4; ++i)
      m.sources.push_back({"s" + std::to_string(i), static_cast<Source::Kind>(i), "text: of 'it'"});
    for (const Group& group : all_groups())
      for (const Field& field : group.fields)
        if (const auto* number = std::get_if<Number>(&field.value); number != nullptr && !one_in(3))
          set(*number, number->of(m));
    m.peak_fp32 = m.peak_bf16 = m.peak_fp8 = m.bandwidth = m.watts = m.node_devices = {};  // nothing contradicts them
    for (int i = 0; i < 6; ++i) add_rows(m, i);
    sort_rows(m);
    return m;
  }

  bool one_in(int n) { return std::uniform_int_distribution<>(0, n - 1)(engine_) == 0; }
  /// Any bits of the mantissa.
  double real(double low, double high) {
    return std::exp(std::uniform_real_distribution<>(std::log(low), std::log(high))(engine_));
  }

 private:
  int source() { return std::uniform_int_distribution<>(0, 3)(engine_); }

  void set(const Number& number, Figure& figure) {
    const double unit = std::pow(10.0, number.unit.power);
    const double low = std::max(number.bounds.low, 1e-9), high = std::min(number.bounds.high, 1e15);
    figure.value = number.integer || number.unit.size ? std::floor(real(std::max(low, 2.0), high))
                                                      : real(low * 1.001, high * 0.999) * unit;
    if (one_in(20) && number.bounds.low == 0 && !number.bounds.open_low) figure.value = 0;
    figure.source = source();
  }

  template <class T>
  T timed(T row) {
    row.seconds = real(1e-9, 1e3);
    row.source = source();
    return row;
  }

  void add_rows(Machine& m, int i) {
    const auto scaling = static_cast<Scaling>(1 + i);
    ProductTime product;
    product.product.kind = static_cast<Product::Kind>(i % 3);
    product.product.rows = 8 + i;
    product.product.cols = 2147483647;
    product.product.inner = 1;
    product.product.left = {i % 2 == 0 ? DType::e4m3 : DType::e5m2, scaling, one_in(2)};
    product.product.right = {DType::bf16, Scaling::none, false};
    product.product.out = one_in(2) ? DType::fp32 : DType::bf16;
    product.product.accumulate = one_in(2);
    m.products.push_back(timed(product));
    AttentionTime attention;
    attention.attention = {i % 2 == 1, {1 + i, 128, 8, 2, 64, one_in(2)}, one_in(2) ? DType::fp32 : DType::bf16};
    m.attention.push_back(timed(attention));
    KernelTime kernel;
    kernel.name = i % 2 == 0 ? "any" : "rmsnorm_forward";
    kernel.bytes = std::uint64_t{1} << (3 * i);
    m.kernels.push_back(timed(kernel));
    CollectiveTime collective;
    collective.op = static_cast<profile::Collective>(i % 5);
    collective.nodes = 1 + (i % 2) * (1 + i);
    collective.ranks = 2 + i;
    collective.bytes = 999999999999999999u - static_cast<unsigned>(i);
    m.collectives.push_back(timed(collective));
  }

  std::mt19937_64 engine_;
};

TEST(RoundTrip, random_machines) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    const Machine machine = RandomMachine(seed).make();
    const std::string text = write(machine);
    Machine again;
    ASSERT_NO_THROW(again = read_text(text, "m.yaml")) << error_of(text) << '\n' << text;
    expect_same(machine, again);
    EXPECT_EQ(write(again), text);
    if (HasFailure()) FAIL() << "seed " << seed << '\n' << text;
  }
}

TEST(RoundTrip, lines_are_those_of_the_file) {
  const Machine m = read_text(
      "machine: {format: 1, name: x, kind: host}\nsources:\n  a: 'measured: x'\nkernels:\n  source: a\n  any 8: 1\n"
      "storage:\n  write: 1 @a\n",
      "m.yaml");
  EXPECT_EQ(m.path, "m.yaml");
  EXPECT_EQ(m.kernels.at(0).line, 6);
  EXPECT_EQ(m.write_bandwidth.line, 8);
  EXPECT_FALSE(m.device);
}

TEST(RoundTrip, rows_are_sorted_whatever_their_order) {
  const std::string head = "machine: {format: 1, name: x, kind: host}\nsources: {a: 'measured: x'}\n";
  const Machine m = read_text(head +
                                  "network_collectives:\n  source: a\n  all_gather 2x2 8: 3\n"
                                  "node_collectives:\n  source: a\n  all_reduce 2 8: 3\n  all_gather 2 16: 2\n"
                                  "  all_gather 2 8: 1\n",
                              "m.yaml");
  ASSERT_EQ(m.collectives.size(), 4u);
  EXPECT_EQ(row_name(m.collectives[0]), "all_gather 2 8");
  EXPECT_EQ(row_name(m.collectives[1]), "all_gather 2 16");
  EXPECT_EQ(row_name(m.collectives[2]), "all_reduce 2 8");
  EXPECT_EQ(row_name(m.collectives[3]), "all_gather 2x2 8");
}

TEST(RoundTrip, what_cannot_be_written) {
  Machine machine;
  EXPECT_THROW(write(machine), base::Error) << "no name";
  machine.name = "x";
  EXPECT_THROW(write(machine), base::Error) << "no source";
  machine.add_source(Source::Kind::chosen, "a", "guess");
  EXPECT_NO_THROW(write(machine));
  machine.note = "two\nlines";
  EXPECT_THROW(write(machine), base::Error);
  machine.note.clear();
  machine.watts = {700, 1, 0};
  EXPECT_THROW(write(machine), base::Error) << "a source that is not there";
  machine.watts = {};
  machine.kernels.resize(1);
  machine.kernels[0].source = -1;
  EXPECT_THROW(write(machine), base::Error) << "a row without a source";
}

TEST(RoundTrip, add_source) {
  Machine machine;
  EXPECT_EQ(machine.add_source(Source::Kind::measured, "here", "x"), 0);
  EXPECT_EQ(machine.add_source(Source::Kind::measured, "here", "x"), 0);
  EXPECT_EQ(machine.add_source(Source::Kind::measured, "here", "y"), 1);
  EXPECT_EQ(machine.sources.at(1).name, "here_2");
  EXPECT_EQ(machine.add_source(Source::Kind::measured, "here", "y"), 1);
}

}  // namespace
}  // namespace shard8::machine
