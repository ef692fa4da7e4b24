// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "app/commands.hpp"

int main(int argc, char** argv) { return shard8::app::main(argc, argv); }
