// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "operation/operation.hpp"

namespace shard8::project {

/// The operations of a step while they are changed. Each has an id that stays when others come and go: the `waits` of
/// operations and `ahead` name ids, or -1 - k for entry k of the step before. The ids of the recorded operations are
/// their indices.
class StepList {
 public:
  struct Entry {
    int id = 0;
    operation::Operation operation;
  };

  explicit StepList(operation::Operations step) : ahead(std::move(step.ahead)) {
    entries.reserve(step.list.size());
    for (operation::Operation& o : step.list) entries.push_back({next_++, std::move(o)});
  }

  int new_id() { return next_++; }

  /// Replaces the list by what `each` gives for its entries: it passes the entries to keep, to add and in which order
  /// to its second argument. Waits of entries that are not passed on are those of the next entry that is.
  using Pass = std::function<void(Entry entry)>;
  void rewrite(const std::function<void(Entry& entry, const Pass& pass)>& each);

  /// The list with indices in place of ids. Waits for what is not in the list, or comes later, are dropped, and so are
  /// all but the first for the same. A collective outside the compute stream that nothing waits for, and that is not
  /// ahead, is waited for by the first operation of the optimizer after it, or else by the last one of the list.
  operation::Operations finish() &&;

  std::vector<Entry> entries;
  std::vector<int> ahead;

 private:
  int next_ = 0;
};

}  // namespace shard8::project
