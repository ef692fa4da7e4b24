// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "bench/calibrate.hpp"

namespace shard8::bench {
namespace {

using machine::Load;
using operation::Operation;
using profile::WorkSpan;

constexpr std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
constexpr double seconds(std::int64_t ns) { return 1e-9 * static_cast<double>(ns); }

/// A part of a device's stream ends at an event that the host has issued before. If it has done so less than this
/// before the end, or later, the device may have waited for the host. Chosen: events of the device are placed on the
/// host's clock to about 10 us.
constexpr std::int64_t kHeldNs = 20'000;

struct Interval {
  std::int64_t begin = 0, end = 0;
};

/// The intervals in order, those that meet joined to one.
std::vector<Interval> united(std::vector<Interval> all) {
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> one;
  for (const Interval& i : all) {
    if (!one.empty() && i.begin <= one.back().end)
      one.back().end = std::max(one.back().end, i.end);
    else
      one.push_back(i);
  }
  return one;
}

/// When which loads of collectives were in flight.
class Flights {
 public:
  void add(const Interval& call, Load load) {
    changes_.push_back({call.begin, load, 1});
    changes_.push_back({call.end, load, -1});
  }
  /// Orders the calls, once all of them are known.
  void order() {
    std::sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
    std::array<int, kCollectiveLoads> calls{};
    for (const Change& c : changes_) {
      calls[index_of(c.load)] += c.calls;
      std::size_t set = 0;
      for (std::size_t i = 0; i < calls.size(); ++i) set |= calls[i] > 0 ? std::size_t{1} << i : 0;
      if (!sets_.empty() && sets_.back().since == c.time)
        sets_.back().set = set;
      else
        sets_.push_back({c.time, set});
    }
  }
  /// Adds the nanoseconds of `of`, by the sets that were in flight.
  void add_to(InFlight& ns, const Interval& of) const {
    auto next = std::upper_bound(sets_.begin(), sets_.end(), of.begin,
                                 [](std::int64_t begin, const Since& since) { return begin < since.since; });
    std::int64_t at = of.begin;
    std::size_t set = next == sets_.begin() ? 0 : (next - 1)->set;
    for (; next != sets_.end() && next->since < of.end; ++next) {
      ns.share[set] += static_cast<double>(next->since - at);
      at = next->since;
      set = next->set;
    }
    ns.share[set] += static_cast<double>(of.end - at);
  }

 private:
  struct Change {
    std::int64_t time;
    Load load;
    int calls;
  };
  struct Since {
    std::int64_t since;
    std::size_t set;
  };
  std::vector<Change> changes_;
  std::vector<Since> sets_;  ///< in flight since then
};

/// How much of `of` lies in the intervals, which are united().
std::int64_t inside(const std::vector<Interval>& intervals, const Interval& of) {
  auto i = std::lower_bound(intervals.begin(), intervals.end(), of.begin,
                            [](const Interval& one, std::int64_t begin) { return one.end <= begin; });
  std::int64_t sum = 0;
  for (; i != intervals.end() && i->begin < of.end; ++i) sum += std::min(i->end, of.end) - std::max(i->begin, of.begin);
  return sum;
}

/// How much of a link calls take that share it: each moment counts 1/n while n calls are in flight.
class SharedLink {
 public:
  /// The calls over the link, and when something is computed, as united().
  SharedLink(const std::vector<Interval>& calls, const std::vector<Interval>& computing) {
    struct Change {
      std::int64_t time;
      int calls, computing;
    };
    std::vector<Change> changes;
    for (const Interval& i : calls) changes.insert(changes.end(), {{i.begin, 1, 0}, {i.end, -1, 0}});
    for (const Interval& i : computing) changes.insert(changes.end(), {{i.begin, 0, 1}, {i.end, 0, -1}});
    std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
    int flying = 0, works = 0;
    Taken taken;
    for (const Change& c : changes) {
      const double part = flying == 0 ? 0 : static_cast<double>(c.time - taken.time) / flying;
      taken = {c.time, taken.all + part, taken.computing + (works > 0 ? part : 0)};
      taken_.push_back(taken);
      flying += c.calls;
      works += c.computing;
    }
  }
  struct Taken {
    std::int64_t time = 0;
    double all = 0, computing = 0;  ///< nanoseconds
  };
  /// What was taken by the end of one of the calls.
  Taken by(const Interval& call) const {
    const auto until = [this](std::int64_t time) {
      return *std::lower_bound(taken_.begin(), taken_.end(), time,
                               [](const Taken& t, std::int64_t at) { return t.time < at; });
    };
    const Taken begin = until(call.begin), end = until(call.end);
    return {end.time, end.all - begin.all, end.computing - begin.computing};
  }

 private:
  std::vector<Taken> taken_;  ///< from the begin until each change; its calls begin and end at changes
};

bool is_work(const WorkSpan& span) {
  return span.note >= 0 && span.part >= 0 && span.part != static_cast<int>(profile::Part::tensor_comm);
}

std::string_view name_of_part(const Operation& o) {
  if (const auto* p = o.product()) return operation::name_of(p->kind);
  if (const auto* a = o.attention()) return a->backward ? "attention_backward" : "attention_forward";
  return o.kernel()->name;
}

/// Whether the traced part is the operation. In a step `with_experts` the tokens of a feed-forward block's products are
/// not compared: a step has as many as its router chose, a record the mean.
bool fits(const profile::TraceNote& note, const Operation& o, bool with_experts) {
  if (note.name != name_of_part(o)) return false;
  const auto* p = o.product();
  if (p == nullptr) return true;
  using operation::Linear;
  const bool any = with_experts && (o.location.linear == Linear::fc1 || o.location.linear == Linear::fc2);
  const bool by_depth = p->kind == operation::Product::Kind::wgrad;
  return note.n == p->cols && ((any && !by_depth) || note.m == p->rows) && ((any && by_depth) || note.k == p->inner);
}

/// The spans of one part of the compute stream. There are several where others suspended it.
struct Part {
  int note = -1;
  std::vector<Interval> spans;
};

/// The parts of a step that compute, in the order in which they were issued.
std::vector<Part> parts_of(const std::vector<const WorkSpan*>& spans) {
  std::map<int, Part> parts;
  for (const WorkSpan* span : spans) {
    if (!is_work(*span)) continue;
    Part& part = parts[span->note];
    part.note = span->note;
    part.spans.push_back({span->begin, span->end});
  }
  std::vector<Part> ordered;
  for (auto& [note, part] : parts) ordered.push_back(std::move(part));
  return ordered;
}

std::int64_t format_number(const operation::Format& f) {
  return static_cast<std::int64_t>(f.dtype) * 1000 + static_cast<std::int64_t>(f.scaling) * 10 + (f.transposed ? 1 : 0);
}
operation::Format format_of_number(std::int64_t n) {
  return {static_cast<tensor::DType>(n / 1000), static_cast<tensor::Scaling>(n / 10 % 100), n % 10 != 0};
}

}  // namespace

WorkKey WorkKey::of(const operation::Product& p) {
  WorkKey key{.load = Load::product};
  key.numbers = {static_cast<std::int64_t>(p.kind),
                 p.rows,
                 p.cols,
                 p.inner,
                 format_number(p.left),
                 format_number(p.right),
                 static_cast<std::int64_t>(p.out),
                 p.accumulate ? 1 : 0,
                 p.groups};
  return key;
}

WorkKey WorkKey::of(const operation::Attention& a) {
  WorkKey key{.load = Load::attention};
  const kernels::AttentionShape& s = a.shape;
  key.numbers = {a.backward ? 1 : 0,
                 s.batch,
                 s.seq,
                 s.heads,
                 s.kv_heads,
                 s.head_dim,
                 s.deterministic ? 1 : 0,
                 static_cast<std::int64_t>(a.dtype)};
  return key;
}

WorkKey WorkKey::of(const Operation& o) {
  if (const auto* p = o.product()) return of(*p);
  if (const auto* a = o.attention()) return of(*a);
  WorkKey key{.load = Load::kernel, .kernel = std::string(o.kernel()->name)};
  key.numbers[0] = static_cast<std::int64_t>(o.read + o.written);
  return key;
}

operation::Product WorkKey::product() const {
  const auto& n = numbers;
  return {.kind = static_cast<operation::Product::Kind>(n[0]),
          .rows = n[1],
          .cols = n[2],
          .inner = n[3],
          .left = format_of_number(n[4]),
          .right = format_of_number(n[5]),
          .out = static_cast<tensor::DType>(n[6]),
          .accumulate = n[7] != 0,
          .groups = n[8]};
}

operation::Attention WorkKey::attention() const {
  const auto& n = numbers;
  return {
      .backward = n[0] != 0,
      .shape =
          {.batch = n[1], .seq = n[2], .heads = n[3], .kv_heads = n[4], .head_dim = n[5], .deterministic = n[6] != 0},
      .dtype = static_cast<tensor::DType>(n[7])};
}

RankTimes times_of(const profile::TraceRecorder& trace, const operation::Operations& step, bool on_device,
                   const std::map<std::string, std::array<int, 2>>& groups, bool with_experts) {
  std::vector<const Operation*> work;
  for (const Operation& o : step.list)
    if (o.collective() == nullptr) work.push_back(&o);
  const auto shape_of = [&](const profile::CallSpan& call) {
    const auto group = groups.find(call.group);
    return group == groups.end() ? std::array{0, 0} : group->second;
  };
  machine::Machine with_copies;
  with_copies.copies_in_node = true;
  Flights flights;
  for (const profile::CallSpan& call : trace.calls())
    if (call.end > call.begin)
      flights.add({call.begin, call.end}, with_copies.load_of(call.op, shape_of(call)[0] == 1 ? 1 : 2));
  flights.order();
  std::vector<Interval> computing;
  std::map<std::int64_t, std::vector<const WorkSpan*>> spans;
  for (const WorkSpan& span : trace.work()) {
    spans[span.step].push_back(&span);
    if (is_work(span)) computing.push_back({span.begin, span.end});
  }
  computing = united(std::move(computing));

  RankTimes times;
  for (const profile::TracedStep& traced : trace.steps()) {
    const std::vector<Part> parts = parts_of(spans[traced.step]);
    bool alike = parts.size() == work.size();
    for (std::size_t i = 0; alike && i < parts.size(); ++i)
      alike = fits(trace.notes()[at(parts[i].note)], *work[i], with_experts);
    if (!alike) {
      ++times.left_out;
      continue;
    }
    double computed = 0, besides = 0;
    int last_note = -1;
    for (const WorkSpan* span : spans[traced.step]) last_note = std::max(last_note, span->note);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::int64_t ns = 0;
      InFlight in_flight{.share = {}};
      for (const Interval& span : parts[i].spans) {
        ns += span.end - span.begin;
        flights.add_to(in_flight, span);
      }
      for (double& share : in_flight.share) share /= static_cast<double>(std::max<std::int64_t>(ns, 1));
      const profile::TraceNote& note = trace.notes()[at(parts[i].note)];
      // The mark behind a part is issued with the next note of the step, or right after the last one.
      const int next = parts[i].note + 1;
      const std::int64_t issued = next <= last_note ? trace.notes()[at(next)].issued : note.issue_ended;
      const bool held = on_device && issued + kHeldNs > parts[i].spans.back().end;
      const WorkKey key = WorkKey::of(*work[i]);
      times.work[key].push_back({seconds(ns), in_flight, held});
      if (on_device)
        times.issue_s[static_cast<std::size_t>(key.load)].push_back(seconds(note.issue_ended - note.issued));
      computed += seconds(ns);
    }
    using profile::Phase;
    for (const WorkSpan* span : spans[traced.step]) {
      const bool waits = span->phase == static_cast<int>(Phase::gather_wait) ||
                         span->phase == static_cast<int>(Phase::reduce_wait) ||
                         span->part == static_cast<int>(profile::Part::tensor_comm);
      if (!waits && !is_work(*span)) besides += seconds(span->end - span->begin);
    }
    times.computed_s.push_back(computed);
    times.besides_s.push_back(besides);
    times.total_s.push_back(seconds(traced.end - traced.begin));
  }

  // The recorder has the calls of the step before the first traced one, too: what was computed while they ran is not
  // known.
  const auto counts = [&](const profile::CallSpan& call) {
    return call.end > call.begin && call.ranks > 1 && !trace.steps().empty() &&
           call.begin >= trace.steps().front().begin && call.begin < trace.steps().back().end;
  };
  std::array<std::vector<Interval>, 2> of_link;  // in a node; between nodes
  const auto link_of = [&](const profile::CallSpan& call) { return shape_of(call)[0] == 1 ? 0U : 1U; };
  for (const profile::CallSpan& call : trace.calls())
    if (counts(call)) of_link[link_of(call)].push_back({call.begin, call.end});
  const std::array<SharedLink, 2> links{SharedLink(of_link[0], computing), SharedLink(of_link[1], computing)};
  for (const profile::CallSpan& call : trace.calls()) {
    if (!counts(call)) continue;
    const std::array<int, 2> shape = shape_of(call);
    const Interval whole{call.begin, call.end};
    const SharedLink::Taken taken = links[link_of(call)].by(whole);
    times.collectives.push_back(
        {.op = call.op,
         .nodes = shape[0],
         .ranks = shape[1],
         .bytes = call.bytes,
         .seconds = seconds(call.end - call.begin),
         .shared = static_cast<double>(inside(computing, whole)) / static_cast<double>(call.end - call.begin),
         .link_s = 1e-9 * taken.all,
         .link_shared = taken.computing / taken.all});
  }
  return times;
}

}  // namespace shard8::bench
