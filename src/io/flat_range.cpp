// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/flat_range.hpp"

#include <algorithm>
#include <vector>

namespace shard8::io {

void for_each_box(std::span<const std::int64_t> shape, std::int64_t first, std::int64_t count,
                  const std::function<void(std::span<const Range>, std::int64_t)>& visit) {
  const std::size_t rank = shape.size();
  std::vector<std::int64_t> slice(rank + 1, 1);  // slice[d]: elements behind one index of dimension d - 1
  for (std::size_t d = rank; d-- > 0;) slice[d] = slice[d + 1] * shape[d];
  std::vector<Range> ranges(rank);
  while (count > 0) {
    // The outermost dimension of which a whole slice begins here and ends within the elements. Only the innermost one
    // has slices of one element, which always do.
    std::size_t along = 0;
    while (along + 1 < rank && (first % slice[along + 1] != 0 || count < slice[along + 1])) ++along;
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t index = first / slice[d + 1] % shape[d];
      if (d < along) ranges[d] = {index, 1, 1};
      if (d == along) ranges[d] = {index, std::min(shape[d] - index, count / slice[d + 1]), 1};
      if (d > along) ranges[d] = {0, shape[d], 1};
      elements *= ranges[d].count;
    }
    visit(ranges, elements);
    first += elements;
    count -= elements;
  }
}

}  // namespace shard8::io
