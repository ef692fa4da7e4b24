// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "io/hdf5_version.hpp"

#include <fmt/format.h>
#include <hdf5.h>

#include "base/error.hpp"

namespace shard8::io {

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  SHARD8_REQUIRE(H5get_libversion(&major, &minor, &release) >= 0, "HDF5 does not tell its version");
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace shard8::io
