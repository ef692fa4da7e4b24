// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint, and the files beside it. An input is tried as a manifest as it is, as one whose digest
// is put right, and as `latest` and a lock. A manifest is refused with code 4 and a message that names it, or it is
// written with the same values again. The other two are refused or understood.
#include <fmt/format.h>

#include "checkpoint/directory.hpp"
#include "checkpoint/lock.hpp"
#include "checkpoint/manifest.hpp"
#include "io/digest.hpp"
#include "tests/checkpoint/checkpoints.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace shard8::fuzz {
namespace {

constexpr std::string_view kPath = "step_00000001/manifest.json";

void try_manifest(std::string_view text) {
  checkpoint::Manifest manifest;
  try {
    manifest = checkpoint::parse_manifest(text, std::string(kPath));
  } catch (const base::Error& error) {
    return require_good_error(error, {std::string(kPath)}, {base::ExitCode::checkpoint});
  }
  const std::string again = checkpoint::manifest_text(manifest);
  require(checkpoint::parse_manifest(again, "again") == manifest, "a manifest changes when it is written again");
  for (const auto& shard : manifest.files) {
    require(shard.file.find('/') == std::string::npos, "a file outside the checkpoint: " + shard.file);
    require(shard.index_offset + shard.index_bytes <= shard.length, "an index outside its file: " + shard.file);
  }
}

/// A checkpoint whose manifest lists files that are not there.
void try_directory(const std::string& text) {
  static const Folder folder;
  static const bool made = [] { return std::filesystem::create_directory(folder / checkpoint::step_name(1)); }();
  require(made, "cannot make a folder");
  const checkpoint::Directory directory(folder.path());
  write_file(directory.folder_of(1) + "/manifest.json", text);
  write_file(folder / "latest", text);
  const auto scan = directory.scan();
  require(scan.usable.size() + scan.unusable.size() == 1, "a checkpoint is lost");
  for (const auto& one : scan.unusable) {
    require_good_error(base::Error(base::ExitCode::checkpoint, one.why), {folder.path()}, {base::ExitCode::checkpoint});
  }
  if (const auto step = directory.latest()) require(*step >= 0 && *step <= 2147483647, "latest is no step");
}

void try_lock(std::string_view text) {
  const auto holder = checkpoint::parse_lock(text);
  if (holder) require(checkpoint::parse_lock(checkpoint::lock_text(*holder)) == holder, "a lock changes");
}

std::string small_lock() { return checkpoint::lock_text({"node17", "boot", "pid:[1]", 12, 34, "run 1", 56}); }

std::string number(Random& random) {
  static const std::vector<std::string> odd = {
      "-1",   "2.0", "1e3", "9223372036854775807", "9223372036854775808", "2147483648", "18446744073709551616", "\"1\"",
      "null", "[1]", "{}"};
  return random.one_in(12) ? random.of(odd) : std::to_string(random.below(random.one_in(4) ? 70 : 5));
}

}  // namespace

void fuzz_one(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try_manifest(text);
  const std::string repaired = test::with_digest(text);
  try_manifest(repaired);
  try_directory(repaired);
  try_lock(text);
  std::string padded = text;
  padded.resize(small_lock().size(), ' ');
  try_lock(padded);
}

std::vector<std::string> corpus() {
  auto manifest = test::small_manifest();
  std::vector<std::string> inputs = {checkpoint::manifest_text(manifest), small_lock(), "step_00001200\n"};
  manifest.deck.clear();
  manifest.plan.clear();
  manifest.step = 1;
  inputs.push_back(checkpoint::manifest_text(manifest));
  manifest.tensors.clear();
  manifest.files.clear();
  inputs.push_back(checkpoint::manifest_text(manifest));
  Random random(0);
  for (int i = 0; i < 20; ++i) inputs.push_back(generate(random));
  return inputs;
}

std::vector<std::string> dictionary() {
  return json_words({"\"format\": 2,", "\"step\": ", "\"files\": ", "\"tensors\": ", "\"shape\":", "\"file\":",
                     "\"..\"", "\"a/b\"", "\"fp32\"", "\"digest\": \"", "[[", "{\"a\":", "\xff", "\xef\xbb\xbf",
                     "4294967296", "pid ", "beats ", "\n", std::string(1, '\0')});
}

/// A manifest with drawn numbers in the places of some of its own.
std::string generate(Random& random) {
  auto manifest = test::small_manifest();
  manifest.step = static_cast<std::int64_t>(random.below(3));
  const std::string text = checkpoint::manifest_text(manifest);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find_first_not_of("0123456789", at), text.size());
    if (end > at && random.one_in(6)) {
      out += number(random);
    } else {
      out += text.substr(at, std::max<std::size_t>(end - at, 1));
    }
    at = std::max(end, at + 1);
  }
  if (random.one_in(8)) {
    const std::size_t depth = 1 + random.below(5000);
    out.insert(out.find("\"plan\": ") + 8, std::string(depth, '[') + std::string(random.one_in(2) ? depth : 0, ']'));
  }
  return out;
}

}  // namespace shard8::fuzz
