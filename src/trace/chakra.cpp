// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "trace/rank_trace.hpp"

namespace shard8::trace {

/// Writes one protobuf message, field by field. Source: https://protobuf.dev/programming-guides/encoding
class ProtoMessage {
 public:
  /// int32, int64, uint32, uint64, bool and enumerations. Negative numbers are not needed.
  ProtoMessage& number(int field, std::uint64_t value) {
    tag(field, 0);
    add_varint(bytes_, value);
    return *this;
  }
  /// string, bytes and messages.
  ProtoMessage& text(int field, std::string_view value) {
    tag(field, 2);
    add_varint(bytes_, value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& message(int field, const ProtoMessage& value) { return text(field, value.bytes_); }
  /// Adds a repeated uint64. An empty one is not written.
  ProtoMessage& numbers(int field, std::span<const std::uint64_t> values) {
    std::string packed;
    for (const std::uint64_t value : values) add_varint(packed, value);
    return packed.empty() ? *this : text(field, packed);
  }
  const std::string& bytes() const { return bytes_; }

  /// Adds this message to a stream of messages, each behind its length.
  void append_to(std::string& stream) const {
    add_varint(stream, bytes_.size());
    stream += bytes_;
  }

 private:
  void tag(int field, unsigned type) { add_varint(bytes_, (static_cast<std::uint64_t>(field) << 3) | type); }
  static void add_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
    out += static_cast<char>(value);
  }
  std::string bytes_;
};

namespace {

// Numbers of et_def.proto.
enum NodeType : std::uint64_t { kComputation = 4, kCollective = 7 };
enum CommType : std::uint64_t { kAllReduce = 0, kAllGather = 2, kAllToAll = 6, kReduceScatter = 7 };
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
  if (op == "all_to_all" || op == "send_receive") return kAllToAll;  // of which the latter is one part
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
  const auto groups = static_cast<std::uint64_t>(std::max<std::int64_t>(1, s.groups));
  const bool gradients = s.name == "wgrad";
  return elements(s.m, s.k) * bytes_of(s.left) + (gradients ? 1 : groups) * elements(s.k, s.n) * bytes_of(s.right) +
         (gradients ? groups : 1) * elements(s.m, s.n) * bytes_of(s.out);
}

/// Chooses the spans of a rank that matter to its execution trace, and orders them.
class SpanOrder {
 public:
  SpanOrder(const RankTrace& trace, const std::vector<RankGroup>& groups) : trace_(trace) {
    const RankGroup* const tensor = group_with(groups, "tensor", trace.rank);
    if (tensor == nullptr) return;
    const auto& ranks = tensor->ranks;
    own_ = static_cast<int>(std::find(ranks.begin(), ranks.end(), trace.rank) - ranks.begin());
    for (const Span& span : trace.spans)
      if (is_for_peer(span, "push")) pushes_[{span.unit, span.exchange}].push_back(&span);
  }

  /// Computation, collectives (at inputs_complete()) and waits for a peer's tokens in the traced steps, in issue order.
  std::vector<const Span*> spans() const {
    std::vector<std::pair<std::int64_t, const Span*>> timed;
    // When the latest work was issued. Work is in the order of the compute stream, parts behind the one that they are
    // nested in.
    std::int64_t issued = std::numeric_limits<std::int64_t>::min();
    for (const Span& span : trace_.spans) {
      const bool traced = std::any_of(trace_.steps.begin(), trace_.steps.end(),
                                      [&](const Step& step) { return step.number == span.step; });
      const bool collective = span.kind == Span::Kind::collective;
      // Without a time of issue, `begin` is one on hosts only.
      if (span.kind == Span::Kind::work && (span.issued != 0 || !trace_.on_device()))
        issued = std::max(issued, issued_at(span));
      if (traced && (collective || span.is_compute() || is_for_peer(span, "wait")))
        timed.emplace_back(collective ? inputs_complete(span) : issued, &span);
    }
    std::stable_sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<const Span*> spans;
    for (const auto& [time, span] : timed) spans.push_back(span);
    return spans;
  }

 private:
  static std::int64_t issued_at(const Span& span) { return span.issued != 0 ? span.issued : span.begin; }

  bool is_for_peer(const Span& span, std::string_view name) const {
    return span.kind == Span::Kind::work && span.name == name && span.peer >= 0 && span.peer != own_;
  }

  /// When the host had issued all that a collective sends. `pipeline` begins its reduce-scatter when the tokens of the
  /// first peer are computed; the last peer's are given with the last push.
  std::int64_t inputs_complete(const Span& collective) const {
    std::int64_t time = issued_at(collective);
    const auto pushes = pushes_.find({collective.unit, collective.exchange});
    if (collective.op != "reduce_scatter" || pushes == pushes_.end()) return time;
    const std::int64_t over = std::max(collective.end, collective.waited);
    for (const Span* push : pushes->second)
      if (push->end > collective.begin && push->begin < over) time = std::max(time, issued_at(*push));
    return time;
  }

  const RankTrace& trace_;
  int own_ = -1;                                                                    ///< index in the tensor group
  std::map<std::pair<std::string, std::string>, std::vector<const Span*>> pushes_;  ///< by unit and exchange
};

class NodeWriter {
 public:
  NodeWriter(const RankTrace& trace, const std::vector<RankGroup>& groups, std::string& stream)
      : trace_(trace), groups_(groups), stream_(stream) {}

  void add(const Span& span) {
    if (span.is_wait()) {
      wait_for_peer(span);
      return;
    }
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
    if (collective && span.waited > 0) under_way_.push_back({&span, span.waited, next_});
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

  /// The computation after a wait for the tokens of a peer uses the result of the exchange: `direct` waits for its
  /// all-gather as a whole only after the last product.
  void wait_for_peer(const Span& wait) {
    for (UnderWay& call : under_way_)
      if (call.span->unit == wait.unit && call.span->exchange == wait.exchange)
        call.waited = std::min(call.waited, wait.end);
  }

  /// The collectives that had been waited for at `time`, each once.
  std::vector<std::uint64_t> take_waited(std::int64_t time) {
    std::vector<std::uint64_t> ids;
    std::erase_if(under_way_, [&](const UnderWay& call) {
      if (call.waited > time) return false;
      ids.push_back(call.node);
      return true;
    });
    return ids;
  }

  struct UnderWay {
    const Span* span = nullptr;
    std::int64_t waited = 0;  ///< ns: from then on the compute stream uses the result, or a part of it
    std::uint64_t node = 0;
  };

  const RankTrace& trace_;
  const std::vector<RankGroup>& groups_;
  std::string& stream_;
  std::uint64_t next_ = 1, last_compute_ = 0, last_collective_ = 0;
  std::vector<UnderWay> under_way_;
};

}  // namespace

std::string chakra_of(const RankTrace& trace) {
  std::string stream;
  ProtoMessage head;
  head.text(1, "0.0.4")
      .message(2, number("rank", attribute::kUint64, static_cast<std::uint64_t>(trace.rank)))
      .message(2, number("world_size", attribute::kUint64, static_cast<std::uint64_t>(trace.ranks)));
  if (!trace.skeleton.empty()) head.message(2, text("skeleton", trace.skeleton));
  head.append_to(stream);
  const std::vector<RankGroup> groups = groups_of(trace.mesh);
  NodeWriter writer(trace, groups, stream);
  for (const Span* span : SpanOrder(trace, groups).spans()) writer.add(*span);
  return stream;
}

std::string chakra_groups(const RankTrace& trace) {
  nlohmann::json groups = nlohmann::json::object();
  for (const RankGroup& group : groups_of(trace.mesh)) groups[fmt::format("{}", group.number + 1)] = group.ranks;
  return groups.dump(1) + '\n';
}

}  // namespace shard8::trace
