// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_formats.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "io/file.hpp"

namespace shard8::io {

namespace {

/// Makes the file; one of that name is removed first.
RawFile create_anew(const std::string& path) {
  ::unlink(path.c_str());  // if this fails, create() says why
  return RawFile::create(path, RawFile::Content::other);
}

/// The length in 8 bytes, then the header in JSON, filled up with spaces to a multiple of 8 bytes.
std::string header_of(const std::vector<SafetensorsTensor>& tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t offset = 0;
  for (const SafetensorsTensor& t : tensors) {
    header[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {offset, offset + t.bytes}}};
    offset += t.bytes;
  }
  std::string json = header.dump();
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = json.size();  // little-endian, as the format needs
  std::string text(sizeof(length), '\0');
  std::memcpy(text.data(), &length, sizeof(length));
  return text + json;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, const std::vector<SafetensorsTensor>& tensors)
    : path_(std::move(path)), file_(create_anew(temporary_of(path_))) {
  try {
    const std::string header = header_of(tensors);
    end_ = header.size();
    for (const SafetensorsTensor& t : tensors) end_ += t.bytes;
    file_.set_length(end_);
    file_.write(std::as_bytes(std::span(header)), 0);
    next_ = header.size();
  } catch (...) {
    ::unlink(file_.path().c_str());
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!committed_) ::unlink(temporary_of(path_).c_str());
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  SHARD8_REQUIRE(bytes.size() <= end_ - next_, "'{}': {} bytes are left to write, and there are {}", path_,
                 end_ - next_, bytes.size());
  file_.write(bytes, next_);
  next_ += bytes.size();
}

void SafetensorsWriter::finish() {
  SHARD8_REQUIRE(next_ == end_, "'{}': {} of its {} bytes were written", path_, next_, end_);
  file_.sync();
  file_.close();
}

void SafetensorsWriter::commit() {
  const std::string temporary = temporary_of(path_);
  if (std::rename(temporary.c_str(), path_.c_str()) != 0)
    base::fail(base::ExitCode::environment,
               "'{}': cannot rename into place: {}; it needs a folder that can be written to", path_,
               std::generic_category().message(errno));
  committed_ = true;
}

}  // namespace shard8::io
