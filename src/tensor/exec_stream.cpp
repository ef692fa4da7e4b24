// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <Kokkos_Core.hpp>

#include "tensor/cuda/stream.hpp"

namespace shard8::tensor::cuda {

cudaStream_t stream_of(const Exec& exec) { return exec.cuda_stream(); }

}  // namespace shard8::tensor::cuda
