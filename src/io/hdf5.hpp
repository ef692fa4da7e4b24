// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// HDF5 for sources of this folder and for tests: handles, calls whose status is checked, and checks that every value of
// a dataset is stored somewhere. No other header includes HDF5's. H5_USE_110_API: newer versions offer the functions of
// 1.10 under their old names.
#ifndef H5_USE_110_API
#define H5_USE_110_API
#endif

#include <hdf5.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shard8::io {

/// Owns one HDF5 identifier. The destructor ignores an error of closing, which loses nothing where an object was only
/// read. After writing, call close(), which checks.
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

  /// Closes the identifier. Throws Error(failed) if HDF5 cannot; `where` names the object.
  void close(const std::string& where);

 private:
  void swap(H5Handle& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
  }

  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Opens the library. IoThread's comment says on which thread. Error(failed) if the library cannot be opened.
void h5_open_library();

/// Stops HDF5 from printing its errors, on this thread. h5_fail() puts them into the message of the Error.
void h5_silence();

/// Throws Error(failed) "where: expression failed; HDF5 says: ..." with HDF5's error stack, and with what to do if the
/// cause is known.
[[noreturn]] void h5_fail(const char* expression, const std::string& where);

/// Returns a status of HDF5, or throws as h5_fail() if the status is negative.
template <class Status>
Status h5_check(Status status, const char* expression, const std::string& where) {
  if (status < 0) h5_fail(expression, where);
  return status;
}

/// Opens a file for reading. Error(deck) if there is no such regular file, or as require_content(); Error(failed) if it
/// is not an HDF5 file or cannot be opened.
H5Handle h5_open_file(const std::string& path);

/// "file.h5:/object", split at the last ":/". Without ":/" the object is empty.
struct H5Spec {
  std::string file;
  std::string object;
};
H5Spec h5_split(const std::string& spec);

/// Opens `object`, "/group/name", which must be a group or a dataset, as `type` says. `path` names the file in
/// messages. Error(deck) if there is no such object (with the names in the file's root), if a link on the way leads to
/// no object, or if `object` has more than 4096 bytes. Error(failed) if HDF5 fails.
H5Handle h5_open_object(hid_t file, const std::string& path, const std::string& object, H5O_type_t type);

/// The names of the groups or of the datasets (`type`) that are directly in a group, in bytewise order. Links that lead
/// to no object are left out. Here and below `where` names the file or object in messages, and Error(failed) is thrown
/// if HDF5 fails.
std::vector<std::string> h5_children(hid_t group, const std::string& where, H5O_type_t type);

/// A text for messages: the first 20 names, and how many more there are.
std::string list_names(const std::vector<std::string>& names);

/// Opens a dataset of a group for reading.
H5Handle h5_open_dataset(hid_t group, const std::string& name, const std::string& where);

/// The extents of a dataset; empty for a scalar. Error(failed) if it has more than 2^63 - 1 elements.
std::vector<std::int64_t> h5_dataset_shape(hid_t dataset, const std::string& where);

/// The class of a dataset's type, H5T_INTEGER or H5T_FLOAT. Error(failed) for any other (strings, compounds).
H5T_class_t h5_require_numbers(hid_t dataset, const std::string& where);

}  // namespace shard8::io

/// Calls HDF5 and returns the value, or throws as h5_check(). `where` is a string that names the object.
#define SHARD8_H5(where, call) ::shard8::io::h5_check((call), #call, (where))

namespace shard8::io {

// HDF5 gives the fill value, mostly 0, for values that are nowhere, without an error. These checks refuse such
// datasets. `where` names the dataset in messages. Error(failed) if HDF5 fails.

/// A filter (compression) that a dataset's chunks need and this HDF5 lacks, with what to do, in words that follow the
/// dataset's name. Empty if it has all of them.
std::string h5_missing_filter(hid_t dataset, const std::string& where);

/// Error(deck) with the words of h5_missing_filter() unless they are empty.
void h5_require_filters(hid_t dataset, const std::string& where);

/// Checks that every value of a dataset is stored somewhere. Error(deck) with what is missing and what to do:
///   contiguous, chunked   space that was never written; chunks are counted
///   external files        a file that is missing or has too few bytes
///   virtual               a source file or dataset that is missing or too small, elements that no source has, sources
///                         that fail this check or h5_require_filters(), mappings without a fixed size
/// Sources and external files are looked for where HDF5 looks for them. A dataset without elements passes, and
/// so does one of anything but numbers, which nobody reads.
void h5_require_allocated(hid_t dataset, const std::string& where);

/// The paths under which HDF5 looks for a source file of a virtual dataset, in its order. `primary` is the path of the
/// file with the virtual dataset, `name` the source's name there. Source: H5F_prefix_open_file() of HDF5 1.10.
std::vector<std::string> h5_source_candidates(const std::string& primary, const std::string& name);

/// The path with which the file of an object was opened. Error(failed) if HDF5 fails; `where` names the object.
std::string h5_file_name(hid_t object, const std::string& where);

/// Checks of h5_require_allocated(), which calls itself for the sources of virtual datasets.
class StorageCheck {
 public:
  /// Does what h5_require_allocated() says.
  void require_allocated(hid_t dataset, const std::string& where);

 private:
  struct Mapping {
    H5Handle target, source;  ///< selections: in the virtual dataset, and in the source
    std::string file, dataset;
  };
  using Shape = std::vector<hsize_t>;

  void require_virtual(hid_t dataset, hid_t plan, const std::string& where);
  const Shape& require_source(const std::string& primary, hid_t same_file, const Mapping& mapping,
                              const std::string& where);

  std::map<std::pair<std::string, std::string>, Shape> sources_;  ///< sources that passed, by file and dataset
  std::vector<std::pair<std::string, std::string>> within_;       ///< the sources of sources that are being checked
};

}  // namespace shard8::io
