// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace shard8::comm {

/// The value of an environment variable, or nothing.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;
Variables process_variables();

/// What is wrong with how the ranks were started, or nothing. It is wrong if Slurm or a launcher that speaks PMI
/// started several processes but MPI counts another number of ranks, because the library did not understand the
/// launcher. After `srun --mpi=none`, for example, each task would train alone.
std::optional<std::string> launch_problem(const Variables& variable, int ranks);

/// Whether this process reports such a problem: one of those that were started together does, which cannot agree.
bool reports_launch(const Variables& variable);

/// One line that names the MPI library and its version. Works before MPI is initialised.
std::string library_version();

}  // namespace shard8::comm
