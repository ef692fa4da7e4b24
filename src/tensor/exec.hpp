// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core_fwd.hpp>

namespace shard8::tensor {

/// The execution space of all portable kernels. Instances (streams) are passed in, first argument;
/// nobody constructs one below app.
using Exec = Kokkos::DefaultExecutionSpace;

}  // namespace shard8::tensor
