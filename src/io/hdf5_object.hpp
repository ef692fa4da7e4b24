// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/hdf5_handle.hpp"

namespace shard8::io {

/// Error(failed) unless `object` is in the file and is a group or a dataset, as asked for; the
/// message lists what is there.
void h5_require_object(hid_t file, const std::string& path, const std::string& object, H5O_type_t type);

/// The names of the groups or of the datasets that are directly in a group, in bytewise order.
std::vector<std::string> h5_children(hid_t group, const std::string& where, H5O_type_t type);

H5Handle h5_open_dataset(hid_t group, const std::string& name, const std::string& where);

/// Empty for a scalar.
std::vector<std::int64_t> h5_dataset_shape(hid_t dataset, const std::string& where);

/// H5T_INTEGER or H5T_FLOAT; anything else (strings, compounds) is Error(failed).
H5T_class_t h5_require_numbers(hid_t dataset, const std::string& where);

}  // namespace shard8::io
