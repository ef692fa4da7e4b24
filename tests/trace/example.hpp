// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "trace/rank_trace.hpp"

namespace shard8::trace::tests {

constexpr std::int64_t kMicro = 1000;  // ns

inline Span work(std::int64_t begin, std::int64_t end, const std::string& phase, const std::string& part,
                 const std::string& name, const std::string& unit = "layer 0") {
  Span span;
  span.begin = begin * kMicro;
  span.end = end * kMicro;
  span.step = 3;
  span.unit = unit;
  span.phase = phase;
  span.part = part;
  span.name = name;
  return span;
}

inline Span product(std::int64_t begin, std::int64_t end, const std::string& phase, const std::string& linear,
                    const std::string& name) {
  Span span = work(begin, end, phase, "gemm", name);
  span.linear = linear;
  span.m = 4;
  span.n = 8;
  span.k = 16;
  span.left = span.right = "bf16";
  span.out = "fp32";
  span.flops = 2.0 * 4 * 8 * 16;
  return span;
}

inline Span call(std::int64_t begin, std::int64_t end, const std::string& op, const std::string& group,
                 const std::string& exchange = "") {
  Span span;
  span.kind = Span::Kind::collective;
  span.begin = span.issued = begin * kMicro;
  span.end = end * kMicro;
  span.step = 3;
  span.unit = "layer 0";
  span.op = op;
  span.group = group;
  span.dtype = "fp32";
  span.ranks = 2;
  span.bytes = 4096;
  span.waited = end * kMicro;
  span.exchange = exchange;
  return span;
}

/// One step of a rank of the mesh 1 × 2 × 2: a gather of weights overlapped with a product, an exchange that is waited
/// for, a product, backward.
inline RankTrace example(int rank = 0) {
  RankTrace trace;
  trace.run = "run";
  trace.rank = rank;
  trace.ranks = 4;
  trace.host = "here";
  trace.device = "host";
  trace.mesh = {1, 2, 2};
  trace.clock = {{1000, 0, 0}, {2000000, 0, 0}};
  trace.steps = {{3, 0, 1000 * kMicro}};
  Span wait = work(300, 400, "forward", "tensor_comm", "wait");
  wait.exchange = "qkv_fprop";
  Span update = work(900, 1000, "optimizer", "", "adamw");
  trace.spans = {work(0, 100, "data", "", "load", ""),
                 product(100, 300, "forward", "qkv", "fprop"),
                 wait,
                 product(400, 500, "forward", "fc1", "fprop"),
                 product(500, 900, "backward", "fc1", "dgrad"),
                 update,
                 call(50, 250, "all_gather", "shard"),
                 call(290, 400, "all_gather", "tensor", "qkv_fprop"),
                 call(600, 950, "reduce_scatter", "shard")};
  return trace;
}

}  // namespace shard8::trace::tests
