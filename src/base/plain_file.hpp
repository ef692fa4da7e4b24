// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <string>

namespace shard8::base {

/// A text that is open for reading, or why it is not.
struct PlainFile {
  std::ifstream in;
  int error = 0;    ///< errno; 0: open
  std::string why;  ///< in words; empty: open
};

/// Whether a pipe that another process writes to, as the shell's <(COMMAND) makes one, may be read like a file.
enum class Pipes { refused, read };

/// Opens a file for reading. Only a regular file, or such a pipe, is opened: whoever opens a FIFO waits for its writer,
/// and a device need not end. Files that a user names, or that lie in a folder that a user names, are opened by this
/// or by io::InputFile.
PlainFile open_plain(const std::string& path, Pipes pipes = Pipes::refused);

}  // namespace shard8::base
