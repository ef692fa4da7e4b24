// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

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

}  // namespace shard8::io
