// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/version.hpp"

#include "shard8_git_hash.hpp"

namespace shard8::base {

Version version() {
  return {.number = SHARD8_VERSION,
          .git_hash = SHARD8_GIT_HASH,
          .build_type = SHARD8_BUILD_TYPE,
          .compiler = SHARD8_COMPILER,
          .march = SHARD8_MARCH,
          .sanitizers = SHARD8_SANITIZERS};
}

}  // namespace shard8::base
