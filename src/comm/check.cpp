// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/check.hpp"

#include <mpi.h>

#include <array>
#include <string>

#include "base/error.hpp"
#include "comm/group.hpp"

namespace shard8::comm {

void check_mpi(int status, std::string_view call, std::string_view purpose, const Group* group) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(status, text.data(), &length) != MPI_SUCCESS) length = 0;
  const std::string where =
      group == nullptr ? std::string()
                       : fmt::format(" in group '{}' on its rank {} of {}", group->name, group->rank, group->size);
  base::fail(base::ExitCode::failed, "{} for {}{} failed with status {}: {}", call, purpose, where, status,
             std::string_view(text.data(), static_cast<std::size_t>(length)));
}

}  // namespace shard8::comm
