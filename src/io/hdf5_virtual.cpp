// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.hpp"
#include "base/text.hpp"

namespace shard8::io {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPlainCopy = "or give a copy that holds the values itself";

/// A text that HDF5 gives by get(buffer, bytes), which returns its length.
template <class Get>
std::string text_of(const std::string& where, Get&& get) {
  const auto size = SHARD8_H5(where, get(nullptr, std::size_t{0}));
  std::string text(static_cast<std::size_t>(size), '\0');
  SHARD8_H5(where, get(text.data(), text.size() + 1));
  return text;
}

/// Whether the size of a selection follows the size of its source. Such a selection is a regular hyperslab.
bool is_unlimited(hid_t space, const std::string& where) {
  if (SHARD8_H5(where, H5Sget_select_type(space)) != H5S_SEL_HYPERSLABS) return false;
  if (SHARD8_H5(where, H5Sis_regular_hyperslab(space)) == 0) return false;
  const auto rank = static_cast<std::size_t>(SHARD8_H5(where, H5Sget_simple_extent_ndims(space)));
  std::vector<hsize_t> start(rank), stride(rank), count(rank), block(rank);
  SHARD8_H5(where, H5Sget_regular_hyperslab(space, start.data(), stride.data(), count.data(), block.data()));
  return std::count(count.begin(), count.end(), H5S_UNLIMITED) + std::count(block.begin(), block.end(), H5S_UNLIMITED) >
         0;
}

/// A source's name without HDF5's escapes: %% is a percent sign. (%b, the number of a block, belongs to mappings
/// without a fixed size.)
std::string unescaped(std::string name) {
  for (std::size_t at = 0; (at = name.find("%%", at)) != std::string::npos; ++at) name.erase(at, 1);
  return name;
}

std::vector<hsize_t> extents_of(hid_t space, const std::string& where) {
  std::vector<hsize_t> sizes(static_cast<std::size_t>(SHARD8_H5(where, H5Sget_simple_extent_ndims(space))));
  SHARD8_H5(where, H5Sget_simple_extent_dims(space, sizes.data(), nullptr));
  return sizes;
}

/// Adds a selection to a union of selections, which all have the extent of the virtual dataset.
void add_selection(hid_t all, hid_t part, const std::string& where) {
  const auto kind = SHARD8_H5(where, H5Sget_select_type(part));
  if (kind == H5S_SEL_NONE) return;
  if (kind == H5S_SEL_ALL) {
    SHARD8_H5(where, H5Sselect_all(all));
  } else if (const auto before = SHARD8_H5(where, H5Sget_select_type(all)); before == H5S_SEL_NONE) {
    SHARD8_H5(where, H5Sselect_copy(all, part));
  } else if (before != H5S_SEL_ALL) {
    SHARD8_H5(where, H5Smodify_select(all, H5S_SELECT_OR, part));
  }
}

/// The first element in row-major order of a box that holds what a selection leaves out. The selection has hyperslabs
/// or nothing.
std::vector<hsize_t> first_outside(hid_t selected, const std::vector<hsize_t>& extents, const std::string& where) {
  const std::vector<hsize_t> zeros(extents.size());
  if (SHARD8_H5(where, H5Sget_select_type(selected)) == H5S_SEL_NONE) return zeros;
  const H5Handle rest(SHARD8_H5(where, H5Scopy(selected)), H5Sclose);
  SHARD8_H5(where, H5Sselect_hyperslab(rest.id(), H5S_SELECT_SET, zeros.data(), nullptr, extents.data(), nullptr));
  SHARD8_H5(where, H5Smodify_select(rest.id(), H5S_SELECT_NOTB, selected));
  std::vector<hsize_t> low(extents.size()), high(extents.size());
  SHARD8_H5(where, H5Sget_select_bounds(rest.id(), low.data(), high.data()));
  return low;
}

/// Checks that a mapping's selection lies in its source, whose extents are `found`.
void require_inside(hid_t selection, hid_t target, const std::vector<hsize_t>& found, const std::string& where,
                    const std::string& source) {
  const auto kind = SHARD8_H5(where, H5Sget_select_type(selection));
  if (kind == H5S_SEL_NONE) return;
  bool inside = true;
  std::string needed;
  if (kind == H5S_SEL_ALL) {  // the whole source, whatever its size when the mapping was made
    hsize_t elements = 1;
    for (const auto size : found) elements *= size;
    const auto wanted = static_cast<hsize_t>(SHARD8_H5(where, H5Sget_select_npoints(target)));
    inside = elements == wanted;
    needed = fmt::format("{} elements", wanted);
  } else {
    std::vector<hsize_t> low(static_cast<std::size_t>(SHARD8_H5(where, H5Sget_simple_extent_ndims(selection))));
    std::vector<hsize_t> high(low.size());
    SHARD8_H5(where, H5Sget_select_bounds(selection, low.data(), high.data()));
    inside = high.size() == found.size();
    for (std::size_t d = 0; inside && d < high.size(); ++d) inside = high[d] < found[d];
    needed = fmt::format("elements up to ({})", fmt::join(high, ", "));
  }
  if (inside) return;
  base::fail(base::ExitCode::deck,
             "{}: is a virtual dataset that needs {} of {}, but that has shape ({}): restore it, {}", where, needed,
             source, fmt::join(found, ", "), kPlainCopy);
}

}  // namespace

std::vector<std::string> h5_source_candidates(const std::string& primary, const std::string& name) {
  std::vector<std::string> out;
  fs::path file(name);
  if (file.is_absolute()) {
    out.push_back(name);
    file = file.filename();
  }
  std::error_code error;
  const fs::path whole = fs::absolute(primary, error);
  const fs::path folder = (error ? fs::path(primary) : whole).parent_path();  // there may be no working directory
  if (const char* const value = std::getenv("HDF5_VDS_PREFIX"); value != nullptr && *value != '\0') {
    std::string_view rest(value);
    while (!rest.empty()) {  // HDF5 takes the variable as a list of folders ...
      const auto end = std::min(rest.find(':'), rest.size());
      if (end > 0) out.push_back((fs::path(rest.substr(0, end)) / file).string());
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    constexpr std::string_view kOrigin = "${ORIGIN}";  // ... and as one folder, which may begin with that of the file
    if (const std::string_view one(value); one.starts_with(kOrigin))
      out.push_back((fs::path(folder.string() + "/" + std::string(one.substr(kOrigin.size()))) / file).string());
  }
  out.push_back((folder / file).string());
  out.push_back(file.string());
  std::error_code status;
  if (const fs::path real = fs::canonical(primary, status); !status)
    out.push_back((real.parent_path() / file).string());
  return out;
}

void StorageCheck::require_virtual(hid_t dataset, hid_t plan, const std::string& where) {
  const H5Handle own_file(SHARD8_H5(where, H5Iget_file_id(dataset)), H5Fclose);
  const std::string primary = h5_file_name(dataset, where);
  const H5Handle whole(SHARD8_H5(where, H5Dget_space(dataset)), H5Sclose);
  const auto extents = extents_of(whole.id(), where);
  const H5Handle mapped(SHARD8_H5(where, H5Scopy(whole.id())), H5Sclose);
  SHARD8_H5(where, H5Sselect_none(mapped.id()));
  std::size_t mappings = 0;
  SHARD8_H5(where, H5Pget_virtual_count(plan, &mappings));
  for (std::size_t i = 0; i < mappings; ++i) {
    const Mapping mapping = {
        H5Handle(SHARD8_H5(where, H5Pget_virtual_vspace(plan, i)), H5Sclose),
        H5Handle(SHARD8_H5(where, H5Pget_virtual_srcspace(plan, i)), H5Sclose),
        text_of(where, [&](char* out, std::size_t n) { return H5Pget_virtual_filename(plan, i, out, n); }),
        text_of(where, [&](char* out, std::size_t n) { return H5Pget_virtual_dsetname(plan, i, out, n); })};
    if (is_unlimited(mapping.target.id(), where) || is_unlimited(mapping.source.id(), where)) {
      base::fail(base::ExitCode::deck,
                 "{}: is a virtual dataset of which mapping {} (of '{}') has no fixed size, so values may be missing: "
                 "make it with fixed sizes, {}",
                 where, i, base::quotable(mapping.file), kPlainCopy);
    }
    const Shape& found = require_source(primary, own_file.id(), mapping, where);
    const auto source = fmt::format("'{}' in '{}'", base::quotable(mapping.dataset), base::quotable(mapping.file));
    require_inside(mapping.source.id(), mapping.target.id(), found, where, source);
    add_selection(mapped.id(), mapping.target.id(), where);
  }
  const auto needed = SHARD8_H5(where, H5Sget_select_npoints(whole.id()));
  const auto covered = SHARD8_H5(where, H5Sget_select_npoints(mapped.id()));
  if (covered == needed) return;
  base::fail(base::ExitCode::deck,
             "{}: is a virtual dataset that maps {} of its {} elements, and HDF5 would give the fill value for the "
             "others, the first of which are from ({}) on: map all of them, {}",
             where, covered, needed, fmt::join(first_outside(mapped.id(), extents, where), ", "), kPlainCopy);
}

const StorageCheck::Shape& StorageCheck::require_source(const std::string& primary, hid_t same_file,
                                                        const Mapping& mapping, const std::string& where) {
  std::string path = primary;
  H5Handle opened;
  if (mapping.file != ".") {
    const std::string name = unescaped(mapping.file);
    const auto candidates = h5_source_candidates(primary, name);
    // Opening anything but a regular file might wait for ever.
    const auto found = std::find_if(candidates.begin(), candidates.end(), [](const std::string& candidate) {
      std::error_code status;
      return fs::exists(candidate, status);
    });
    std::error_code status;
    if (found == candidates.end() || !fs::is_regular_file(*found, status)) {
      base::fail(
          base::ExitCode::deck,
          "{}: is a virtual dataset whose source file '{}' is {}; HDF5 would give the fill value in place of its "
          "values: put it beside '{}', set HDF5_VDS_PREFIX to its folder, {}",
          where, base::quotable(name), found == candidates.end() ? "missing" : "not a regular file",
          base::quotable(primary), kPlainCopy);
    }
    path = *found;
  }
  const std::pair<std::string, std::string> key(path, unescaped(mapping.dataset));
  if (const auto known = sources_.find(key); known != sources_.end()) return known->second;
  if (std::find(within_.begin(), within_.end(), key) != within_.end()) {
    base::fail(base::ExitCode::deck, "{}: is a virtual dataset with itself as a source: {}", where,
               "give one that holds the values itself");
  }
  within_.push_back(key);
  Shape shape;
  try {
    if (mapping.file != ".") opened = h5_open_file(path);
    const hid_t file = mapping.file == "." ? same_file : opened.id();
    const auto source = h5_open_object(file, path, key.second, H5O_TYPE_DATASET);
    const auto name = fmt::format("'{}:{}'", base::quotable(path), base::quotable(key.second));
    h5_require_filters(source.id(), name);
    require_allocated(source.id(), name);
    const H5Handle space(SHARD8_H5(name, H5Dget_space(source.id())), H5Sclose);
    shape = extents_of(space.id(), name);
  } catch (const base::Error& error) {
    base::fail(base::ExitCode::deck, "{}: is a virtual dataset with a source that cannot be read: {}", where,
               error.what());
  }
  within_.pop_back();
  return sources_.emplace(key, std::move(shape)).first->second;
}

}  // namespace shard8::io
