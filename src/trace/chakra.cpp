// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/chakra.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "trace/groups.hpp"
#include "trace/protobuf.hpp"

namespace shard8::trace {
namespace {

// Numbers of et_def.proto.
enum NodeType : std::uint64_t { kComputation = 4, kCollective = 7 };
enum CommType : std::uint64_t { kAllReduce = 0, kAllGather = 2, kReduceScatter = 7 };
namespace attribute {
constexpr int kName = 1, kInt32 = 7, kInt64 = 9, kUint64 = 13, kBool = 27, kString = 29;
}
namespace node {
constexpr int kId = 1, kName = 2, kType = 3, kControl = 4, kData = 5, kStart = 6, kDuration = 7, kAttribute = 10;
}

ProtoMessage number(std::string_view name, int type, std::uint64_t value) {
  return std::move(ProtoMessage().text(attribute::kName, name).number(type, value));
}
ProtoMessage text(std::string_view name, std::string_view value) {
  return std::move(ProtoMessage().text(attribute::kName, name).text(attribute::kString, value));
}

std::uint64_t comm_type(const std::string& op) {
  if (op == "all_gather") return kAllGather;
  return op == "reduce_scatter" ? kReduceScatter : kAllReduce;
}

std::uint64_t micros(std::int64_t ns) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, (ns + 500) / 1000));
}

std::uint64_t bytes_of(const std::string& dtype) {
  if (dtype == "fp32") return 4;
  return dtype == "bf16" ? 2 : 1;
}

/// Bytes of the operands and of the result of a product.
std::uint64_t product_bytes(const Span& s) {
  const auto elements = [](std::int64_t a, std::int64_t b) {
    return static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b);
  };
  return elements(s.m, s.k) * bytes_of(s.left) + elements(s.k, s.n) * bytes_of(s.right) +
         elements(s.m, s.n) * bytes_of(s.out);
}

/// The spans that are nodes, in the order in which they were issued.
std::vector<const Span*> nodes_of(const RankTrace& trace) {
  std::vector<const Span*> spans;
  for (const Span& span : trace.spans) {
    const bool traced =
        std::any_of(trace.steps.begin(), trace.steps.end(), [&](const Step& step) { return step.number == span.step; });
    if (traced && (span.is_compute() || span.kind == Span::Kind::collective)) spans.push_back(&span);
  }
  const auto issued = [](const Span* s) { return s->kind == Span::Kind::collective ? s->issued : s->begin; };
  std::stable_sort(spans.begin(), spans.end(), [&](auto* a, auto* b) { return issued(a) < issued(b); });
  return spans;
}

class NodeWriter {
 public:
  NodeWriter(const RankTrace& trace, std::string& stream)
      : trace_(trace), groups_(groups_of(trace.mesh)), stream_(stream) {}

  void add(const Span& span) {
    const bool collective = span.kind == Span::Kind::collective;
    std::vector<std::uint64_t> control, data;
    std::uint64_t& before = collective ? last_collective_ : last_compute_;
    if (before != 0) control.push_back(before);
    if (collective && last_compute_ != 0) data.push_back(last_compute_);
    if (!collective) data = take_waited(span.begin);
    before = next_;
    ProtoMessage message;
    message.number(node::kId, next_)
        .text(node::kName, span.title())
        .number(node::kType, collective ? kCollective : kComputation)
        .numbers(node::kControl, control)
        .numbers(node::kData, data)
        .number(node::kStart, micros(span.begin))
        .number(node::kDuration, std::max<std::uint64_t>(1, micros(span.end - span.begin)))
        .message(node::kAttribute, number("is_cpu_op", attribute::kBool, 0));
    if (collective)
      describe_collective(message, span);
    else if (span.m > 0)
      message.message(node::kAttribute, number("num_ops", attribute::kInt64, static_cast<std::uint64_t>(span.flops)))
          .message(node::kAttribute, number("tensor_size", attribute::kUint64, product_bytes(span)));
    message.append_to(stream_);
    if (collective && span.waited > 0) under_way_.emplace_back(span.waited, next_);
    ++next_;
  }

 private:
  void describe_collective(ProtoMessage& message, const Span& span) const {
    const RankGroup* const group = group_with(groups_, span.group, trace_.rank);
    SHARD8_REQUIRE(group != nullptr, "rank {} is in no group '{}'", trace_.rank, span.group);
    const auto ranks = static_cast<std::uint64_t>(span.ranks);
    const std::uint64_t given = span.op == "all_gather" ? span.bytes / ranks : span.bytes;
    message.message(node::kAttribute, number("comm_type", attribute::kInt64, comm_type(span.op)))
        .message(node::kAttribute, number("comm_size", attribute::kInt64, given))
        .message(node::kAttribute, number("comm_priority", attribute::kInt32, 0))
        .message(node::kAttribute, text("pg_name", fmt::format("{}", group->number + 1)));
  }

  /// The collectives that had been waited for at `time`, each once.
  std::vector<std::uint64_t> take_waited(std::int64_t time) {
    std::vector<std::uint64_t> ids;
    std::erase_if(under_way_, [&](const auto& call) {
      if (call.first > time) return false;
      ids.push_back(call.second);
      return true;
    });
    return ids;
  }

  const RankTrace& trace_;
  std::vector<RankGroup> groups_;
  std::string& stream_;
  std::uint64_t next_ = 1, last_compute_ = 0, last_collective_ = 0;
  std::vector<std::pair<std::int64_t, std::uint64_t>> under_way_;  ///< when it was waited for; its node
};

}  // namespace

std::string chakra_of(const RankTrace& trace) {
  std::string stream;
  ProtoMessage()
      .text(1, "0.0.4")
      .message(2, number("rank", attribute::kUint64, static_cast<std::uint64_t>(trace.rank)))
      .message(2, number("world_size", attribute::kUint64, static_cast<std::uint64_t>(trace.ranks)))
      .append_to(stream);
  NodeWriter writer(trace, stream);
  for (const Span* span : nodes_of(trace)) writer.add(*span);
  return stream;
}

std::string chakra_groups(const RankTrace& trace) {
  nlohmann::json groups = nlohmann::json::object();
  for (const RankGroup& group : groups_of(trace.mesh)) groups[fmt::format("{}", group.number + 1)] = group.ranks;
  return groups.dump(1) + '\n';
}

}  // namespace shard8::trace
