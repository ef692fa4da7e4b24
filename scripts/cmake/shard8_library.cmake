# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0

# shard8_library(NAME [SOURCES file.cpp...] [KOKKOS file.cpp...] [LINKS target...])
#
# The one library of a folder: target shard8_NAME, alias shard8::NAME. SOURCES and KOKKOS are
# relative to the folder and listed by hand; without them the library has headers only. KOKKOS are
# those that include Kokkos: they link it, and with a Kokkos for CUDA its compiler compiles them.
# LINKS are what its headers or sources include: folders strictly below, and packages.
function(shard8_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;KOKKOS;LINKS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "shard8_library(${name}): unexpected '${arg_UNPARSED_ARGUMENTS}'; "
      "allowed are SOURCES, KOKKOS and LINKS")
  endif()
  set(target shard8_${name})
  if(arg_SOURCES OR arg_KOKKOS)
    add_library(${target} STATIC ${arg_SOURCES} ${arg_KOKKOS})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:shard8_warnings> PUBLIC shard8_abi ${arg_LINKS})
    if(arg_KOKKOS)
      target_link_libraries(${target} PUBLIC shard8::kokkos)
      shard8_device_sources(${arg_KOKKOS})
    endif()
    set(src "${PROJECT_SOURCE_DIR}/src")
    cmake_path(IS_PREFIX src "${CMAKE_CURRENT_SOURCE_DIR}" inside)  # kernels have flags of their own
    if(SHARD8_UNITY AND inside)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    endif()
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE shard8_abi ${arg_LINKS})
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope}
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>" "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
    "$<INSTALL_INTERFACE:include/shard8>")
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  add_library(shard8::${name} ALIAS ${target})
endfunction()

# shard8_device_sources(file.cpp...): sources that include Kokkos, see shard8_library.
function(shard8_device_sources)
  if(SHARD8_CUDA)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CUDA)
  endif()
endfunction()

# shard8_program(NAME SOURCES file.cpp... LINKS target...)
#
# An executable, built into bin/.
function(shard8_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE shard8_warnings shard8_abi ${arg_LINKS})
endfunction()
