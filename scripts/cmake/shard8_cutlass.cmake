# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shard8::cutlass: the headers of CUTLASS, for kernels that compute block-scaled FP8 products beside cuBLASLt. A site's own
# come first (CUTLASS_ROOT, CMAKE_PREFIX_PATH), else the private copy that scripts/setup keeps in the user's cache.
#
# SHARD8_CUTLASS  auto: used in builds for GPUs where the headers are found; on: needed; off: not used

set(SHARD8_CUTLASS auto CACHE STRING "CUTLASS's kernels beside cuBLASLt's: auto, on or off")
set_property(CACHE SHARD8_CUTLASS PROPERTY STRINGS auto on off)
string(TOLOWER "${SHARD8_CUTLASS}" shard8_cutlass)
if(NOT shard8_cutlass MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR "SHARD8_CUTLASS is '${SHARD8_CUTLASS}'; allowed are auto, on and off")
endif()

# Older versions spill registers in the kernels' tile, 256×128.
set(shard8_cutlass_oldest 4.5)
set(shard8_cutlass_problem "")
set(SHARD8_CUTLASS_FOUND FALSE)
if(shard8_cutlass STREQUAL "off")
  set(shard8_cutlass_problem "SHARD8_CUTLASS is off")
elseif(NOT SHARD8_PLAIN_CUDA OR (shard8_cutlass STREQUAL "auto" AND NOT SHARD8_CUDA))
  set(shard8_cutlass_problem "this build is not for GPUs")
elseif(NOT CMAKE_CUDA_ARCHITECTURES MATCHES "(^|;)90")
  set(shard8_cutlass_problem "its kernels are for compute capability 9.0, this build is for ${CMAKE_CUDA_ARCHITECTURES}")
else()
  find_path(SHARD8_CUTLASS_INCLUDE_DIR NAMES cutlass/version.h HINTS "${CUTLASS_ROOT}" "$ENV{CUTLASS_ROOT}"
    PATHS "${shard8_cache}/cutlass/prefix" PATH_SUFFIXES include DOC "Folder of cutlass/version.h")
  mark_as_advanced(SHARD8_CUTLASS_INCLUDE_DIR)
  set(shard8_cutlass_version 0)
  if(SHARD8_CUTLASS_INCLUDE_DIR)
    file(STRINGS "${SHARD8_CUTLASS_INCLUDE_DIR}/cutlass/version.h" shard8_cutlass_lines
      REGEX "^#define CUTLASS_(MAJOR|MINOR|PATCH) +[0-9]+")
    list(TRANSFORM shard8_cutlass_lines REPLACE "^#define CUTLASS_[A-Z]+ +([0-9]+).*" "\\1")
    list(JOIN shard8_cutlass_lines "." shard8_cutlass_version)
  endif()
  if(NOT SHARD8_CUTLASS_INCLUDE_DIR)
    set(shard8_cutlass_problem "no cutlass/version.h found")
  elseif(shard8_cutlass_version VERSION_LESS shard8_cutlass_oldest)
    set(shard8_cutlass_problem "${SHARD8_CUTLASS_INCLUDE_DIR} has ${shard8_cutlass_version}")
  else()
    set(SHARD8_CUTLASS_FOUND TRUE)
    add_library(shard8_cutlass INTERFACE IMPORTED GLOBAL)
    target_include_directories(shard8_cutlass SYSTEM INTERFACE "${SHARD8_CUTLASS_INCLUDE_DIR}")
    add_library(shard8::cutlass ALIAS shard8_cutlass)
    message(STATUS "CUTLASS: ${shard8_cutlass_version}, ${SHARD8_CUTLASS_INCLUDE_DIR}")
  endif()
endif()

if(shard8_cutlass STREQUAL "on" AND NOT SHARD8_CUTLASS_FOUND)
  message(FATAL_ERROR "SHARD8_CUTLASS is on, but ${shard8_cutlass_problem}; needed is a build with CUDA for compute "
    "capability 9.0, and CUTLASS ${shard8_cutlass_oldest} or newer: run again with -DCUTLASS_ROOT=/path/to/cutlass, or "
    "once scripts/setup cuda for a private copy")
elseif(SHARD8_CUDA AND NOT SHARD8_CUTLASS_FOUND)
  message(STATUS "CUTLASS: left out, ${shard8_cutlass_problem} (used from ${shard8_cutlass_oldest} on); "
    "cuBLASLt computes all products")
endif()
