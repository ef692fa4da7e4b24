// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/outputs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "tests/trace/example.hpp"

namespace shard8::trace::tests {
namespace {

using ::testing::HasSubstr;

std::string error_of(const TimelineChoice& choice) {
  try {
    timeline(example(), choice);
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::deck);
    return e.what();
  }
  return "";
}

TEST(Timeline, window_of_a_layer) {
  const LayerWindow forward = layer_window(example(), "layer 0", 3, "forward");
  EXPECT_EQ(forward.begin, 100 * kMicro);
  EXPECT_EQ(forward.end, 500 * kMicro);
  EXPECT_EQ(forward.work.size(), 3u);
  EXPECT_EQ(forward.collectives.size(), 2u);
  const LayerWindow backward = layer_window(example(), "layer 0", 3, "backward");
  EXPECT_EQ(backward.begin, 500 * kMicro);
  EXPECT_EQ(backward.end, 900 * kMicro);
  EXPECT_EQ(backward.collectives.size(), 1u);
}

TEST(Timeline, picture) {
  const std::string svg = timeline(example(), {});
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_THAT(svg, HasSubstr("width=\"900\""));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(svg, HasSubstr(">qkv fprop<"));
  EXPECT_THAT(svg, HasSubstr(">exchanges<"));
  EXPECT_THAT(svg, HasSubstr("layer 0 qkv_fprop all_gather, 4096 bytes in group tensor: 0.110 ms"));
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

TEST(Timeline, what_the_trace_has_not) {
  EXPECT_EQ(error_of({.layer = 5, .step = -1}), "--layer 5: the trace has layers 0 to 0");
  EXPECT_EQ(error_of({.layer = 0, .step = 9}), "--step 9: the trace has steps 3");
}

}  // namespace
}  // namespace shard8::trace::tests
