// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/hdf5.hpp"

namespace shard8::io {

/// The paths under which HDF5 looks for a source file of a virtual dataset, in its order. `primary` is the path of the
/// file with the virtual dataset, `name` the source's name there. Source: H5F_prefix_open_file() of HDF5 1.10.
std::vector<std::string> h5_source_candidates(const std::string& primary, const std::string& name);

/// The path with which the file of an object was opened. Error(failed) if HDF5 fails; `where` names the object.
std::string h5_file_name(hid_t object, const std::string& where);

/// Checks of h5_require_allocated(), which calls itself for the sources of virtual datasets.
class StorageCheck {
 public:
  /// As h5_require_allocated().
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

  std::map<std::pair<std::string, std::string>, Shape> sources_;  ///< those that passed, by file and dataset
  std::vector<std::pair<std::string, std::string>> within_;       ///< the sources of sources that are being checked
};

}  // namespace shard8::io
