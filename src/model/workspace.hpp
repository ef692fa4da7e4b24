// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "fp8/recipe.hpp"
#include "model/dims.hpp"

namespace shard8::model {

/// Bytes of Context::workspace: the most that any operation of a model of these sizes needs.
std::size_t workspace_bytes(const Dims& dims, const fp8::Recipe& recipe, int threads);

}  // namespace shard8::model
