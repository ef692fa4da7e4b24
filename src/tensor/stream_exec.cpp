// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/stream_exec.hpp"

#include <Kokkos_Core.hpp>

#include "base/error.hpp"

namespace shard8::tensor {

struct StreamExec::Instance {
  Exec exec;
};

StreamExec::StreamExec([[maybe_unused]] void* stream) {
#if defined(SHARD8_CUDA)
  instance_ = std::make_unique<Instance>(Exec(static_cast<cudaStream_t>(stream)));
#else
  base::fail(base::ExitCode::failed, "hosts have no streams");
#endif
}
StreamExec::~StreamExec() = default;
const Exec& StreamExec::get() const { return instance_->exec; }

}  // namespace shard8::tensor
