// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "io/hdf5.hpp"
#include "io/tensor_formats.hpp"

namespace shard8::io {

/// How the values of an HDF5 dataset become fp32. For the I/O thread.
struct StoredValues {
  /// Why they cannot, in words that follow "tensor 'name' "; otherwise empty.
  std::string unreadable;
  /// The dataset holds integers that are the bits of values of this type. Without it the dataset holds floats, which
  /// HDF5 converts.
  std::optional<StoredFloat> bits;
};

/// Decides by the dataset's type, by its attribute `dtype` if it has one, and by the filters that its chunks need. The
/// attribute is that of shard files (ShardLayout); names of PyTorch and safetensors are known, too. `where` names the
/// dataset in messages. Error(failed) if HDF5 fails.
StoredValues stored_values(hid_t dataset, const std::string& where);

}  // namespace shard8::io
