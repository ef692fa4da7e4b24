# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shard8::blas, a BLAS with the C interface. First what was named on the command line,
# then OpenBLAS (its OpenMP variant first, so that it shares Kokkos' threads), then
# whatever FindBLAS knows (BLA_VENDOR chooses).

set(SHARD8_BLAS_FOUND FALSE)
if(NOT BLA_VENDOR)
  find_library(SHARD8_BLAS_LIBRARY NAMES openblas PATH_SUFFIXES openblas-openmp
    DOC "The BLAS library")
endif()
if(NOT SHARD8_BLAS_LIBRARY)
  unset(SHARD8_BLAS_LIBRARY CACHE)
  find_package(BLAS QUIET)
  if(BLAS_FOUND)
    set(SHARD8_BLAS_LIBRARY "${BLAS_LIBRARIES}" CACHE STRING "The BLAS library" FORCE)
  endif()
endif()
if(SHARD8_BLAS_LIBRARY)
  list(GET SHARD8_BLAS_LIBRARY 0 shard8_blas_first)
  get_filename_component(shard8_blas_dir "${shard8_blas_first}" DIRECTORY)
  find_path(SHARD8_BLAS_INCLUDE_DIR NAMES cblas.h
    HINTS "${shard8_blas_dir}/../include" "${shard8_blas_dir}/include"
    PATH_SUFFIXES openblas-openmp openblas mkl DOC "Folder of cblas.h")
  if(SHARD8_BLAS_INCLUDE_DIR)
    set(SHARD8_BLAS_FOUND TRUE)
    add_library(shard8::blas INTERFACE IMPORTED)
    set_target_properties(shard8::blas PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${SHARD8_BLAS_INCLUDE_DIR}"
      INTERFACE_LINK_LIBRARIES "${SHARD8_BLAS_LIBRARY}")
    # Debian chooses between the variants of libopenblas.so.0 for the whole system;
    # this program keeps the one that it was linked with.
    if(shard8_blas_dir MATCHES "openblas-openmp$")
      set_property(TARGET shard8::blas APPEND PROPERTY
        INTERFACE_LINK_OPTIONS "LINKER:-rpath,${shard8_blas_dir}")
    endif()
    message(STATUS "BLAS: ${SHARD8_BLAS_LIBRARY}")
  endif()
endif()
mark_as_advanced(SHARD8_BLAS_LIBRARY SHARD8_BLAS_INCLUDE_DIR)
