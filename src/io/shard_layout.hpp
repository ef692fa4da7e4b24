// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/io_thread.hpp"
#include "io/shard_box.hpp"
#include "io/shard_index.hpp"

namespace shard8::io {

/// Where everything lies in a shard file, an HDF5 file:
///
///     /                                   attributes format, format_version, run_id, step
///     /tensors/NAME/CONTENT/rROW0_cCOL0   a contiguous dataset for each box, (rows) or (rows, cols); attributes dtype,
///                                         shape (of the whole tensor), row0, col0
///     /index                              a scalar text of fixed length: ShardIndex
///
/// bf16 is stored as u16, the 8-bit floating-point types as u8. Data of 64 KiB or more begin at multiples of 4096.
struct ShardLayout {
  std::uint64_t length = 0;  ///< of the file
  ByteRange index;
  std::vector<std::byte> rest;  ///< the bytes of rest_of(), one piece behind the other
};

/// Has HDF5 lay out the file on the I/O thread, and sets the offsets of index.boxes. Nothing is written to a disk: HDF5
/// writes into memory, as it cannot recover from a disk that is full; the memory holds its structures, not the data.
/// problem_of_boxes() must have found nothing. Error(failed) if this process may not write files so long (ulimit -f),
/// or if HDF5 fails; `path` is for the messages.
ShardLayout lay_out_shard(IoThread& io, const std::string& path, ShardIndex& index);

}  // namespace shard8::io
