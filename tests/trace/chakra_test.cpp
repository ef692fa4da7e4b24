// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/rank_trace.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/trace/example.hpp"

namespace shard8::trace::tests {
namespace {

/// A reader of protobuf's wire format that knows nothing of the writer.
struct Reader {
  std::string_view rest;
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(rest.at(0));
      rest.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw std::runtime_error("a varint is too long");
  }
  std::string_view take(std::uint64_t bytes) {
    if (bytes > rest.size()) throw std::runtime_error("a message is cut off");
    const std::string_view taken = rest.substr(0, bytes);
    rest.remove_prefix(bytes);
    return taken;
  }
};

struct Field {
  std::uint64_t number = 0;
  std::string_view text;
};
std::multimap<int, Field> fields_of(std::string_view message) {
  std::multimap<int, Field> fields;
  for (Reader reader{message}; !reader.rest.empty();) {
    const std::uint64_t tag = reader.varint();
    Field field;
    if ((tag & 7) == 0) {
      field.number = reader.varint();
    } else if ((tag & 7) == 2) {
      field.text = reader.take(reader.varint());
    } else {
      throw std::runtime_error("a wire type that is not expected");
    }
    fields.emplace(static_cast<int>(tag >> 3), field);
  }
  return fields;
}

struct Node {
  std::uint64_t id = 0, type = 0, start = 0, duration = 0;
  std::string name;
  std::vector<std::uint64_t> control, data;
  std::map<std::string, Field> attributes;
};

std::vector<std::uint64_t> numbers_of(std::string_view packed) {
  std::vector<std::uint64_t> values;
  for (Reader reader{packed}; !reader.rest.empty();) values.push_back(reader.varint());
  return values;
}

/// The nodes behind the global metadata.
std::vector<Node> nodes_of(const std::string& stream) {
  Reader reader{stream};
  const auto metadata = fields_of(reader.take(reader.varint()));
  EXPECT_EQ(metadata.find(1)->second.text, "0.0.4");
  std::vector<Node> nodes;
  while (!reader.rest.empty()) {
    Node& node = nodes.emplace_back();
    for (const auto& [field, value] : fields_of(reader.take(reader.varint()))) {
      if (field == 1) node.id = value.number;
      if (field == 2) node.name = value.text;
      if (field == 3) node.type = value.number;
      if (field == 4) node.control = numbers_of(value.text);
      if (field == 5) node.data = numbers_of(value.text);
      if (field == 6) node.start = value.number;
      if (field == 7) node.duration = value.number;
      if (field != 10) continue;
      const auto attribute = fields_of(value.text);
      for (const auto& [type, content] : attribute)
        if (type != 1) node.attributes[std::string(attribute.find(1)->second.text)] = content;
    }
  }
  return nodes;
}

TEST(Chakra, nodes_and_their_dependencies) {
  const std::string bytes = chakra_of(example());  // nodes refer to it
  const auto nodes = nodes_of(bytes);
  ASSERT_EQ(nodes.size(), 7u);
  std::map<std::string, Node> by_name;
  for (const Node& node : nodes) by_name[node.name] = node;
  for (const Node& node : nodes)
    for (const auto* deps : {&node.control, &node.data})
      for (const std::uint64_t id : *deps) EXPECT_LT(id, node.id);
  const Node& qkv = by_name.at("layer 0 qkv fprop");
  const Node& gather = by_name.at("layer 0 shard all_gather");
  const Node& exchange = by_name.at("layer 0 qkv_fprop all_gather");
  const Node& fc1 = by_name.at("layer 0 fc1 fprop");
  EXPECT_EQ(qkv.type, 4u);
  EXPECT_EQ(qkv.duration, 200u);
  EXPECT_EQ(qkv.attributes.at("num_ops").number, 1024u);
  EXPECT_EQ(qkv.attributes.at("tensor_size").number, 2u * 64 + 2 * 128 + 4 * 32);
  EXPECT_EQ(exchange.type, 7u);
  EXPECT_EQ(exchange.attributes.at("comm_type").number, 2u);
  EXPECT_EQ(exchange.attributes.at("comm_size").number, 2048u);
  EXPECT_EQ(exchange.data, std::vector{qkv.id});
  EXPECT_EQ(exchange.control, std::vector{gather.id});
  EXPECT_EQ(fc1.control, std::vector{qkv.id});
  EXPECT_EQ(fc1.data, (std::vector{gather.id, exchange.id}));
  const Node& reduction = by_name.at("layer 0 shard reduce_scatter");
  EXPECT_EQ(reduction.attributes.at("comm_type").number, 7u);
  EXPECT_EQ(reduction.attributes.at("comm_size").number, 4096u);
}

/// A rank of a tensor group of three that computes an exchange in parts.
RankTrace in_parts() {
  RankTrace trace = example(1);
  trace.ranks = 3;
  trace.mesh = {1, 1, 3};
  trace.spans.clear();
  return trace;
}

Span part_of(std::int64_t begin, std::int64_t end, const std::string& exchange, const std::string& name, int peer) {
  Span span = work(begin, end, "forward", "tensor_comm", name);
  span.exchange = exchange;
  span.peer = peer;
  return span;
}

TEST(Chakra, products_of_a_peer_depend_on_the_gather) {
  RankTrace trace = in_parts();
  Span gather = call(10, 350, "all_gather", "tensor", "qkv_fprop");
  gather.waited = 410 * kMicro;
  trace.spans = {work(0, 10, "forward", "elementwise", "norm"),
                 part_of(10, 20, "qkv_fprop", "push", -1),
                 part_of(20, 30, "qkv_fprop", "wait", 1),
                 product(30, 100, "forward", "qkv", "own"),
                 part_of(100, 150, "qkv_fprop", "wait", 0),
                 product(150, 250, "forward", "qkv", "first"),
                 part_of(250, 300, "qkv_fprop", "wait", 2),
                 product(300, 400, "forward", "qkv", "second"),
                 part_of(400, 410, "qkv_fprop", "finish", -1),
                 work(410, 500, "forward", "attention", "attention"),
                 gather};
  const std::string bytes = chakra_of(trace);  // nodes refer to it
  const auto nodes = nodes_of(bytes);
  ASSERT_EQ(nodes.size(), 6u);
  EXPECT_EQ(nodes[1].name, "layer 0 qkv_fprop all_gather");
  EXPECT_EQ(nodes[2].data, std::vector<std::uint64_t>{});
  EXPECT_EQ(nodes[3].name, "layer 0 qkv first");
  EXPECT_EQ(nodes[3].data, std::vector{nodes[1].id});
  EXPECT_EQ(nodes[4].control, std::vector{nodes[3].id});
  EXPECT_EQ(nodes[5].data, std::vector<std::uint64_t>{});
}

TEST(Chakra, a_pipeline_reduces_after_the_last_product_of_a_peer) {
  RankTrace trace = in_parts();
  trace.spans = {
      part_of(0, 10, "proj_fprop", "begin", -1),    product(10, 100, "forward", "proj", "first"),
      part_of(100, 110, "proj_fprop", "push", 2),   product(110, 200, "forward", "proj", "second"),
      part_of(200, 210, "proj_fprop", "push", 0),   product(210, 300, "forward", "proj", "own"),
      part_of(300, 310, "proj_fprop", "push", 1),   part_of(310, 400, "proj_fprop", "finish", -1),
      work(400, 500, "forward", "norm", "rmsnorm"), call(105, 400, "reduce_scatter", "tensor", "proj_fprop")};
  const std::string bytes = chakra_of(trace);  // nodes refer to it
  const auto nodes = nodes_of(bytes);
  ASSERT_EQ(nodes.size(), 5u);
  const Node& reduction = nodes[2];
  EXPECT_EQ(reduction.name, "layer 0 proj_fprop reduce_scatter");
  EXPECT_EQ(reduction.data, std::vector{nodes[1].id});
  EXPECT_EQ(nodes[3].name, "layer 0 proj own");
  EXPECT_EQ(nodes[3].data, std::vector<std::uint64_t>{});
  EXPECT_EQ(nodes[4].data, std::vector{reduction.id});
}

/// On devices the host is ahead of the stream: it issues a collective before the computation ends that makes its input.
TEST(Chakra, order_is_that_of_issue) {
  RankTrace trace = in_parts();
  trace.device = "gpu";
  const auto issue = [](Span span, std::int64_t at) {
    span.issued = at * kMicro;
    span.issue_ended = (at + 1) * kMicro;
    return span;
  };
  trace.spans = {issue(product(100, 200, "backward", "qkv", "first"), 10),
                 issue(product(200, 300, "backward", "qkv", "second"), 20),
                 issue(product(300, 400, "backward", "qkv", "third"), 40),
                 issue(call(300, 390, "reduce_scatter", "tensor", "qkv_wgrad"), 30)};
  const std::string bytes = chakra_of(trace);  // nodes refer to it
  const auto nodes = nodes_of(bytes);
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_EQ(nodes[2].name, "layer 0 qkv_wgrad reduce_scatter");
  EXPECT_EQ(nodes[2].data, std::vector{nodes[1].id});
}

TEST(Chakra, groups_are_those_of_the_nodes) {
  const auto groups = nlohmann::json::parse(chakra_groups(example()));
  for (int rank = 0; rank < 4; ++rank) {
    const std::string bytes = chakra_of(example(rank));  // nodes refer to it
    for (const Node& node : nodes_of(bytes)) {
      if (node.type != 7) continue;
      const auto& members = groups.at(std::string(node.attributes.at("pg_name").text));
      EXPECT_NE(std::find(members.begin(), members.end(), rank), members.end()) << node.name;
      EXPECT_EQ(members.size(), 2u);
    }
  }
}

}  // namespace
}  // namespace shard8::trace::tests
