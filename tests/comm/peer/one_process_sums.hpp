// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "comm/mpi/sums.hpp"
#include "comm/peer/push_sums.hpp"
#include "comm/peer/sum_parts.hpp"
#include "tests/comm/peer/one_process.hpp"

namespace shard8::comm::tests {

/// The ranks of a group that reduce-scatter wholes of kRows rows of fp32 a rank.
struct Scatters {
  static constexpr std::int64_t kRows = 10007;

  explicit Scatters(int size, SumOrder of_sums = SumOrder::ranks) : order(of_sums), wholes(size, kRows * size) {
    const std::size_t bytes = Communicator::reduce_memory_bytes(kRows * sizeof(float), size);
    const std::size_t all = PeerBlock::memory_bytes(bytes, size);
    std::vector<std::byte*> base;
    for (int r = 0; r < size; ++r) {
      base.push_back(memory.emplace_back(std::make_unique<Memory>(all))->data());
      out.push_back(std::make_unique<Memory>(kRows * sizeof(float)));
    }
    for (int r = 0; r < size; ++r) {
      streams.push_back(std::make_unique<Stream>());
      sums.push_back(std::make_unique<peer::PushSums>(std::make_shared<PeerAddresses>(r, base, all), bytes,
                                                      streams.back()->get(), order));
      items.push_back({{out[static_cast<std::size_t>(r)]->data(), {kRows}, tensor::DType::fp32},
                       {const_cast<std::byte*>(wholes.of(r)), {kRows * size}, tensor::DType::fp32}});
    }
  }
  /// The sum of rank r's rows, as hosts add them.
  Buffer sum_of(int r) const {
    Buffer sum(tensor::Shape{kRows}, tensor::DType::fp32);
    std::vector<const std::byte*> sources;
    for (std::size_t from = 0; from < sums.size(); ++from)
      sources.push_back(wholes.all().data() + from * wholes.bytes() +
                        static_cast<std::size_t>(r * kRows) * sizeof(float));
    sum_in_order(sum.bytes().data(), sources, kRows, tensor::DType::fp32, order);
    return sum;
  }

  /// CUDA loads a kernel at its first launch, and must not do so while a stream waits. There is a kernel for each
  /// number of parts: with and without an addend.
  void load_kernels() {
    peer::Parts parts;
    parts.order = order;
    for (int r = 0; r < static_cast<int>(sums.size()); ++r) parts.add(wholes.of(r));
    for (int addend = 0; addend < 2; ++addend) {
      peer::sum_parts(streams[0]->get(), out[0]->data(), tensor::DType::fp32, kRows, parts);
      parts.add_addend(wholes.of(0));
    }
    SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
  }

  SumOrder order;
  Parts wholes;
  std::vector<std::unique_ptr<Memory>> memory, out;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<peer::PushSums>> sums;
  std::vector<Communicator::ReduceScatterItem> items;
};

}  // namespace shard8::comm::tests
