// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/hdf5.hpp"

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
