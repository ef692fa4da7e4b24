# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shard8::kokkos. A site's own comes first (Kokkos_ROOT, CMAKE_PREFIX_PATH, a module);
# else the private copy that scripts/setup keeps in the user's cache.

if(DEFINED ENV{XDG_CACHE_HOME})
  set(shard8_cache "$ENV{XDG_CACHE_HOME}/shard8")
else()
  set(shard8_cache "$ENV{HOME}/.cache/shard8")
endif()
set(shard8_kokkos_private "${shard8_cache}/kokkos/prefix/usr")

set(SHARD8_KOKKOS_FOUND FALSE)
find_package(Kokkos 5.0 QUIET CONFIG OPTIONAL_COMPONENTS separable_compilation)
if(NOT Kokkos_FOUND)
  set(shard8_kokkos_seen "${Kokkos_CONSIDERED_CONFIGS}")
  set(shard8_kokkos_seen_versions "${Kokkos_CONSIDERED_VERSIONS}")
  if(NOT Kokkos_ROOT AND NOT DEFINED ENV{Kokkos_ROOT})
    unset(Kokkos_DIR CACHE)
    # The program, Kokkos and BLAS share the libgomp that lies beside this Kokkos.
    file(GLOB shard8_gomp "${shard8_kokkos_private}/lib/*/libgomp.so.1")
    if(shard8_gomp)
      set(OpenMP_gomp_LIBRARY "${shard8_gomp}" CACHE FILEPATH "The OpenMP run-time library" FORCE)
    endif()
    find_package(Kokkos 5.0 QUIET CONFIG OPTIONAL_COMPONENTS separable_compilation
      NO_DEFAULT_PATH PATHS "${shard8_kokkos_private}")
  endif()
endif()

if(Kokkos_FOUND)
  set(SHARD8_KOKKOS_FOUND TRUE)
  set(shard8_kokkos_origin "the site's")
  string(FIND "${Kokkos_DIR}" "${shard8_kokkos_private}/" shard8_kokkos_at)
  if(shard8_kokkos_at EQUAL 0)
    set(shard8_kokkos_origin "private copy")
  endif()
  message(STATUS "Kokkos: ${Kokkos_VERSION}, ${shard8_kokkos_origin}, backends ${Kokkos_DEVICES}, ${Kokkos_DIR}")
elseif(shard8_kokkos_seen)
  set(SHARD8_KOKKOS_PROBLEM "found only ${shard8_kokkos_seen_versions} (${shard8_kokkos_seen})")
else()
  set(SHARD8_KOKKOS_PROBLEM "found neither a site's nor a private copy in ${shard8_kokkos_private}")
endif()

# The private copy was built for a newer C library than the system's and comes with it.
# Executables that use it start with the loader that lies beside it, and look there first
# for the libraries of libraries too (rpath, not runpath); one libgomp then serves
# Kokkos, BLAS and the program. shard8_install.cmake brings both with the program (SHARD8_PRIVATE_LOADER: empty if none).
set(SHARD8_PRIVATE_LOADER "")
if(Kokkos_FOUND)
  get_target_property(shard8_kokkos_lib Kokkos::kokkoscore LOCATION)
  get_filename_component(shard8_kokkos_libdir "${shard8_kokkos_lib}" DIRECTORY)
  file(GLOB shard8_loader "${shard8_kokkos_libdir}/ld-linux*.so.*")
  if(shard8_loader AND NOT shard8_kokkos_libdir IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    list(GET shard8_loader 0 shard8_loader)
    set_property(TARGET Kokkos::kokkoscore APPEND PROPERTY INTERFACE_LINK_OPTIONS
      "LINKER:--dynamic-linker=${shard8_loader}"
      "LINKER:--disable-new-dtags"
      "LINKER:-rpath,${shard8_kokkos_libdir}"
      "LINKER:--allow-shlib-undefined")
    set(SHARD8_PRIVATE_LOADER "${shard8_loader}")
    message(STATUS "Kokkos: executables start with ${shard8_loader}")
  endif()
endif()

# Where kernels run: Kokkos' default execution space, by its own order of preference.
set(SHARD8_CUDA FALSE)
if(Kokkos_FOUND)
  set(SHARD8_EXEC_SPACE Serial)
  foreach(shard8_space IN ITEMS Threads OpenMP Cuda)
    string(TOUPPER ${shard8_space} shard8_device)
    if(shard8_device IN_LIST Kokkos_DEVICES)
      set(SHARD8_EXEC_SPACE ${shard8_space})
    endif()
  endforeach()
  foreach(shard8_device IN ITEMS HIP SYCL OPENACC)
    if(shard8_device IN_LIST Kokkos_DEVICES)
      set(SHARD8_KOKKOS_FOUND FALSE)
      set(SHARD8_KOKKOS_PROBLEM "that of ${Kokkos_DIR} is built for ${shard8_device}; hosts and CUDA are supported")
    endif()
  endforeach()
  if(SHARD8_EXEC_SPACE STREQUAL "Cuda")
    set(SHARD8_CUDA TRUE)
  endif()
endif()

# What includes Kokkos is compiled for the device by CUDA's own compiler, as CMake's language CUDA
# (shard8_library sees to that), everything else by the C++ compiler: so this has nothing of the
# flags of Kokkos' compiler wrapper, whichever way that Kokkos was built.
add_library(shard8_kokkos INTERFACE)
add_library(shard8::kokkos ALIAS shard8_kokkos)
if(SHARD8_CUDA)
  get_target_property(shard8_kokkos_includes Kokkos::kokkoscore INTERFACE_INCLUDE_DIRECTORIES)
  target_include_directories(shard8_kokkos SYSTEM INTERFACE ${shard8_kokkos_includes})
  target_compile_options(shard8_kokkos INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda;--expt-relaxed-constexpr>")
  target_link_libraries(shard8_kokkos INTERFACE
    "$<TARGET_FILE:Kokkos::kokkoscore>" CUDA::cuda_driver CUDA::cudart ${CMAKE_DL_LIBS})
  if("OPENMP" IN_LIST Kokkos_DEVICES)
    target_link_libraries(shard8_kokkos INTERFACE OpenMP::OpenMP_CXX)
    target_compile_options(shard8_kokkos INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${OpenMP_CXX_FLAGS}>")
  endif()
elseif(Kokkos_FOUND)
  target_link_libraries(shard8_kokkos INTERFACE Kokkos::kokkos)
endif()
