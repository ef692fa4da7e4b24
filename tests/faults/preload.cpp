// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// This library is loaded into one rank of a job, before all other libraries, and gives this rank a fault. The
// environment says which one:
//
//   SHARD8_FAULT         count: none; at the process' end FOLDER/counts has the number of messages sent and the peak
//                        of the address space in KiB
//                        throw, exit0, exit3, kill, stop: when it sends message number SHARD8_FAULT_AT, from 1
//                        unreadable: when it opens a file of the name SHARD8_FAULT_FILE
//                        version: HDF5 is another version than the program was built with
//   SHARD8_FAULT_FOLDER  FOLDER/fault is made when the fault happens

#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool fault_is(const char* name) {
  static const std::string fault = variable("SHARD8_FAULT");
  return fault == name;
}

std::string in_folder(const char* name) { return variable("SHARD8_FAULT_FOLDER") + "/" + name; }

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void happens() {
  const int file = next<int(const char*, int, ...)>("open")(in_folder("fault").c_str(), O_CREAT | O_WRONLY, 0644);
  if (file >= 0) ::close(file);
}

long messages = 0;  // that were sent; one thread communicates

void before_message() {
  static const long at = std::atol(variable("SHARD8_FAULT_AT").c_str());
  if (++messages != at) return;
  if (fault_is("count")) return;
  happens();
  if (fault_is("throw")) throw std::runtime_error("thrown in the middle of a step");
  if (fault_is("exit0")) std::exit(0);
  if (fault_is("exit3")) std::exit(3);
  if (fault_is("kill")) ::kill(::getpid(), SIGKILL);
  if (fault_is("stop")) ::kill(::getpid(), SIGSTOP);
}

bool refuses(const char* path) {
  if (!fault_is("unreadable")) return false;
  const char* const slash = std::strrchr(path, '/');
  if (variable("SHARD8_FAULT_FILE") != (slash == nullptr ? path : slash + 1)) return false;
  happens();
  errno = EACCES;
  return true;
}

struct Counts {
  ~Counts() {
    if (!fault_is("count")) return;
    std::FILE* const status = std::fopen("/proc/self/status", "r");
    std::FILE* const counts = std::fopen(in_folder("counts").c_str(), "w");
    if (status == nullptr || counts == nullptr) return;
    char line[256];
    while (std::fgets(line, sizeof line, status) != nullptr) {
      if (std::strncmp(line, "VmPeak:", 7) == 0)
        std::fprintf(counts, "messages=%ld peak_kib=%ld\n", messages, std::atol(line + 7));
    }
    std::fclose(counts);
    std::fclose(status);
  }
};
const Counts at_the_end;

}  // namespace

extern "C" {

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  before_message();
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

// HDF5 and the streams of C++ open files with one of these functions.
#define OPEN(name)                                                                \
  int name(const char* path, int flags, ...) {                                    \
    va_list list;                                                                 \
    va_start(list, flags);                                                        \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : mode_t{}; \
    va_end(list);                                                                 \
    if (refuses(path)) return -1;                                                 \
    return next<int(const char*, int, ...)>(#name)(path, flags, mode);            \
  }
#define FOPEN(name)                                                       \
  std::FILE* name(const char* path, const char* mode) {                   \
    if (refuses(path)) return nullptr;                                    \
    return next<std::FILE*(const char*, const char*)>(#name)(path, mode); \
  }
#define CHECKED_OPEN(name)                                  \
  int name(const char* path, int flags) {                   \
    if (refuses(path)) return -1;                           \
    return next<int(const char*, int)>(#name)(path, flags); \
  }
OPEN(open)
OPEN(open64)
CHECKED_OPEN(__open_2)
CHECKED_OPEN(__open64_2)
FOPEN(fopen)
FOPEN(fopen64)

// Acts as HDF5 does when the program was built with the headers of another version.
int H5check_version(unsigned major, unsigned minor, unsigned release) {
  if (!fault_is("version")) return next<int(unsigned, unsigned, unsigned)>("H5check_version")(major, minor, release);
  happens();
  std::fputs("Warning! ***HDF5 library version mismatched error***\n", stderr);
  std::abort();
}

}  // extern "C"
