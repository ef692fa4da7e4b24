// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/lt_gemm.hpp"
#include "kernels/cuda/sdpa.hpp"
#include "kernels/libraries.hpp"

namespace shard8::kernels {

struct Libraries::Parts {
  cuda::LtGemm gemm;
  cuda::Sdpa sdpa;
};

/// The handles in a workspace. Throws Error(failed), naming the kernel, if the workspace has no libraries.
Libraries::Parts& parts_of(const Workspace& workspace, const char* kernel);

}  // namespace shard8::kernels
