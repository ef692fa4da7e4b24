// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shard8::test {

/// From now on, this process ends (_exit(0)) directly after the n-th system call that changes files: fsync, mkdir, open
/// for writing, pwrite, rename, rmdir, unlink, write. 0: never.
void exit_after(int n);

/// While this lives, a system call fails with an error number if its path, or the path of its descriptor, ends so.
class FailingCall {
 public:
  FailingCall(std::string call, std::string path_end, int error);
  ~FailingCall();
  FailingCall(const FailingCall&) = delete;
  FailingCall& operator=(const FailingCall&) = delete;
};

}  // namespace shard8::test
