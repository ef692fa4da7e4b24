# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# CUDA: a compiler, its toolkit and NVIDIA's libraries. With a Kokkos for CUDA all are needed. Without
# one the plain CUDA parts (SHARD8_PLAIN_CUDA) are still compiled wherever they are found.

set(SHARD8_PLAIN_CUDA FALSE)
set(shard8_cuda_missing "")

if(SHARD8_CUDA AND CMAKE_CUDA_ARCHITECTURES AND NOT "${CMAKE_CUDA_ARCHITECTURES}" STREQUAL "${Kokkos_CUDA_ARCHITECTURES}")
  message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES is '${CMAKE_CUDA_ARCHITECTURES}', but the Kokkos of ${Kokkos_DIR} "
    "is built for '${Kokkos_CUDA_ARCHITECTURES}': leave CMAKE_CUDA_ARCHITECTURES out (it is taken from Kokkos), "
    "or give Kokkos_ROOT of a Kokkos built for '${CMAKE_CUDA_ARCHITECTURES}'")
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  list(APPEND shard8_cuda_missing "nvcc (-DCMAKE_CUDA_COMPILER=/path/to/nvcc)")
else()
  if(SHARD8_CUDA)
    set(CMAKE_CUDA_ARCHITECTURES "${Kokkos_CUDA_ARCHITECTURES}")
  elseif(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  # CUDA's compiler asks the host's compiler first; it must be the one that links.
  if(NOT CMAKE_CUDA_HOST_COMPILER)
    set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_VERSION VERSION_LESS 13)
    list(APPEND shard8_cuda_missing "version 13 of the CUDA toolkit (this is ${CUDAToolkit_VERSION})")
  endif()
  foreach(target IN ITEMS cudart cublasLt)
    if(NOT TARGET CUDA::${target})
      list(APPEND shard8_cuda_missing "the library ${target} of the CUDA toolkit")
    endif()
  endforeach()
endif()

# shard8_find_nvidia(NAME header library): shard8::NAME, found beside the toolkit or by NAME_ROOT.
function(shard8_find_nvidia name header library)
  string(TOUPPER ${name} upper)
  find_path(SHARD8_${upper}_INCLUDE_DIR NAMES ${header}
    HINTS "${${upper}_ROOT}" "$ENV{${upper}_ROOT}" ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include
    DOC "Folder of ${header}")
  find_library(SHARD8_${upper}_LIBRARY NAMES ${library}
    HINTS "${${upper}_ROOT}" "$ENV{${upper}_ROOT}" "${CUDAToolkit_LIBRARY_DIR}" "${CUDAToolkit_LIBRARY_ROOT}"
    PATH_SUFFIXES lib lib64 DOC "The ${name} library")
  mark_as_advanced(SHARD8_${upper}_INCLUDE_DIR SHARD8_${upper}_LIBRARY)
  if(SHARD8_${upper}_INCLUDE_DIR AND SHARD8_${upper}_LIBRARY)
    add_library(shard8::${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(shard8::${name} PROPERTIES
      IMPORTED_LOCATION "${SHARD8_${upper}_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${SHARD8_${upper}_INCLUDE_DIR}")
  else()
    list(APPEND shard8_cuda_missing "${name} (-D${upper}_ROOT=/path/to/${name})")
    set(shard8_cuda_missing "${shard8_cuda_missing}" PARENT_SCOPE)
  endif()
endfunction()
if(CUDAToolkit_FOUND)
  shard8_find_nvidia(nccl nccl.h nccl)
  shard8_find_nvidia(cudnn cudnn.h cudnn)
endif()

if(NOT shard8_cuda_missing)
  set(SHARD8_PLAIN_CUDA TRUE)
  message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION}, architecture ${CMAKE_CUDA_ARCHITECTURES}, "
    "${CMAKE_CUDA_COMPILER}; NCCL ${SHARD8_NCCL_LIBRARY}; cuDNN ${SHARD8_CUDNN_LIBRARY}")
  if(SHARD8_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER "${SHARD8_CCACHE}")
  endif()
elseif(SHARD8_CUDA)
  list(JOIN shard8_cuda_missing "\n  " shard8_cuda_missing)
  message(FATAL_ERROR "the Kokkos of ${Kokkos_DIR} is for CUDA; missing:\n  ${shard8_cuda_missing}")
else()
  list(JOIN shard8_cuda_missing ", " shard8_cuda_missing)
  message(STATUS "CUDA: its parts are left out; missing: ${shard8_cuda_missing}")
endif()

# Definitions that every object must agree on, and the standard: CMake 3.25 does not know that CUDA
# 13 has C++20. fmt takes nvcc for a compiler without constexpr, and its checks of format strings at
# compile time are beyond it.
target_compile_definitions(shard8_abi INTERFACE "SHARD8_EXEC_SPACE=${SHARD8_EXEC_SPACE}")
if(SHARD8_CUDA)
  target_compile_definitions(shard8_abi INTERFACE SHARD8_CUDA)
endif()
target_compile_options(shard8_abi INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>")
target_compile_definitions(shard8_abi INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:FMT_CONSTEVAL=;FMT_USE_CONSTEXPR=1>")
