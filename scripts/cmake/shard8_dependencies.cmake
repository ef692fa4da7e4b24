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

# shard8_need_package(PACKAGE what apt-package spack-spec [version]): a package with a configuration of its own
macro(shard8_need_package package what apt spack)
  find_package(${package} ${ARGN} CONFIG QUIET)
  shard8_need(${package}_FOUND "${what}: no package configuration found"
    "-D${package}_ROOT=/path/to/${spack}" "${apt}" "${spack}")
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

shard8_need_package(CLI11 CLI11 libcli11-dev cli11)
shard8_need_package(fmt fmt libfmt-dev fmt)
shard8_need_package(nlohmann_json "nlohmann-json 3" nlohmann-json3-dev nlohmann-json 3)
shard8_need_package(yaml-cpp yaml-cpp libyaml-cpp-dev yaml-cpp)
if(TARGET yaml-cpp AND NOT TARGET yaml-cpp::yaml-cpp)
  add_library(shard8_yaml_cpp INTERFACE)
  target_link_libraries(shard8_yaml_cpp INTERFACE yaml-cpp)
  set_target_properties(shard8_yaml_cpp PROPERTIES EXPORT_NAME yaml_cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS shard8_yaml_cpp)
endif()

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
  shard8_need_package(GTest "GoogleTest (not needed with -DSHARD8_TESTS=OFF)" "libgtest-dev libgmock-dev" googletest)
endif()

include(shard8_kokkos)
shard8_need(SHARD8_KOKKOS_FOUND "Kokkos 5: ${SHARD8_KOKKOS_PROBLEM}"
  "-DKokkos_ROOT=/path/to/kokkos, or once scripts/setup for a private copy"
  "(in no stable release; scripts/setup fetches it)" "kokkos@5: +openmp")

if(SHARD8_KOKKOS_FOUND)
  include(shard8_cuda)
  include(shard8_cutlass)
endif()

if(shard8_missing)
  message(FATAL_ERROR "missing packages (scripts/setup can look for them and fetch them):\n${shard8_missing}")
endif()
