// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "comm/library.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace shard8::comm {

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  SHARD8_REQUIRE(MPI_Get_library_version(text.data(), &length) == MPI_SUCCESS, "MPI does not tell its version");
  std::string line(text.data(), std::find(text.begin(), text.begin() + length, '\n'));
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

}  // namespace shard8::comm
