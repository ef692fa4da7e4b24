// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/lt_gemm.hpp"
#include "kernels/cuda/sdpa.hpp"
#include "kernels/libraries.hpp"
#include "kernels/workspace.hpp"

namespace shard8::kernels {

struct Libraries::Parts {
  cuda::LtGemm gemm;
  cuda::Sdpa sdpa;
};

/// The libraries that a kernel was lent; an error that names the kernel if there are none.
Libraries::Parts& parts_of(const Workspace& workspace, const char* kernel);

}  // namespace shard8::kernels
