// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// This library is loaded before all others into the ranks of tests that start more ranks than a machine may have cores.
// A rank that waits in a blocking call of MPI (MPI_Init, MPI_Comm_split) asks UCX for progress over and over; here it
// leaves its core to another rank after some vain attempts, so that ranks that share a core start in less time.
// MPI libraries without UCX are as they were.

#include <dlfcn.h>
#include <sched.h>

extern "C" unsigned ucp_worker_progress(void* worker);

extern "C" unsigned ucp_worker_progress(void* worker) {
  constexpr int kVain = 10;  // chosen: fewer attempts than a rank's turn has
  static const auto original = reinterpret_cast<unsigned (*)(void*)>(::dlsym(RTLD_NEXT, "ucp_worker_progress"));
  static thread_local int vain = 0;
  const unsigned progressed = original(worker);
  if (progressed > 0)
    vain = 0;
  else if (++vain > kVain)
    ::sched_yield();
  return progressed;
}
