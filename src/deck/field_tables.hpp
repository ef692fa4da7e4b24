// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "deck/field.hpp"

namespace shard8::deck {

std::span<const Field> model_fields();
std::span<const Field> mesh_fields();
std::span<const Field> precision_fields();
std::span<const Field> fp8_fields();
std::span<const Field> fsdp_fields();
std::span<const Field> optimizer_fields();
std::span<const Field> data_fields();
std::span<const Field> run_fields();
std::span<const Field> verify_fields();
std::span<const Field> output_fields();

}  // namespace shard8::deck
