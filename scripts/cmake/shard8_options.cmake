# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# Options of the build, and the flags that every target of the project takes from
# the two interface targets below. Nothing here is a global flag.

option(SHARD8_TESTS "Build the tests (needs GoogleTest)" ${PROJECT_IS_TOP_LEVEL})
option(SHARD8_UNITY "Compile the sources of a folder eight at a time: most of their time is that of shared headers" ON)
option(SHARD8_INSTALL "Offer installation (cmake --install)" ${PROJECT_IS_TOP_LEVEL})
set(SHARD8_MARCH "native" CACHE STRING
  "Instruction set, as in -march=...; empty for the compiler's own default")
set(SHARD8_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=...; empty for none")

find_program(SHARD8_CCACHE ccache DOC "Compiler cache, used when found")
mark_as_advanced(SHARD8_CCACHE)
if(SHARD8_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${SHARD8_CCACHE}")
endif()

# Standard, instruction set, sanitizers: must be the same in every object of the build. Projects that use the installed
# libraries choose their own instruction set: no type in the headers depends on it.
add_library(shard8_abi INTERFACE)
set_target_properties(shard8_abi PROPERTIES EXPORT_NAME abi)
target_compile_features(shard8_abi INTERFACE cxx_std_20)
if(SHARD8_MARCH)
  target_compile_options(shard8_abi INTERFACE "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-march=${SHARD8_MARCH}>>"
    "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-march=${SHARD8_MARCH}>>")
endif()
if(SHARD8_SANITIZE)
  target_compile_options(shard8_abi INTERFACE
    "-fsanitize=${SHARD8_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(shard8_abi INTERFACE "-fsanitize=${SHARD8_SANITIZE}")
endif()

option(SHARD8_WERROR "Warnings of the compiler are errors" ON)
add_library(shard8_warnings INTERFACE)
target_compile_options(shard8_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")  # the rest is not for what nvcc generates
if(SHARD8_WERROR)
  target_compile_options(shard8_warnings INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Werror>" "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
# Host functions that templates name but devices never call, and comparisons that a type decides.
target_compile_options(shard8_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:--diag-suppress=20011,20012,20014,186;-Xcompiler=-Wno-unknown-pragmas>")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND SHARD8_SANITIZE)
  # With sanitizers GCC takes an empty std::optional in Kokkos' headers for one that is read.
  target_compile_options(shard8_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of overlaps in `"text" + std::string` that are none (GCC bug 105651).
  target_compile_options(shard8_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>")
endif()

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
