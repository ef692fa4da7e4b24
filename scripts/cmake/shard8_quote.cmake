# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# Texts inside code that CMake writes: one function for each language.

# shard8_quote_cmake(OUT TEXT): TEXT as one bracket argument of CMake, which reads it as it is.
function(shard8_quote_cmake out text)
  set(level "")
  string(FIND "${text}]" "]${level}]" at)
  while(NOT at EQUAL -1)
    string(APPEND level "=")
    string(FIND "${text}]" "]${level}]" at)
  endwhile()
  set(${out} "[${level}[\n${text}]${level}]" PARENT_SCOPE)  # CMake drops the first newline
endfunction()

# shard8_quote_shell(OUT TEXT): TEXT as one word of a POSIX shell.
function(shard8_quote_shell out text)
  string(REPLACE "'" "'\\''" text "${text}")
  set(${out} "'${text}'" PARENT_SCOPE)
endfunction()
