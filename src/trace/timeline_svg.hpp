// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shard8::trace {

/// A rectangle from begin to end, in ns.
struct Bar {
  std::int64_t begin = 0, end = 0;
  std::string label;  ///< written where it has room
  std::string title;  ///< shown where the pointer rests
  std::string kind;   ///< "gemm", "attention", "elementwise", "wait", "exchange" or "weights"
};

struct Row {
  std::string name;
  std::vector<Bar> bars;  ///< ascending, one after the other
};

/// Rows over one axis of time.
struct Panel {
  std::string name;
  std::int64_t begin = 0, end = 0;  ///< ns
  std::vector<Row> rows;
};

struct Picture {
  std::string title;
  std::vector<Panel> panels;
};

/// The picture as SVG, 900 wide, for light and dark backgrounds.
std::string svg_of(const Picture& picture);

}  // namespace shard8::trace
