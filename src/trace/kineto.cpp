// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// The format of the traces that are written here is that of the files which torch.profiler writes; names and arguments
// are those that HolisticTraceAnalysis looks for (hta/utils/utils.py: get_kernel_type; hta/configs).
#include "trace/rank_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace shard8::trace {
namespace {

using nlohmann::json;

constexpr int kHostThread = 1;
constexpr int kComputeStream = 7;  // the number in torch.profiler's traces
constexpr int kFirstStream = 20;   // of collectives; chosen

std::string nccl_name(const std::string& op) {
  if (op == "all_gather") return "ncclDevKernel_AllGather";
  if (op == "reduce_scatter") return "ncclDevKernel_ReduceScatter";
  return op == "all_reduce" ? "ncclDevKernel_AllReduce" : "ncclDevKernel_SendRecv";
}

/// What a stream of collectives does, which is its name: "tensor gather", "shard reduce".
std::string lane_of(const Span& span) { return span.group + ' ' + span.verb(); }

/// Bytes of an element; 1 for a call of several dtypes, whose elements are counted as bytes.
std::uint64_t element_bytes(const std::string& dtype) {
  if (dtype == "fp32" || dtype == "i32") return 4;
  return dtype == "bf16" ? 2 : 1;
}

class Writer {
 public:
  explicit Writer(Times times) : times_(times) {}

  void add_rank(const RankTrace& trace) {
    trace_ = &trace;
    groups_ = groups_of(trace.mesh);
    lanes_.clear();
    streams_ = 0;
    name("process_name", kHostThread,
         fmt::format("rank {} ({}){}", trace.rank, trace.host,
                     trace.skeleton.empty() ? "" : ", skeleton of the " + trace.skeleton));
    name("process_sort_index", kHostThread, trace.rank);
    name("thread_name", kHostThread, "host");
    name("thread_name", kComputeStream, trace.on_device() ? "compute stream" : "compute (this thread)");
    for (const Step& step : trace.steps)
      event("user_annotation", fmt::format("ProfilerStep#{}", step.number), kHostThread, step.begin, step.end,
            json::object());
    phases();
    std::vector<const Span*> calls;
    for (const Span& span : trace.spans) {
      if (span.kind == Span::Kind::collective)
        calls.push_back(&span);
      else
        add(span);
    }
    std::stable_sort(calls.begin(), calls.end(), [](const Span* a, const Span* b) { return a->begin < b->begin; });
    for (const Span* call : calls) collective(*call);
  }

  std::string text(const std::vector<RankTrace>& ranks, bool all) const {
    const RankTrace& first = ranks.front();
    const std::string id = all ? "shard8" : fmt::format("shard8 rank {}", first.rank);
    json head = {{"schemaVersion", 1}, {"displayTimeUnit", "ms"}, {"traceName", id}, {"shard8_run", first.run}};
    if (!first.skeleton.empty()) head["shard8_skeleton"] = first.skeleton;
    head["deviceProperties"] = json::array();
    for (const RankTrace& rank : ranks)
      head["deviceProperties"].push_back({{"id", rank.rank}, {"name", rank.device}, {"host", rank.host}});
    head["distributedInfo"] = {
        {"backend", first.on_device() ? "nccl" : "mpi"}, {"rank", first.rank}, {"world_size", first.ranks}};
    std::string text = head.dump(1);  // with spaces: HolisticTraceAnalysis looks for "rank": 3 by a regular expression
    text.resize(text.rfind('\n'));    // without the brace
    return text + ",\n \"traceEvents\": [\n" + events_ + "\n]}\n";
  }

 private:
  std::string time(std::int64_t ns) const {
    return times_ == Times::nanoseconds ? fmt::format("{}.{:03}", ns / 1000, ns % 1000)
                                        : fmt::format("{}", (ns + 500) / 1000);
  }

  void line(const std::string& text) {
    if (!events_.empty()) events_ += ",\n";
    events_ += text;
  }

  void name(const char* what, int thread, const json& value) {
    const char* key = value.is_number() ? "sort_index" : "name";
    line(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"ts":0,"args":{}}})", what, trace_->rank, thread,
                     json{{key, value}}.dump()));
  }

  void event(const char* category, const std::string& what, int thread, std::int64_t begin, std::int64_t end,
             const json& args) {
    begin = std::max<std::int64_t>(begin, 0);
    end = std::max(begin, end);
    const std::int64_t duration =
        times_ == Times::nanoseconds ? end - begin : ((end + 500) / 1000 - (begin + 500) / 1000) * 1000;
    line(fmt::format(R"({{"ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{}}})", category,
                     json(what).dump(), trace_->rank, thread, time(begin), time(duration), args.dump()));
  }

  /// One annotation for each time that a phase is entered.
  void phases() {
    const Span* first = nullptr;
    const Span* last = nullptr;
    const auto write = [&] {
      if (first != nullptr)
        event("user_annotation", first->phase, kHostThread, first->begin, last->end, {{"step", first->step}});
    };
    for (const Span& span : trace_->spans) {
      if (span.kind != Span::Kind::work) continue;
      if (first != nullptr && span.phase == first->phase && span.step == first->step && span.begin == last->end) {
        last = &span;
        continue;
      }
      write();
      first = last = &span;
    }
    write();
  }

  json args_of(const Span& span) {
    json args = {{"step", span.step}};
    const auto add = [&](const char* key, const auto& value) {
      if (value != std::decay_t<decltype(value)>{}) args[key] = value;
    };
    add("unit", span.unit);
    add("phase", span.phase);
    add("linear", span.linear);
    add("exchange", span.exchange);
    if (span.m > 0) {
      args["M, N, K"] = {span.m, span.n, span.k};
      add("groups", span.groups);
      args["dtypes"] = {span.left, span.right, span.out};
      args["GFLOP"] = span.flops * 1e-9;
    }
    return args;
  }

  void add(const Span& span) {
    json args = args_of(span);
    if (span.kind == Span::Kind::issue) {
      // On hosts issuing is the work itself, which is there already.
      if (trace_->on_device()) event("cpu_op", "issue " + span.title(), kHostThread, span.begin, span.end, args);
      return;
    }
    if (span.is_wait()) {
      if (span.peer >= 0) args["peer"] = span.peer;
      const auto [begin, end] = host_times(span);
      event("cpu_op", span.title(), kHostThread, begin, end, args);
      return;
    }
    if (!span.is_compute()) {
      if (!span.name.empty()) event("cpu_op", span.name, kHostThread, span.begin, span.end, args);
      return;
    }
    std::string what = span.linear.empty() ? "" : span.linear + ' ';
    what += span.name.empty() ? (span.part.empty() ? span.phase : span.part) : span.name;
    const auto [begin, end] = host_times(span);
    launch("shard8::" + what, begin, end, args);
    args["device"] = trace_->rank;
    args["stream"] = kComputeStream;
    event("kernel", what, kComputeStream, span.begin, span.end, args);
  }

  /// What the host did for a kernel, which gets the same correlation in its `args`. Tools drop kernels without it.
  void launch(const std::string& what, std::int64_t begin, std::int64_t end, json& args) {
    args["External id"] = ++correlation_;
    if (trace_->on_device()) event("cpu_op", what, kHostThread, begin, end, args);
    args["correlation"] = correlation_;
    const bool device = trace_->on_device();
    event(device ? "cuda_runtime" : "cpu_op", device ? "cudaLaunchKernel" : what, kHostThread, begin, end, args);
  }

  /// When the host issued the work, from begin to end. On hosts, or if that is not known: the times of the work.
  std::pair<std::int64_t, std::int64_t> host_times(const Span& span) const {
    if (!trace_->on_device() || span.issue_ended == 0) return {span.begin, span.end};
    return {span.issued, span.issue_ended};
  }

  void collective(const Span& span) {
    const auto [begin, end] = traced_part(span);
    if (end <= begin) return;
    const int stream = stream_for(lane_of(span), begin, end);
    json args = args_of(span);
    const auto ranks = static_cast<std::uint64_t>(span.ranks);
    args["Collective name"] = span.op;
    args["In msg nelems"] = span.bytes / element_bytes(span.dtype) / (span.op == "all_gather" ? ranks : 1);
    args["Out msg nelems"] = span.bytes / element_bytes(span.dtype) / (span.op == "reduce_scatter" ? ranks : 1);
    args["bytes"] = span.bytes;
    args["dtype"] = span.dtype;
    args["Group size"] = span.ranks;
    args["exposed us"] = static_cast<double>(span.exposed) * 1e-3;
    args["Process Group Description"] = span.group;
    if (const RankGroup* group = group_with(groups_, span.group, trace_->rank)) {
      args["Process Group Name"] = group->name;
      args["Process Group Ranks"] = json(group->ranks).dump();
    }
    const std::int64_t issued = span.begin < begin ? begin : span.issued;
    launch("issue " + span.title(), issued, issued, args);
    args["device"] = trace_->rank;
    args["stream"] = stream;
    event("kernel", nccl_name(span.op), stream, begin, end, args);
  }

  /// A stream that does what `lane` says and is free from `begin` to `end`. A lane whose collectives overlap in time
  /// has several streams of its name.
  int stream_for(const std::string& lane, std::int64_t begin, std::int64_t end) {
    std::vector<Stream>& streams = lanes_[lane];
    for (Stream& stream : streams) {
      if (stream.free_at > begin) continue;
      stream.free_at = end;
      return stream.number;
    }
    const int number = kFirstStream + streams_++;
    name("thread_name", number, lane);
    streams.push_back({number, end});
    return number;
  }

  /// What of a collective lies in traced steps that follow each other.
  std::pair<std::int64_t, std::int64_t> traced_part(const Span& span) const {
    std::int64_t begin = 0, end = 0;
    for (const Step& step : trace_->steps) {
      if (step.end <= span.begin) continue;
      if (end == 0) {
        begin = std::max(span.begin, step.begin);
      } else if (step.begin - end > 1000) {  // more than rounding
        break;
      }
      end = step.end;
    }
    return {begin, std::min(span.end, end)};
  }

  Times times_;
  const RankTrace* trace_ = nullptr;
  std::vector<RankGroup> groups_;
  struct Stream {
    int number;
    std::int64_t free_at;
  };
  std::map<std::string, std::vector<Stream>> lanes_;  ///< streams of collectives by what they do, see lane_of()
  int streams_ = 0;                                   ///< of all lanes
  int correlation_ = 0;
  std::string events_;
};

}  // namespace

std::string kineto_of_all(const std::vector<RankTrace>& ranks) {
  Writer writer(Times::nanoseconds);
  for (const RankTrace& rank : ranks) writer.add_rank(rank);
  return writer.text(ranks, true);
}

std::string kineto_of(const RankTrace& rank, Times times) {
  Writer writer(times);
  writer.add_rank(rank);
  return writer.text({rank}, false);
}

}  // namespace shard8::trace
