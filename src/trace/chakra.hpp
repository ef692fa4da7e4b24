// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trace/rank_trace.hpp"

namespace shard8::trace {

/// The Chakra execution trace of one rank (mlcommons/chakra, schema/protobuf/et_def.proto): GlobalMetadata, then a Node
/// for each span of computation and each collective that the traced steps issued, each message behind its length.
///
/// Computation depends on the computation before it and on the collectives that it waited for, as a whole or for the
/// tokens of a peer. A collective depends on the computation that was issued before it, of a pipeline before its last
/// push to a peer, and on the collective before it: all ranks issue their collectives in one order.
/// `comm_size` is what a rank gives to a collective, in bytes: of an all-gather its own rows.
std::string chakra_of(const RankTrace& trace);

/// The groups of ranks as ASTRA-sim reads them (--comm-group-configuration): {"1": [0, 1], ...}. The names are the
/// values of the nodes' attribute pg_name.
std::string chakra_groups(const RankTrace& trace);

}  // namespace shard8::trace
