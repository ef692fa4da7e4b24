# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shard8::hdf5, the C library of an HDF5 built with MPI. (FindHDF5 asks the wrapper of a
# C compiler, which a C++ project does not have, and on Debian may meet another MPI's.)

set(SHARD8_HDF5_FOUND FALSE)
set(SHARD8_HDF5_PROBLEM "no hdf5.h or libhdf5 found")
set(shard8_hdf5_flavour mpich)
if(MPI_CXX_COMPILER MATCHES "openmpi|ompi")
  set(shard8_hdf5_flavour openmpi)
endif()
set(shard8_hdf5_hints ${HDF5_ROOT} $ENV{HDF5_ROOT} $ENV{HDF5_DIR})
find_path(SHARD8_HDF5_INCLUDE_DIR NAMES hdf5.h
  HINTS ${shard8_hdf5_hints} PATH_SUFFIXES include hdf5/${shard8_hdf5_flavour}
  DOC "Folder of hdf5.h")
find_library(SHARD8_HDF5_LIBRARY NAMES hdf5
  HINTS ${shard8_hdf5_hints} PATH_SUFFIXES lib lib64 hdf5/${shard8_hdf5_flavour}
  DOC "The HDF5 C library")
mark_as_advanced(SHARD8_HDF5_INCLUDE_DIR SHARD8_HDF5_LIBRARY)

if(SHARD8_HDF5_INCLUDE_DIR AND SHARD8_HDF5_LIBRARY)
  file(STRINGS "${SHARD8_HDF5_INCLUDE_DIR}/H5public.h" shard8_h5_version
    REGEX "^#define H5_VERS_(MAJOR|MINOR|RELEASE)")
  string(REGEX REPLACE "[^0-9;]*H5_VERS_[A-Z]+[ \t]+([0-9]+)[^;]*" "\\1" shard8_h5_version
    "${shard8_h5_version}")
  list(JOIN shard8_h5_version "." shard8_h5_version)
  file(STRINGS "${SHARD8_HDF5_INCLUDE_DIR}/H5pubconf.h" shard8_h5_parallel
    REGEX "^#define H5_HAVE_PARALLEL 1")
  if(NOT shard8_h5_parallel)
    set(SHARD8_HDF5_PROBLEM
      "${SHARD8_HDF5_LIBRARY} (${shard8_h5_version}) was built without MPI")
  elseif(shard8_h5_version VERSION_LESS 1.10)
    set(SHARD8_HDF5_PROBLEM "found ${shard8_h5_version} in ${SHARD8_HDF5_LIBRARY}")
  else()
    set(SHARD8_HDF5_FOUND TRUE)
    add_library(shard8::hdf5 UNKNOWN IMPORTED)
    set_target_properties(shard8::hdf5 PROPERTIES
      IMPORTED_LOCATION "${SHARD8_HDF5_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${SHARD8_HDF5_INCLUDE_DIR}"
      INTERFACE_LINK_LIBRARIES MPI::MPI_CXX)
    message(STATUS "HDF5: ${shard8_h5_version}, parallel, ${SHARD8_HDF5_LIBRARY}")
  endif()
endif()
