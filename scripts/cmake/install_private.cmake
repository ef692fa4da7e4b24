# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# At installation, set by shard8_install.cmake: shard8_libexec, the folder of the program; shard8_private, the folder
# of the libraries in the cache; shard8_origin, the folder that takes its place; shard8_loader, the loader as seen from
# the program.

set(shard8_folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${shard8_libexec}")
file(READ_ELF "${shard8_folder}/program" RPATH shard8_old)
set(shard8_new "${shard8_origin}")
foreach(shard8_entry IN LISTS shard8_old)
  string(REPLACE ":" ";" shard8_entries "${shard8_entry}")
  foreach(shard8_path IN LISTS shard8_entries)
    if(NOT shard8_path STREQUAL shard8_private)
      list(APPEND shard8_new "${shard8_path}")
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES shard8_new)
list(JOIN shard8_new ":" shard8_new)
file(RPATH_SET FILE "${shard8_folder}/program" NEW_RPATH "${shard8_new}")
file(CREATE_LINK "${shard8_loader}" "${shard8_folder}/shard8" SYMBOLIC)
list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${CMAKE_INSTALL_PREFIX}/${shard8_libexec}/shard8")
