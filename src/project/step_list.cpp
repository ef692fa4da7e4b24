// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "project/transformation.hpp"

#include <algorithm>

namespace shard8::project {

void StepList::rewrite(const std::function<void(Entry& entry, const Pass& pass)>& each) {
  std::vector<Entry> before = std::exchange(entries, {});
  entries.reserve(before.size());
  std::vector<int> waits;  // of entries that were left out
  const Pass pass = [&](Entry entry) {
    auto& own = entry.operation.waits;
    own.insert(own.begin(), waits.begin(), waits.end());
    waits.clear();
    entries.push_back(std::move(entry));
  };
  for (Entry& entry : before) {
    const std::size_t count = entries.size();
    const int id = entry.id;
    const std::vector<int> own = entry.operation.waits;
    each(entry, pass);
    const bool kept = std::any_of(entries.begin() + static_cast<std::ptrdiff_t>(count), entries.end(),
                                  [id](const Entry& e) { return e.id == id; });
    if (!kept && entries.size() == count) waits.insert(waits.end(), own.begin(), own.end());
  }
  if (!waits.empty() && !entries.empty()) {
    auto& last = entries.back().operation.waits;
    last.insert(last.end(), waits.begin(), waits.end());
  }
}

operation::Operations StepList::finish() && {
  operation::Operations step;
  std::map<int, int> index;
  for (std::size_t i = 0; i < entries.size(); ++i) index[entries[i].id] = static_cast<int>(i);
  std::set<int> waited;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::vector<int> waits;
    for (const int w : entries[i].operation.waits) {
      const auto at = index.find(w);
      const int number = w < 0 ? w : at == index.end() ? static_cast<int>(i) : at->second;
      if (number < static_cast<int>(i) && waited.insert(number).second) waits.push_back(number);
    }
    entries[i].operation.waits = std::move(waits);
  }
  for (const int id : ahead)
    if (const auto at = index.find(id); at != index.end()) step.ahead.push_back(at->second);
  for (std::size_t i = 0; i + 1 < entries.size(); ++i) {
    const int number = static_cast<int>(i);
    if (entries[i].operation.stream == operation::Stream::compute || waited.contains(number) ||
        std::find(step.ahead.begin(), step.ahead.end(), number) != step.ahead.end())
      continue;
    const auto after = std::find_if(entries.begin() + number + 1, entries.end(), [](const Entry& e) {
      return e.operation.phase == profile::Phase::optimizer && e.operation.stream == operation::Stream::compute;
    });
    (after == entries.end() ? entries.back() : *after).operation.waits.push_back(number);
  }
  step.list.reserve(entries.size());
  for (Entry& entry : entries) step.list.push_back(std::move(entry.operation));
  return step;
}

}  // namespace shard8::project
