# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# At installation, set by shard8_install.cmake: shard8_program prints the man page and the completions into
# shard8_generated; they are installed into shard8_man and below shard8_data, both relative to the prefix.

# shard8_generate(ARGUMENTS file destination): installs what the program prints.
function(shard8_generate arguments name destination)
  separate_arguments(words UNIX_COMMAND "${arguments}")
  execute_process(COMMAND "${shard8_program}" ${words} OUTPUT_FILE "${shard8_generated}/${name}"
    ERROR_VARIABLE said RESULT_VARIABLE failed)
  if(failed)
    # A program for the processors of the compute nodes may not run on this one.
    message(WARNING "${name} is not installed: '${shard8_program} ${arguments}' ended with ${failed} ${said}; "
      "where the program runs, 'shard8 ${arguments}' prints it")
    return()
  endif()
  file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/${destination}" TYPE FILE FILES "${shard8_generated}/${name}")
  set(CMAKE_INSTALL_MANIFEST_FILES "${CMAKE_INSTALL_MANIFEST_FILES}" PARENT_SCOPE)
endfunction()

shard8_generate("man" shard8.1 "${shard8_man}")
shard8_generate("completions bash" shard8.bash "${shard8_data}/bash-completion/completions")
shard8_generate("completions zsh" _shard8 "${shard8_data}/zsh/site-functions")
shard8_generate("completions fish" shard8.fish "${shard8_data}/fish/vendor_completions.d")
