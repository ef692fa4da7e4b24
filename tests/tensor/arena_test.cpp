// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tensor/arena.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "tensor/transfer.hpp"
#include "tests/support/execution.hpp"

namespace shard8::tensor {
namespace {

TEST(Arena, MeasuringCountsWhatARealOneTakes) {
  const auto lay_out = [](Arena& arena) {
    arena.allocate({3, 5}, DType::fp32);
    const auto mark = arena.mark();
    arena.allocate({1000}, DType::bf16);
    arena.release(mark);
    arena.allocate({7, 2, 2}, DType::i32);
    arena.allocate({0, 4}, DType::fp32);
  };
  Arena measured = Arena::measure("test", MemoryKind::buffers);
  lay_out(measured);
  EXPECT_TRUE(measured.measuring());
  EXPECT_EQ(measured.high_water(), 256u + 2048u);
  EXPECT_EQ(measured.used(), 512u);
  Arena real("test", MemoryKind::buffers, measured.high_water());
  lay_out(real);
  EXPECT_EQ(real.high_water(), measured.high_water());
  EXPECT_EQ(real.kind(), MemoryKind::buffers);
}

TEST(Arena, HandsOutAlignedMemoryOfItsOwn) {
  Arena arena("test", MemoryKind::weights, 4096);
  const Tensor a = arena.allocate({10}, DType::u8), b = arena.allocate({10}, DType::u8);
  EXPECT_EQ(b.data - a.data, static_cast<std::ptrdiff_t>(tensor::kAlignment));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data) % 16, 0u);
  for (int i = 0; i < 10; ++i) a.data[i] = b.data[i] = std::byte{1};
}

// On hosts in place, without a copy.
TEST(Arena, TensorsAreWrittenAndReadOnTheHost) {
  Arena arena("test", MemoryKind::weights, 4096);
  const Tensor t = arena.allocate({3, 2}, DType::fp32);
  write_on_host(shard8::tests::exec(), t, [&](const Tensor& host) {
    EXPECT_EQ(host.data, t.data);
    EXPECT_EQ(host.shape, t.shape);
    for (int i = 0; i < 6; ++i) host.as<float>()[i] = static_cast<float>(i);
  });
  std::vector<std::byte> copy;
  const auto bytes = read_on_host(shard8::tests::exec(), t, copy);
  EXPECT_TRUE(copy.empty());
  ASSERT_EQ(bytes.size(), 24u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(reinterpret_cast<const float*>(bytes.data())[i], static_cast<float>(i));
}

TEST(Arena, OverlaidThingsTakeTheLargest) {
  const auto lay_out = [](Arena& arena) {
    std::array<Tensor, 5> t;
    t[0] = arena.allocate({10}, DType::u8);
    overlay(
        arena, [&] { t[1] = arena.allocate({300}, DType::u8); },
        [&] {
          t[2] = arena.allocate({1}, DType::u8);
          t[3] = arena.allocate({600}, DType::u8);
        });
    t[4] = arena.allocate({10}, DType::u8);
    return t;
  };
  Arena measured = Arena::measure("test", MemoryKind::buffers);
  lay_out(measured);
  EXPECT_EQ(measured.used(), 256u + 1024u + 256u);
  Arena arena("test", MemoryKind::buffers, measured.used());
  const auto t = lay_out(arena);
  EXPECT_EQ(t[1].data, t[0].data + 256);
  EXPECT_EQ(t[2].data, t[1].data);
  EXPECT_EQ(t[3].data, t[2].data + 256);
  EXPECT_EQ(t[4].data, t[2].data + 1024);
}

TEST(Arena, SinceAMarkIsAllOfIt) {
  for (const bool real : {false, true}) {
    Arena arena = real ? Arena("test", MemoryKind::buffers, 1024) : Arena::measure("test", MemoryKind::buffers);
    arena.allocate({10}, DType::u8);
    const auto mark = arena.mark();
    const Tensor first = arena.allocate({3}, DType::fp32);
    arena.allocate({257}, DType::u8);
    const Tensor all = arena.since(mark);
    EXPECT_EQ(all.data, first.data);
    EXPECT_EQ(all.bytes(), 768u);
  }
}

// Views of a plan are told apart as those of a run are.
TEST(Arena, MeasuredTensorsHaveAddressesOfTheirOwn) {
  Arena arena = Arena::measure("test", MemoryKind::weights), other = Arena::measure("other", MemoryKind::buffers);
  const Tensor t = arena.allocate({4, 6}, DType::bf16), next = arena.allocate({4}, DType::fp32);
  EXPECT_FALSE(t.empty());
  EXPECT_EQ(t.bytes(), 48u);
  EXPECT_EQ(t.slice(1, 2).data, t.data + 12);
  EXPECT_EQ(next.data, t.data + kAlignment);
  EXPECT_NE(other.allocate({4, 6}, DType::bf16).data, t.data);
  EXPECT_EQ(arena.allocate({std::int64_t{1} << 50}, DType::fp32).bytes(), std::size_t{1} << 52);  // of a huge model
}

TEST(Arena, SaysWhatDoesNotFit) {
  Arena arena("small", MemoryKind::gradients, 512);
  arena.allocate({64}, DType::fp32);
  try {
    arena.allocate({128}, DType::fp32);
    FAIL() << "512 bytes held 768";
  } catch (const base::Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("arena 'small' of 512 bytes has 256 left, (128) fp32 needs 512"), std::string::npos) << text;
  }
}

TEST(Arena, MemoryThatCannotBeHadIsAnErrorOfTheEnvironment) {
  try {
    Arena arena("huge", MemoryKind::activations, std::size_t{1} << 60);
    FAIL() << "an exbibyte was allocated";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::environment);
    EXPECT_NE(std::string(e.what()).find("arena 'huge': cannot allocate 1152921504606846976 bytes"), std::string::npos);
  }
}

TEST(Arena, ASetKeepsKindsApart) {
  ArenaSet measured = ArenaSet::measure();
  measured[MemoryKind::weights].allocate({100}, DType::fp32);
  measured[MemoryKind::buffers].allocate({1}, DType::fp32);
  const MemoryBytes bytes = measured.bytes();
  EXPECT_EQ(bytes, (MemoryBytes{512, 0, 0, 0, 0, 0, 0, 256}));
  EXPECT_EQ(total(bytes), 768u);
  ArenaSet real(bytes);
  EXPECT_FALSE(real.measuring());
  EXPECT_EQ(real[MemoryKind::weights].kind(), MemoryKind::weights);
}

}  // namespace
}  // namespace shard8::tensor
