# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# What must hold before anything is looked for.

if(PROJECT_BINARY_DIR STREQUAL PROJECT_SOURCE_DIR)
  message(FATAL_ERROR
    "in-source build refused: the build folder is the source folder ${PROJECT_SOURCE_DIR}.\n"
    "Needed: a folder of its own. Remove CMakeCache.txt and CMakeFiles/ here and run again with\n"
    "  cmake --preset cpu")
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR
    "found GCC ${CMAKE_CXX_COMPILER_VERSION} (${CMAKE_CXX_COMPILER}), need GCC 12 or newer (C++20).\n"
    "Run again in a fresh build folder with\n"
    "  -DCMAKE_CXX_COMPILER=/path/to/newer/g++")
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()
