// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only header that includes HDF5's; for the .cpp files of this folder and their tests. The
// functions of 1.10 under their names of 1.10, whichever newer version is installed.
#ifndef H5_USE_110_API
#define H5_USE_110_API
#endif
#include <hdf5.h>

#include <string>
#include <utility>

namespace shard8::io {

/// Owns one HDF5 identifier. The destructor is for objects that were only read, where a failing
/// close loses nothing, and for unwinding; a writer calls close() and has it checked.
class H5Handle {
 public:
  using Close = herr_t (*)(hid_t);

  H5Handle() = default;
  H5Handle(hid_t id, Close closer) : id_(id), close_(closer) {}
  H5Handle(H5Handle&& other) noexcept { swap(other); }
  H5Handle& operator=(H5Handle&& other) noexcept {
    H5Handle taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~H5Handle() {
    if (id_ >= 0) close_(id_);
  }

  hid_t id() const { return id_; }

  /// Throws Error(failed) when HDF5 cannot close it; `where` names the object.
  void close(const std::string& where);

 private:
  void swap(H5Handle& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
  }

  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Opens the library; see IoThread for the thread.
void h5_open_library();

/// Stops HDF5 from printing its errors, on this thread: they go into our messages.
void h5_silence();

/// Throws Error(failed) "where: expression failed; HDF5 says: ..." with HDF5's error stack.
[[noreturn]] void h5_fail(const char* expression, const std::string& where);

/// Returns a status of HDF5, or throws as h5_fail() when it is negative.
template <class Status>
Status h5_check(Status status, const char* expression, const std::string& where) {
  if (status < 0) h5_fail(expression, where);
  return status;
}

/// Opens for reading. Error(deck) when there is no such file, Error(failed) when it is not HDF5.
H5Handle h5_open_file(const std::string& path);

/// "file.h5:/object", cut at the last ":/"; the object is empty where there is none.
struct H5Spec {
  std::string file;
  std::string object;
};
H5Spec h5_split(const std::string& spec);

}  // namespace shard8::io

/// The value of an HDF5 call, checked; `where` (a string) says what it was done to.
#define SHARD8_H5(where, call) ::shard8::io::h5_check((call), #call, (where))
