// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/restart/results.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>

#include "checkpoint/directory.hpp"
#include "io/digest.hpp"

namespace shard8::test {

namespace fs = std::filesystem;

namespace {

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<std::string> metrics_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::istringstream in(contents(file));
  for (std::string line; std::getline(in, line);) {
    const auto times = line.find(",\"step_s\"");
    if (in.eof() || times == std::string::npos) break;
    lines.push_back(line.substr(0, times));
  }
  return lines;
}

std::string difference_of_lines(const std::vector<std::string>& got, const std::vector<std::string>& wanted) {
  for (std::size_t i = 0; i < std::max(got.size(), wanted.size()); ++i) {
    const std::string a = i < got.size() ? got[i] : "no line", b = i < wanted.size() ? wanted[i] : "no line";
    if (a != b) return fmt::format("line {} of metrics.jsonl: {}\n  wanted: {}", i + 1, a, b);
  }
  return "";
}

std::vector<std::byte> bytes_of(checkpoint::Reader& reader, const checkpoint::ManifestTensor& tensor) {
  const io::Box whole{0, tensor.shape[0], 0, tensor.shape.size() == 1 ? 1 : tensor.shape[1]};
  const auto row = whole.cols * static_cast<std::int64_t>(tensor::size_of(tensor.dtype));
  std::vector<std::byte> bytes(static_cast<std::size_t>(whole.rows * row));
  reader.read(tensor, whole, bytes.data(), row);
  return bytes;
}

std::map<std::string, std::string> tensors_of(const fs::path& checkpoint) {
  checkpoint::Reader reader(checkpoint.string(), checkpoint::read_manifest(checkpoint.string()));
  for (std::size_t f = 0; f < reader.files(); ++f) reader.file(f).verify_all();
  std::map<std::string, std::string> found;
  for (const checkpoint::ManifestTensor& t : reader.manifest().tensors)
    found[t.name + ", " + t.content] = fmt::format("{} ({}) {}", tensor::name_of(t.dtype), fmt::join(t.shape, ", "),
                                                   io::digest128(bytes_of(reader, t)));
  return found;
}

std::string difference_of_tensors(const std::map<std::string, std::string>& got,
                                  const std::map<std::string, std::string>& wanted) {
  for (const auto& [name, value] : wanted) {
    const auto found = got.find(name);
    if (found == got.end()) return name + " is missing";
    if (found->second != value) return fmt::format("{}: {}, wanted {}", name, found->second, value);
  }
  for (const auto& [name, value] : got)
    if (!wanted.contains(name)) return name + " is not expected";
  return "";
}

std::string newest_checkpoint(const fs::path& folder) {
  const checkpoint::Directory directory(folder.string());
  std::string newest;
  std::int64_t largest = 0;
  for (const std::int64_t step : directory.steps()) {
    const std::int64_t serial = directory.open(step).serial;
    if (serial <= largest) continue;
    largest = serial;
    newest = directory.folder_of(step);
  }
  if (!newest.empty()) tensors_of(newest);
  return newest;
}

std::string restarted_from(const std::string& output) {
  constexpr std::string_view kLine = "\nrestart    from ";
  const auto at = output.find(kLine);
  if (at == std::string::npos) return "";
  const auto begin = at + kLine.size();
  return output.substr(begin, output.find(", step ", begin) - begin);
}

std::map<std::string, std::string> digests_of(const fs::path& folder) {
  std::map<std::string, std::string> digests;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) digests[entry.path().string()] = io::digest128(contents(entry.path()));
  return digests;
}

}  // namespace shard8::test
