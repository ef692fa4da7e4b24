// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.hpp"
#include "io/digest.hpp"
#include "io/file.hpp"

namespace shard8::checkpoint {

namespace {

// nlohmann::json sorts keys; this keeps the order in which they are given.
using Json = nlohmann::ordered_json;

constexpr std::int64_t kLargest = 256 << 20;  // chosen: 4,096 files and 4,000 tensors take about 2 MB

// What is no UTF-8 is replaced; write_manifest() sees the difference.
std::string dumped(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string line(const char* key, const Json& value) { return fmt::format("\"{}\": {},\n", key, dumped(value)); }

template <class Items, class ToJson>
std::string lines(const char* key, const Items& items, ToJson&& to_json) {
  std::string text = fmt::format("\"{}\": [", key);
  const char* before = "\n";
  for (const auto& item : items) {
    text += before + dumped(to_json(item));
    before = ",\n";
  }
  return text + "\n],\n";
}

Json json_of(const ManifestKey& key) { return {{"key", key.key}, {"value", key.value}, {"origin", key.origin}}; }

Json json_of(const ManifestTensor& tensor) {
  return {{"name", tensor.name},
          {"content", tensor.content},
          {"dtype", tensor::name_of(tensor.dtype)},
          {"shape", tensor.shape}};
}

Json json_of(const ShardSummary& shard) {
  return {{"file", shard.file},
          {"length", shard.length},
          {"index_offset", shard.index_offset},
          {"index_bytes", shard.index_bytes},
          {"index_digest", shard.index_digest},
          {"rest_digest", shard.rest_digest}};
}

Json json_of(const std::optional<Parent>& parent) {
  if (!parent) return nullptr;
  return {{"run", parent->run}, {"step", parent->step}};
}

Json json_of(const std::optional<ManifestInput>& input) {
  if (!input) return nullptr;
  return {{"path", input->path}, {"length", input->length}, {"samples", input->samples}, {"digest", input->digest}};
}

}  // namespace

std::string manifest_text(const Manifest& m) {
  std::string text = "{\n";
  text += line("format", m.format);
  text += line("program", m.program);
  text += line("git_hash", m.git_hash);
  text += line("run", m.run);
  text += line("parent", json_of(m.parent));
  text += line("serial", m.serial);
  text += line("step", m.step);
  text += line("mesh", base::json_of<Json>(m.mesh));
  Json data{{"sequences", m.sequences}, {"seed", m.data_seed}, {"input", json_of(m.data)}};
  if (m.validation) data["validation"] = json_of(m.validation);
  text += line("data", data);
  text += line("weights", json_of(m.weights));
  text += line("loss", m.loss ? Json(*m.loss) : Json(nullptr));
  text += line("random", {{"kind", "counter"}, {"init_seed", m.init_seed}});
  text += line("plan", m.plan);
  const auto to_json = [](const auto& item) { return json_of(item); };
  text += lines("deck", m.deck, to_json);
  text += lines("tensors", m.tensors, to_json);
  text += lines("files", m.files, to_json);
  return text + fmt::format("\"digest\": \"{}\"\n}}\n", io::digest128(text));
}

std::string read_manifest_text(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kManifestFile);
  try {
    const io::InputFile file(path);
    if (file.size() > kLargest) {
      base::fail(base::ExitCode::checkpoint, "'{}': has {} bytes; a manifest has at most {}", path, file.size(),
                 kLargest);
    }
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(std::as_writable_bytes(std::span(text)), 0);
    return text;
  } catch (const base::Error& error) {
    base::fail(base::ExitCode::checkpoint,
               "{}; a folder without a readable manifest is no checkpoint: restart from another one", error.what());
  }
}

Manifest read_manifest(const std::string& folder) {
  return parse_manifest(read_manifest_text(folder), fmt::format("{}/{}", folder, kManifestFile));
}

void write_manifest(const std::string& folder, const Manifest& manifest) {
  const std::string path = fmt::format("{}/{}", folder, kManifestFile);
  const std::string text = manifest_text(manifest);
  SHARD8_REQUIRE(manifest.format == kManifestFormat, "'{}': manifests of format {} are only read", path,
                 manifest.format);
  SHARD8_REQUIRE(parse_manifest(text, path) == manifest, "'{}': the manifest differs when it is read back", path);
  io::write_durably(path, text);
}

}  // namespace shard8::checkpoint
