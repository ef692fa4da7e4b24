# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# cmake --install build/cpu --prefix P: a tree that may be moved.
#
#   bin/shard8                      the program, or the script that starts it (see below)
#   share/shard8/{decks,scripts,packages,doc}, man page, completions of bash, zsh and fish
#   include/shard8, lib/libshard8_*.a, lib/cmake/shard8    what find_package(shard8) needs
#
# A program that uses the private copy of Kokkos (shard8_kokkos.cmake) starts with a loader whose absolute path it
# names. Its tree has the loader and the libraries beside the loader in lib/shard8, the program in libexec/shard8, and
# in bin a script that starts the program by that loader. So neither the cache of scripts/setup nor the build is needed.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(shard8_quote)

set(shard8_data "${CMAKE_INSTALL_DATADIR}/shard8")
set(shard8_private_lib "${CMAKE_INSTALL_LIBDIR}/shard8")
set(shard8_libexec "${CMAKE_INSTALL_LIBEXECDIR}/shard8")
set(shard8_package "${CMAKE_INSTALL_LIBDIR}/cmake/shard8")

# The program.
if(SHARD8_PRIVATE_LOADER)
  get_filename_component(shard8_loader_name "${SHARD8_PRIVATE_LOADER}" NAME)
  get_filename_component(shard8_loader_dir "${SHARD8_PRIVATE_LOADER}" DIRECTORY)
  file(RELATIVE_PATH shard8_bin_to_libexec "/p/${CMAKE_INSTALL_BINDIR}" "/p/${shard8_libexec}")
  file(RELATIVE_PATH shard8_libexec_to_lib "/p/${shard8_libexec}" "/p/${shard8_private_lib}")
  shard8_quote_shell(shard8_sh_libexec "${shard8_bin_to_libexec}")
  configure_file("${PROJECT_SOURCE_DIR}/scripts/cmake/launcher.in" "${PROJECT_BINARY_DIR}/install/shard8" @ONLY)
  install(PROGRAMS "${PROJECT_BINARY_DIR}/install/shard8" DESTINATION "${CMAKE_INSTALL_BINDIR}")
  install(PROGRAMS "$<TARGET_FILE:shard8>" DESTINATION "${shard8_libexec}" RENAME program)
  install(DIRECTORY "${shard8_loader_dir}/" DESTINATION "${shard8_private_lib}" USE_SOURCE_PERMISSIONS
    FILES_MATCHING PATTERN "*.so" PATTERN "*.so.*" PATTERN cmake EXCLUDE PATTERN gconv EXCLUDE)
  shard8_quote_cmake(libexec "${shard8_libexec}")
  shard8_quote_cmake(origin "\$ORIGIN/${shard8_libexec_to_lib}")
  shard8_quote_cmake(private "${shard8_loader_dir}")
  shard8_quote_cmake(loader "${shard8_libexec_to_lib}/${shard8_loader_name}")
  install(CODE "
    set(shard8_libexec ${libexec})
    set(shard8_origin ${origin})
    set(shard8_private ${private})
    set(shard8_loader ${loader})")
  install(SCRIPT "${PROJECT_SOURCE_DIR}/scripts/cmake/install_private.cmake")
else()
  set_target_properties(shard8 PROPERTIES INSTALL_RPATH_USE_LINK_PATH TRUE)
  install(TARGETS shard8 RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

# Decks, scripts for users and jobs, pages.
install(DIRECTORY inputs/ DESTINATION "${shard8_data}/decks")
install(DIRECTORY scripts/ DESTINATION "${shard8_data}/scripts" USE_SOURCE_PERMISSIONS
  PATTERN cmake EXCLUDE PATTERN bench EXCLUDE PATTERN site EXCLUDE REGEX "/scripts/(setup|build|run|test|regenerate_gold|docs)$" EXCLUDE
  REGEX "/scripts/lib/(build|cutlass|kokkos|packages)\\.bash$" EXCLUDE PATTERN "__pycache__" EXCLUDE)
# Where the installed scripts find the program, from the folder above them, and its launcher.
file(RELATIVE_PATH shard8_data_to_program "/p/${shard8_data}" "/p/${CMAKE_INSTALL_BINDIR}/shard8")
list(JOIN MPIEXEC_PREFLAGS " " shard8_launcher_flags)
string(STRIP "${MPIEXEC_EXECUTABLE} ${shard8_launcher_flags}" shard8_launcher)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/install/installed.txt"
  CONTENT "program ${shard8_data_to_program}\nlauncher ${shard8_launcher}\n" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/install/installed.txt" DESTINATION "${shard8_data}/scripts/lib")
install(DIRECTORY packages/ DESTINATION "${shard8_data}/packages" PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY docs/ DESTINATION "${shard8_data}/doc/docs" PATTERN mkdocs.yml EXCLUDE PATTERN site EXCLUDE)
install(FILES packages/README.md DESTINATION "${shard8_data}/doc/packages")
install(FILES packages/jube/DESCRIPTION.md DESTINATION "${shard8_data}/doc/packages/jube")
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE CITATION.cff SECURITY.md DESTINATION "${shard8_data}/doc")

# The man page and the completions, as the program itself prints them.
shard8_quote_cmake(generated "${PROJECT_BINARY_DIR}/install")
shard8_quote_cmake(man "${CMAKE_INSTALL_MANDIR}/man1")
shard8_quote_cmake(data "${CMAKE_INSTALL_DATADIR}")
install(CODE "
  set(shard8_program [=====[$<TARGET_FILE:shard8>]=====])
  set(shard8_generated ${generated})
  set(shard8_man ${man})
  set(shard8_data ${data})")
install(SCRIPT "${PROJECT_SOURCE_DIR}/scripts/cmake/install_generated.cmake")

# Libraries for other programs: decks, checkpoint files and tensors. They need neither Kokkos nor a device.
set(shard8_public shard8_base shard8_version shard8_deck shard8_io)
set(shard8_with_public shard8_abi)
if(TARGET shard8_yaml_cpp)
  list(APPEND shard8_with_public shard8_yaml_cpp)
endif()
install(TARGETS ${shard8_public} ${shard8_with_public} EXPORT shard8_targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
# Without deck/device.hpp, which needs Kokkos.
foreach(folder IN ITEMS base deck io)
  install(DIRECTORY "src/${folder}/" DESTINATION include/shard8/${folder} FILES_MATCHING PATTERN "*.hpp"
    REGEX "/deck/device\\.hpp$" EXCLUDE)
endforeach()
install(FILES src/profile/phase.hpp DESTINATION include/shard8/profile)  # deck/config.hpp includes it
install(EXPORT shard8_targets NAMESPACE shard8:: FILE shard8-targets.cmake DESTINATION "${shard8_package}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/scripts/cmake/shard8-config.cmake.in"
  "${PROJECT_BINARY_DIR}/install/shard8-config.cmake" INSTALL_DESTINATION "${shard8_package}"
  PATH_VARS shard8_data CMAKE_INSTALL_BINDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/install/shard8-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/install/shard8-config.cmake"
  "${PROJECT_BINARY_DIR}/install/shard8-config-version.cmake" DESTINATION "${shard8_package}")
