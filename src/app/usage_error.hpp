// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace shard8::app {

/// Prints to standard error what is wrong with a command line that `app` refused with `error`, and which commands there
/// are. The commands that are named exist, up to the first that does not. Returns the process's exit code.
int usage_error(const CLI::App& app, int argc, char** argv, const CLI::ParseError& error);

}  // namespace shard8::app
