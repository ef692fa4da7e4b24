# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# Finds every package, says which, and reports all that is missing at once.
include_guard(GLOBAL)

set(shard8_missing "")

# shard8_need(CONDITION what flag-to-run-again-with apt-package spack-spec)
macro(shard8_need ok what flag apt spack)
  if(NOT (${ok}))
    string(APPEND shard8_missing
      "  ${what}\n"
      "      run again with ${flag}\n"
      "      Debian: apt-get install ${apt}    Spack: spack install ${spack}\n")
  endif()
endmacro()

# MPI. Where Debian has several, MPICH is taken, the one whose HDF5 is asked for below.
set(MPI_CXX_SKIP_MPICXX TRUE)
if(NOT MPI_CXX_COMPILER AND NOT MPI_HOME AND NOT DEFINED ENV{MPI_HOME})
  find_program(MPI_CXX_COMPILER NAMES mpicxx.mpich)
  find_program(MPIEXEC_EXECUTABLE NAMES mpiexec.mpich)
  if(NOT MPI_CXX_COMPILER)
    unset(MPI_CXX_COMPILER CACHE)
  endif()
  if(NOT MPIEXEC_EXECUTABLE)
    unset(MPIEXEC_EXECUTABLE CACHE)
  endif()
endif()
find_package(MPI 3.1 QUIET COMPONENTS CXX)
shard8_need(MPI_CXX_FOUND "MPI 3.1 or newer: no mpicxx found" "-DMPI_CXX_COMPILER=/path/to/mpicxx"
  "mpich libmpich-dev" "mpich")
if(MPI_CXX_FOUND)
  message(STATUS "MPI: standard ${MPI_CXX_VERSION}, ${MPI_CXX_COMPILER}, launcher ${MPIEXEC_EXECUTABLE}")
endif()

# HDF5, parallel, built with that MPI.
include(shard8_hdf5)
shard8_need(SHARD8_HDF5_FOUND "parallel HDF5 1.10 or newer: ${SHARD8_HDF5_PROBLEM}"
  "-DHDF5_ROOT=/path/to/hdf5 (a build with MPI)" "libhdf5-mpich-dev" "hdf5+mpi")

include(shard8_blas)
shard8_need(SHARD8_BLAS_FOUND "a BLAS with cblas.h: none found"
  "-DSHARD8_BLAS_LIBRARY=/path/to/libopenblas.so -DSHARD8_BLAS_INCLUDE_DIR=/folder/of/cblas.h"
  "libopenblas-openmp-dev" "openblas threads=openmp")

find_package(yaml-cpp CONFIG QUIET)
shard8_need(yaml-cpp_FOUND "yaml-cpp: no package configuration found"
  "-Dyaml-cpp_ROOT=/path/to/yaml-cpp" "libyaml-cpp-dev" "yaml-cpp")
if(TARGET yaml-cpp AND NOT TARGET yaml-cpp::yaml-cpp)
  add_library(shard8_yaml_cpp INTERFACE)
  target_link_libraries(shard8_yaml_cpp INTERFACE yaml-cpp)
  set_target_properties(shard8_yaml_cpp PROPERTIES EXPORT_NAME yaml_cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS shard8_yaml_cpp)
endif()

find_package(CLI11 CONFIG QUIET)
shard8_need(CLI11_FOUND "CLI11: no package configuration found"
  "-DCLI11_ROOT=/path/to/cli11" "libcli11-dev" "cli11")

find_package(fmt CONFIG QUIET)
shard8_need(fmt_FOUND "fmt: no package configuration found"
  "-Dfmt_ROOT=/path/to/fmt" "libfmt-dev" "fmt")

find_package(nlohmann_json 3 CONFIG QUIET)
shard8_need(nlohmann_json_FOUND "nlohmann-json 3: no package configuration found"
  "-Dnlohmann_json_ROOT=/path/to/nlohmann-json" "nlohmann-json3-dev" "nlohmann-json")

find_path(SHARD8_XXHASH_INCLUDE_DIR NAMES xxhash.h DOC "Folder of xxhash.h")
find_library(SHARD8_XXHASH_LIBRARY NAMES xxhash DOC "The xxHash library")
mark_as_advanced(SHARD8_XXHASH_INCLUDE_DIR SHARD8_XXHASH_LIBRARY)
set(shard8_xxhash_found FALSE)
if(SHARD8_XXHASH_INCLUDE_DIR AND SHARD8_XXHASH_LIBRARY)
  set(shard8_xxhash_found TRUE)
endif()
shard8_need(shard8_xxhash_found "xxHash: no xxhash.h or library found"
  "-DSHARD8_XXHASH_INCLUDE_DIR=... -DSHARD8_XXHASH_LIBRARY=..." "libxxhash-dev" "xxhash")
if(shard8_xxhash_found)
  add_library(shard8::xxhash UNKNOWN IMPORTED)
  set_target_properties(shard8::xxhash PROPERTIES
    IMPORTED_LOCATION "${SHARD8_XXHASH_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${SHARD8_XXHASH_INCLUDE_DIR}")
endif()

find_package(Threads QUIET)
if(SHARD8_TESTS)
  find_package(GTest CONFIG QUIET)
  shard8_need(GTest_FOUND "GoogleTest: no package configuration found (not needed with -DSHARD8_TESTS=OFF)"
    "-DGTest_ROOT=/path/to/googletest" "libgtest-dev libgmock-dev" "googletest")
endif()

include(shard8_kokkos)
shard8_need(SHARD8_KOKKOS_FOUND "Kokkos 5: ${SHARD8_KOKKOS_PROBLEM}"
  "-DKokkos_ROOT=/path/to/kokkos, or once scripts/setup for a private copy"
  "(in no stable release; scripts/setup fetches it)" "kokkos@5: +openmp")

if(SHARD8_KOKKOS_FOUND)
  include(shard8_cuda)
endif()

if(shard8_missing)
  message(FATAL_ERROR "missing packages (scripts/setup can look for them and fetch them):\n${shard8_missing}")
endif()
