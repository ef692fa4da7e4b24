# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0

# shard8_places(OUT cores): CTest's property PROCESSORS of a test that keeps so many cores busy. CTest counts places, two
# for a core and one more (scripts/test), so that a test that waits most of the time, with 0 cores, runs beside others.
function(shard8_places out cores)
  math(EXPR places "2 * ${cores}")
  if(places EQUAL 0)
    set(places 1)
  endif()
  set(${out} ${places} PARENT_SCOPE)
endfunction()

# shard8_test(LAYER.SUBJECT
#   [SOURCES file.cpp...]         GoogleTest sources; default: SUBJECT_test.cpp
#   [PROGRAM LAYER.OTHER]         runs the executable of that test, in place of SOURCES, LINKS and DEFINITIONS
#   [LINKS   target...]           what is tested; default: shard8::LAYER
#   [CASES  case...]              one CTest each; without them one CTest, `all`
#   [NP     n...]                 run under mpiexec with n ranks, one CTest for each n
#   [MAIN   plain|kokkos|mpi]     default: mpi with NP, plain if LINKS are only base, deck
#                                 and io, else kokkos
#   [BACKEND name]                in the CTest's name; default: cuda on devices, mpi with NP, else host
#   [LABELS label...]             default: unit
#   [TIMEOUT seconds]             default: 120
#   [PROCESSORS n]                cores that it keeps busy; default: 1 for MAIN plain and for one rank, else 2
#   [ENVIRONMENT NAME=value...]
#   [DEFINITIONS NAME=value...]   of the sources, as for target_compile_definitions
# )
#
# Builds build/PRESET/tests/LAYER.SUBJECT and registers CTests LAYER.SUBJECT.CASE.BACKEND.npN.
#
# In a build for CUDA what has the main function kokkos or mpi runs on devices, one for each rank: it has
# the label gpu, too, takes the devices for itself, and is skipped where there are not enough.
#
# A case is the name of a test suite in snake case: the case `all_gather` runs TEST(AllGather, ...),
# TEST_F, TEST_P and TYPED_TEST alike. An executable with a suite that CASES does not list
# fails, and so does a case without tests. By hand: build/cpu/tests/comm.group --case all_gather
function(shard8_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MAIN;BACKEND;TIMEOUT;PROCESSORS;PROGRAM"
    "SOURCES;LINKS;CASES;NP;LABELS;ENVIRONMENT;DEFINITIONS")
  if(arg_UNPARSED_ARGUMENTS OR NOT name MATCHES "^([a-z0-9_]+)\\.([a-z0-9_]+)$")
    message(FATAL_ERROR "shard8_test(${name}): needs a name layer.subject; "
      "unexpected '${arg_UNPARSED_ARGUMENTS}'. Usage: scripts/cmake/shard8_test.cmake")
  endif()
  if(arg_PROGRAM AND (arg_SOURCES OR arg_LINKS OR arg_DEFINITIONS))
    message(FATAL_ERROR "shard8_test(${name}): ${arg_PROGRAM} is built with SOURCES, LINKS and DEFINITIONS of its own")
  endif()
  if(NOT arg_LINKS)
    set(arg_LINKS shard8::${CMAKE_MATCH_1})
  endif()
  if(NOT arg_SOURCES)
    set(arg_SOURCES ${CMAKE_MATCH_2}_test.cpp)
  endif()
  if(NOT arg_MAIN)
    if(arg_NP)
      set(arg_MAIN mpi)
    else()
      set(rest ${arg_LINKS})
      list(REMOVE_ITEM rest shard8::base shard8::version shard8::deck shard8::io)
      set(arg_MAIN plain)
      if(rest)
        set(arg_MAIN kokkos)
      endif()
    endif()
  endif()
  set(on_device FALSE)
  if(SHARD8_CUDA AND arg_MAIN MATCHES "^(kokkos|mpi)$")
    set(on_device TRUE)
  endif()
  if(NOT arg_BACKEND)
    set(arg_BACKEND host)
    if(on_device)
      set(arg_BACKEND cuda)
    elseif(arg_NP)
      set(arg_BACKEND mpi)
    endif()
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(on_device AND NOT "gpu" IN_LIST arg_LABELS)
    list(APPEND arg_LABELS gpu)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  math(EXPR arg_TIMEOUT "${SHARD8_TEST_PATIENCE} * ${arg_TIMEOUT}")

  if(arg_PROGRAM)
    set(program ${arg_PROGRAM})
    get_target_property(listed ${program} SHARD8_CASES)
  else()
    set(program ${name})
    shard8_test_program(${name} SOURCES ${arg_SOURCES} LINKS shard8_test_main_${arg_MAIN} ${arg_LINKS})
    target_compile_definitions(${name} PRIVATE
      "SHARD8_SOURCE_DIR=\"${SHARD8_TEST_SOURCE_DIR}\"" ${arg_DEFINITIONS})
    list(JOIN arg_CASES "," listed)
    set_target_properties(${name} PROPERTIES SHARD8_CASES "${listed}")
  endif()

  set(cases ${arg_CASES})
  set(environment ${SHARD8_TEST_ENVIRONMENT} OMP_PROC_BIND=false)
  if(arg_NP)
    list(APPEND environment OMP_NUM_THREADS=1)
    set(ranks ${arg_NP})
  else()
    # Passive: threads that spin between many short kernels take the cores from those that have work.
    list(APPEND environment OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive)
    set(ranks 0)
  endif()
  foreach(np IN LISTS ranks)
    set(launch "")
    set(processors 2)
    set(suffix "")
    if(np GREATER 0)
      set(launch "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_PREFLAGS} "${MPIEXEC_NUMPROC_FLAG}" "${np}")
      set(suffix ".np${np}")
    endif()
    if(DEFINED arg_PROCESSORS)
      set(processors ${arg_PROCESSORS})
    elseif(arg_MAIN STREQUAL "plain" OR np EQUAL 1)
      set(processors 1)
    endif()
    if(NOT cases)
      set(cases all)
    endif()
    foreach(case IN LISTS cases)
      set(test "${name}.${case}.${arg_BACKEND}${suffix}")
      set(arguments "")
      if(arg_CASES)
        set(arguments --case ${case} --cases ${listed})
      endif()
      set(command ${launch} "$<TARGET_FILE:${program}>" ${arguments})
      if(on_device)
        shard8_device_test("${test}" "$<TARGET_FILE:${program}>" ${command})
      else()
        add_test(NAME "${test}" COMMAND ${command})
      endif()
      shard8_places(places ${processors})
      set_tests_properties("${test}" PROPERTIES
        LABELS "${arg_LABELS}" TIMEOUT "${arg_TIMEOUT}" PROCESSORS "${places}"
        ENVIRONMENT "${environment};${arg_ENVIRONMENT}")
      if(np GREATER 1 AND NOT arg_BACKEND STREQUAL "cuda")
        set_property(TEST "${test}" APPEND PROPERTY ENVIRONMENT ${SHARD8_TEST_YIELD})
      endif()
    endforeach()
  endforeach()
endfunction()

# shard8_test_program(NAME [EXCLUDE_FROM_ALL] SOURCES file.cpp... LINKS target...)
#
# An executable of tests, build/PRESET/tests/NAME. Its sources are compiled as one: most of a test's compile time is
# that of the headers, which its sources share.
function(shard8_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "EXCLUDE_FROM_ALL" "" "SOURCES;LINKS")
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests" LINKER_LANGUAGE CXX UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  if(arg_EXCLUDE_FROM_ALL)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
  target_link_libraries(${name} PRIVATE shard8_warnings shard8_abi ${arg_LINKS})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src")
endfunction()

# shard8_preload(NAME file.cpp [target...])
#
# A library that tests load before all others. Its source defines functions of the C library, which the C library's
# headers would otherwise replace by checked ones.
function(shard8_preload name source)
  add_library(${name} MODULE ${source})
  target_link_libraries(${name} PRIVATE shard8_warnings ${ARGN} ${CMAKE_DL_LIBS})
  target_compile_options(${name} PRIVATE -U_FORTIFY_SOURCE)
endfunction()

# shard8_script_test(NAME COMMAND command... [LABELS label...] [TIMEOUT seconds] [PROCESSORS n] [ENVIRONMENT NAME=value...]
#   [PROPERTIES name value...])
#
# A CTest of a script that runs the program. TIMEOUT is 120 by default, PROCESSORS 2. Scripts that keep at most one core
# busy have PROCESSORS 1, those that wait most of the time 0.
function(shard8_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;PROCESSORS" "COMMAND;LABELS;ENVIRONMENT;PROPERTIES")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT DEFINED arg_PROCESSORS)  # 0 is a number of cores
    set(arg_PROCESSORS 2)
  endif()
  math(EXPR arg_TIMEOUT "${SHARD8_TEST_PATIENCE} * ${arg_TIMEOUT}")
  set(environment ${SHARD8_TEST_ENVIRONMENT} OMP_PROC_BIND=false ${SHARD8_PROGRAM_ENVIRONMENT} ${arg_ENVIRONMENT})
  shard8_places(places ${arg_PROCESSORS})
  add_test(NAME "${name}" COMMAND ${arg_COMMAND})
  set_tests_properties("${name}" PROPERTIES LABELS "${arg_LABELS}" TIMEOUT "${arg_TIMEOUT}"
    PROCESSORS "${places}" ENVIRONMENT "${environment}" ${arg_PROPERTIES})
endfunction()

# shard8_device_test(TEST PROGRAM command...): a CTest whose command starts PROGRAM, which needs devices.
function(shard8_device_test test program)
  add_test(NAME "${test}" COMMAND "${PROJECT_SOURCE_DIR}/tests/support/where_devices" "${program}" ${ARGN})
  set_tests_properties("${test}" PROPERTIES SKIP_RETURN_CODE 77 RESOURCE_LOCK devices)
endfunction()

# By what times at which tests give up are multiplied. Chosen for sanitizers: they are three times as slow, some products
# ten times.
set(SHARD8_TEST_PATIENCE 1)
if(SHARD8_SANITIZE)
  set(SHARD8_TEST_PATIENCE 5)
endif()

# Where test programs look for the sources when they run: for those that are carried to another machine.
set(SHARD8_TEST_SOURCE_DIR "${PROJECT_SOURCE_DIR}" CACHE STRING "The source folder, as tests find it when they run")
mark_as_advanced(SHARD8_TEST_SOURCE_DIR)

# What the environment of tests with several ranks has: tests/support/yield.cpp.
set(SHARD8_TEST_YIELD "")
if(NOT SHARD8_SANITIZE)
  set(SHARD8_TEST_YIELD "LD_PRELOAD=$<TARGET_FILE:shard8_test_yield>")
endif()

# What every test's environment has. When MPI starts, hwloc looks at PCI and I/O devices, which takes 20 to 40 ms a process
# and which no test asks about. Leaks of MPI and its helpers are not ours.
set(SHARD8_TEST_ENVIRONMENT "HWLOC_COMPONENTS=-pci,-linuxio" "SHARD8_TEST_PATIENCE=${SHARD8_TEST_PATIENCE}")
if(SHARD8_SANITIZE)
  list(APPEND SHARD8_TEST_ENVIRONMENT
    "ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:strict_string_checks=1:detect_stack_use_after_return=1"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1:suppressions=${PROJECT_SOURCE_DIR}/tests/support/ubsan.supp")
endif()

# How tests that run the program find it, and how they start ranks.
set(shard8_launch "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_PREFLAGS})
list(JOIN shard8_launch " " shard8_launch)
set(SHARD8_PROGRAM_ENVIRONMENT OMP_NUM_THREADS=1 "SHARD8_PROGRAM=$<TARGET_FILE:shard8>"
  "SHARD8_MPIEXEC=${shard8_launch}" "SHARD8_SOURCES=${PROJECT_SOURCE_DIR}")
