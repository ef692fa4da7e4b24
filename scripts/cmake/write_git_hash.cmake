# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE_DIR=... -DOUTPUT=... -P write_git_hash.cmake

# In a tarball made by `git archive`, git has put the hash into this file.
file(STRINGS "${SOURCE_DIR}/scripts/cmake/archive_hash.txt" hash LIMIT_COUNT 1)
if(NOT hash MATCHES "^[0-9a-f]+$")
  set(hash "unknown")
  find_program(GIT git)
  if(GIT AND EXISTS "${SOURCE_DIR}/.git")
    execute_process(COMMAND "${GIT}" describe --always --dirty=+dirty --abbrev=40 --exclude=*
      WORKING_DIRECTORY "${SOURCE_DIR}"
      OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      set(hash "${described}")
    endif()
  endif()
endif()

set(text "#pragma once\n#define SHARD8_GIT_HASH \"${hash}\"\n")
set(before "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" before)
endif()
if(NOT text STREQUAL before)
  file(WRITE "${OUTPUT}" "${text}")
endif()
