// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "project/projection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "model/parameters.hpp"
#include "project/transformation.hpp"

namespace shard8::project {

using machine::Estimate;
using machine::Known;
using machine::Load;
using operation::Linear;
using operation::Operation;
using operation::Stream;
using profile::Collective;
using profile::Exchange;
using profile::Part;
using profile::Phase;

namespace {

/// The exchange of the tensor group or the expert group that a collective at this place belongs to; kExchanges: none.
/// `root` is the unit of the head.
std::uint8_t exchange_of(const Operation& o, Collective op, int root) {
  if (o.collective()->group == operation::Group(base::Axis::expert)) {
    if (op == Collective::all_gather) return static_cast<std::uint8_t>(Exchange::routing);
    return static_cast<std::uint8_t>(o.location.linear == Linear::fc1 ? Exchange::dispatch : Exchange::combine);
  }
  const bool forward = o.phase == Phase::forward || o.recomputed, gather = op == Collective::all_gather;
  if (!o.location.linear && o.location.unit == model::embedding_unit())
    return static_cast<std::uint8_t>(Exchange::embedding);
  if (!o.location.linear && o.location.unit == root)
    return static_cast<std::uint8_t>(op == Collective::all_reduce ? Exchange::cross_entropy
                                     : gather                     ? Exchange::head_fprop
                                                                  : Exchange::head_dgrad);
  // The all-reduce of the balance of experts: the layers have no other all-reduce.
  if (!o.location.linear && op == Collective::all_reduce) return static_cast<std::uint8_t>(Exchange::routing);
  if (!o.location.linear) return profile::kExchanges;
  const auto pick = [&](Exchange of_forward, Exchange of_gather, Exchange of_scatter) {
    return static_cast<std::uint8_t>(forward ? of_forward : gather ? of_gather : of_scatter);
  };
  switch (*o.location.linear) {
    case Linear::qkv:
      return pick(Exchange::qkv_fprop, Exchange::qkv_dgrad, Exchange::qkv_wgrad);
    case Linear::proj:
      return pick(Exchange::proj_fprop, Exchange::proj_dgrad, Exchange::proj_dgrad);
    case Linear::fc1:
      return pick(Exchange::fc1_fprop, Exchange::fc1_dgrad, Exchange::fc1_wgrad);
    case Linear::fc2:
      return pick(Exchange::fc2_fprop, Exchange::fc2_dgrad, Exchange::fc2_dgrad);
  }
  return profile::kExchanges;
}

}  // namespace

TaskList::TaskList(const train::Setup& setup, const machine::Times& times, double slowest, double issue, double spread)
    : times_(times), setup_(setup), slowest_(slowest), issue_(issue), spread_(spread) {
  const machine::Machine& m = times.machine();
  if (!m.node_devices.given())
    base::fail(base::ExitCode::deck, "{}: node.devices is needed: it says which ranks share a node", m.path);
  node_ranks_ = static_cast<int>(m.node_devices.value);
  step_.issue_s = issue_ * times_.value_of(m.issue_step, 0);
}

/// The time in which a host issues an operation to a device. A host that computes issues nothing to itself, and its
/// file need not say so.
double TaskList::issue_s(const machine::Figure& issue) const {
  return issue_ * (times_.machine().device ? times_.value_of(issue, 0) : issue.given() ? issue.value : 0);
}

Queue TaskList::queue_of(Stream stream, operation::Group group) {
  if (stream == Stream::compute) return kCompute;
  const int at_once = times_.machine().device ? 1 : kAtOnce;
  const auto first = static_cast<int>(queues_.size()) * at_once + 1;
  Calls& calls = queues_.try_emplace({static_cast<int>(stream), group}, Calls{first, 0}).first->second;
  SHARD8_REQUIRE(calls.first + at_once <= kMostQueues, "more than {} queues of collectives", kMostQueues - 1);
  return static_cast<Queue>(calls.first + calls.count++ % at_once);
}

Estimate TaskList::estimate(const Operation& o) {
  if (const auto* p = o.product()) return times_.product(*p);
  if (const auto* a = o.attention()) return times_.attention(*a);
  if (const auto* k = o.kernel()) return times_.kernel(k->name, o.read + o.written);
  const auto& c = *o.collective();
  const auto at = places_.try_emplace(c.group, machine::place(setup_.mesh, c.group, node_ranks_)).first->second;
  return times_.collective(c.op, at, c.bytes());
}

void TaskList::add(const Operation& o) {
  Task task;
  task.phase = o.phase;
  task.first_wait = static_cast<int>(step_.waits.size());
  for (const int wait : o.waits) {
    step_.waits.push_back({wait, 1});
    if (wait == parts_.task) parts_ = {};
  }
  std::string what = std::visit([](const auto& w) { return to_text(w); }, o.what);
  if (o.kernel() != nullptr) what = fmt::format("{} of {} bytes", o.kernel()->name, o.read + o.written);
  auto known = estimates_.find(what);
  if (known == estimates_.end()) known = estimates_.emplace(what, estimate(o)).first;
  const Estimate& found = known->second;
  task.seconds = found.seconds;
  if (const auto* c = o.collective())
    add_collective(o, *c, task);
  else
    add_computation(o, task);
  known_s_[static_cast<std::size_t>(found.known)] += task.seconds;
  if (found.known != Known::entry) {
    Uncertain& u = uncertain_.try_emplace(what, Uncertain{what, found.known, found.factor}).first->second;
    ++u.calls;
    u.seconds += task.seconds;
  }
  task.waits = static_cast<int>(step_.waits.size()) - task.first_wait;
  step_.tasks.push_back(task);
}

void TaskList::add_computation(const Operation& o, Task& task) {
  const machine::Machine& m = times_.machine();
  const bool in_pass = o.phase == Phase::forward || o.phase == Phase::backward;
  const auto set = [&](Load load, Part part, const machine::Figure& issue) {
    task.load = load;
    if (in_pass) task.part = static_cast<std::int8_t>(part);
    task.issue_s = issue_s(issue);
  };
  if (const auto* p = o.product()) {
    set(Load::product, Part::gemm, m.issue_product);
    if (parts_.task >= 0) {
      if (parts_.own_rows == 0) {
        parts_.own_rows = parts_.rows = p->rows;  // the own rows need no exchange
      } else {
        parts_.rows += p->rows;
        const auto others = static_cast<double>(parts_.own_rows * (parts_.ranks - 1));
        const double share = static_cast<double>(parts_.rows - parts_.own_rows) / others;
        step_.waits.push_back({parts_.task, static_cast<float>(std::min(1.0, share))});
      }
    }
  } else if (o.attention() != nullptr) {
    set(Load::attention, Part::attention, m.issue_attention);
  } else {
    set(Load::kernel, Part::elementwise, m.issue_kernel);
  }
  task.seconds *= slowest_;
}

void TaskList::add_collective(const Operation& o, const operation::Collective& c, Task& task) {
  const machine::Machine& m = times_.machine();
  const machine::Placement& at = places_.at(c.group);
  task.queue = queue_of(o.stream, c.group);
  task.load = times_.load_of(c.op, at.nodes);
  task.link = at.nodes == 1 ? Link::node : Link::network;
  const double empty = times_.collective(c.op, at, 1).seconds;
  task.demand = static_cast<float>(task.seconds > 0 ? std::max(0.0, 1 - empty / task.seconds) : 0);
  task.issue_s = issue_s(m.issue_collective);
  // A rank waits in the call for the last one.
  if (task.queue == kCompute && !c.host_values)
    task.seconds += spread_ * times_.value_of(m.spread_calls, 0) * expected_largest(c.ranks);
  const bool tensor =
      c.group == operation::Group(base::Axis::tensor) || c.group == operation::Group(base::Axis::expert);
  task.waiting = tensor ? Waiting::exchange : o.stream == Stream::reduce ? Waiting::reduction : Waiting::gather;
  if (tensor) {
    task.exchange = exchange_of(o, c.op, model::root_unit(setup_.config.model.layers));
    if (o.phase == Phase::forward || o.phase == Phase::backward)
      task.part = static_cast<std::int8_t>(Part::tensor_comm);
  }
  const auto number = static_cast<int>(step_.tasks.size());
  if (c.by_parts && c.op == Collective::all_gather) parts_ = {number, c.ranks, 0, 0};
  if (!c.host_values)
    for (const auto& payload : c.payloads)
      collectives_.push_back(
          {number,
           {c.op, std::string(name_of(c.group)), c.ranks, std::string(tensor::name_of(payload.dtype)), payload.bytes}});
}

std::vector<Uncertain> TaskList::uncertain() const {
  std::vector<Uncertain> all;
  for (const auto& [what, u] : uncertain_) all.push_back(u);
  return all;
}

std::vector<Traffic> TaskList::traffic(const Simulated& simulated) const {
  std::map<profile::CollectiveKey, Traffic> all;
  std::map<int, double> bytes;
  for (const auto& [task, key] : collectives_) bytes[task] += static_cast<double>(key.bytes);
  for (const auto& [task, key] : collectives_) {
    const double share = bytes[task] > 0 ? static_cast<double>(key.bytes) / bytes[task] : 1;
    Traffic& t = all.try_emplace(key, Traffic{key}).first->second;
    t.calls += 1;
    t.total_s += share * simulated.task_s[static_cast<std::size_t>(task)];
    t.exposed_s += share * simulated.exposed_s[static_cast<std::size_t>(task)];
  }
  std::vector<Traffic> rows;
  for (const auto& [key, t] : all) rows.push_back(t);
  return rows;
}

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
