# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shard8_git_hash: an interface target with a header that holds the git hash, looked up at
# every build and rewritten only when it changed.

set(shard8_generated "${PROJECT_BINARY_DIR}/generated")
add_custom_target(shard8_git_hash_header
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}"
    "-DOUTPUT=${shard8_generated}/shard8_git_hash.hpp"
    -P "${PROJECT_SOURCE_DIR}/scripts/cmake/write_git_hash.cmake"
  BYPRODUCTS "${shard8_generated}/shard8_git_hash.hpp"
  COMMENT ""
  VERBATIM)

add_library(shard8_git_hash INTERFACE)
add_dependencies(shard8_git_hash shard8_git_hash_header)
target_include_directories(shard8_git_hash INTERFACE "${shard8_generated}")
target_compile_definitions(shard8_git_hash INTERFACE
  "SHARD8_VERSION=\"${PROJECT_VERSION}\""
  "SHARD8_BUILD_TYPE=\"${CMAKE_BUILD_TYPE}\""
  "SHARD8_COMPILER=\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\""
  "SHARD8_MARCH=\"${SHARD8_MARCH}\""
  "SHARD8_SANITIZERS=\"${SHARD8_SANITIZE}\"")
