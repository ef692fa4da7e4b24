// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5_handle.hpp"

#include <filesystem>

#include "base/error.hpp"

namespace shard8::io {

namespace {

herr_t append_line(unsigned depth, const H5E_error2_t* error, void* text) {
  auto& lines = *static_cast<std::string*>(text);
  if (depth > 0) lines += "; ";
  lines += error->func_name;
  lines += ": ";
  lines += error->desc;
  return 0;
}

/// The error stack on one line, innermost first; cleared.
std::string take_error_stack() {
  std::string text;
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, append_line, &text) < 0 || text.empty()) {
    text = "(nothing)";
  }
  H5Eclear2(H5E_DEFAULT);
  return text;
}

}  // namespace

void H5Handle::close(const std::string& where) {
  const hid_t id = std::exchange(id_, -1);
  if (id >= 0 && close_(id) < 0) h5_fail("close", where);
}

void h5_open_library() { h5_check(H5open(), "H5open()", "HDF5"); }

void h5_silence() { h5_check(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "H5Eset_auto2(...)", "HDF5"); }

void h5_fail(const char* expression, const std::string& where) {
  const std::string stack = take_error_stack();
  // 1.10 locks files even for reading, and says so in these words where it cannot.
  const bool lock = stack.find("unable to lock file") != std::string::npos;
  base::fail(base::ExitCode::failed, "{}: {} failed; HDF5 says: {}{}", where, expression, stack,
             lock ? "; on a file system without locks set HDF5_USE_FILE_LOCKING=FALSE" : "");
}

H5Handle h5_open_file(const std::string& path) {
  std::error_code status;
  if (!std::filesystem::is_regular_file(path, status)) {
    base::fail(base::ExitCode::deck, "'{}': no such file; an HDF5 file is needed here, written as file.h5:/object",
               path);
  }
  const htri_t known = H5Fis_hdf5(path.c_str());
  if (known == 0) {
    base::fail(base::ExitCode::failed,
               "'{}': not an HDF5 file (its signature is missing); check the path, or copy the "
               "file again",
               path);
  }
  h5_check(known, "H5Fis_hdf5(path)", path);
  return {SHARD8_H5(path, H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)), H5Fclose};
}

H5Spec h5_split(const std::string& spec) {
  const auto colon = spec.rfind(":/");
  if (colon == std::string::npos) return {spec, ""};
  return {spec.substr(0, colon), spec.substr(colon + 1)};
}

}  // namespace shard8::io
