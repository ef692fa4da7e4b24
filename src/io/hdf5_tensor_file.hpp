// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "io/io_thread.hpp"
#include "io/tensor_file.hpp"

namespace shard8::io {

/// The datasets directly in a group, "file.h5:/group", or in the root group, "file.h5".
std::unique_ptr<TensorFile> open_hdf5_tensors(IoThread& io, const std::string& spec);

}  // namespace shard8::io
