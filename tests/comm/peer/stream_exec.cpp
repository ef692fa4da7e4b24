// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/peer/stream_exec.hpp"

#include <Kokkos_Core.hpp>

namespace shard8::comm::tests {

struct StreamExec::Instance {
  tensor::Exec exec;
};

StreamExec::StreamExec(cudaStream_t stream) : instance_(std::make_unique<Instance>(tensor::Exec(stream))) {}
StreamExec::~StreamExec() = default;
const tensor::Exec& StreamExec::get() const { return instance_->exec; }

}  // namespace shard8::comm::tests
