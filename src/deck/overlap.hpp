// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "deck/config.hpp"

namespace shard8::deck {

/// Whether fc2's wgrad can run later than fc2's dgrad, as overlap.proj_dgrad needs it: not if a recomputed matrix
/// overwrites fc2's input in FP8 before.
bool fc2_wgrad_can_wait(const Config& config);
/// Whether proj's wgrad can run when the backward of the layer below has begun, as overlap.fc2_dgrad needs it: not if
/// what that layer recomputes overwrites proj's input.
bool proj_wgrad_can_wait(const Config& config);

/// The linears whose products run beside exchanges of the tensor group.
enum class OverlapLinear { qkv, proj, fc1, fc2, head };
/// 1e9 floating-point operations of a linear's product on one rank, with all tokens of a micro-batch: 2 M N K / 1e9.
/// Forward, dgrad and wgrad have equally many.
double product_gflop(const Config& config, OverlapLinear linear);
/// Whether overlap.min_gflop lets an exchange run beside a product of this linear.
bool large_enough(const Config& config, OverlapLinear linear);

/// In how many products a pipeline on devices multiplies the tokens of each other rank: overlap.chunks, or where that
/// is 0, 2 in a group of two ranks and 1 in larger groups. With two ranks nothing is sent until the first product ends,
/// so it should be short; with more, the tokens of other ranks already are several products.
int pipeline_chunks(const Config& config);

/// The keys of the group overlap that are ring, in the order of the table. None if nothing can overlap.
std::vector<std::string_view> ring_overlap_keys(const Config& config);
/// What to set a key that is ring to where there is no ring: direct or pipeline.
std::string_view instead_of_ring(std::string_view key);

/// Which exchanges run beside products, for the report's header. A key that is auto counts as its method, and the text
/// says so.
std::string describe_overlap(const Config& config);

/// The keys of the group overlap that are auto, in the order of the table. None if nothing can overlap: overlap.enable
/// is false, or mesh.tensor is 1.
std::vector<std::string_view> auto_overlap_keys(const Config& config);
/// Sets a key of the group overlap that has a method, to "auto", "off" or the name of a method. std::logic_error for
/// another key or value.
void set_overlap_key(Config& config, std::string_view key, std::string_view value);

}  // namespace shard8::deck
