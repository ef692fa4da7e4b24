// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace shard8::comm {

class Group;

/// Throws Error(failed) with the call, what it was for, the group, this rank and MPI's own message
/// unless `status` is MPI_SUCCESS. `group` may be null before there is one.
void check_mpi(int status, std::string_view call, std::string_view purpose, const Group* group);

}  // namespace shard8::comm
