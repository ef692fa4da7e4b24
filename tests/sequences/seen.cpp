// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/sequences/seen.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <stdexcept>

#include "io/digest.hpp"

namespace shard8::test {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  std::string text(static_cast<std::size_t>(file.tellg()), '\0');
  file.seekg(0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));  // another process may have made it shorter
  return text;
}

std::string digest_of(const std::string& text) { return io::digest128(text); }

bool is_lock(const std::string& name) { return name == "lock" || name.starts_with("lock.claim-"); }

/// The step of step_N + `ending`, -1 for other names.
std::int64_t step_in(const std::string& name, const std::string& ending) {
  constexpr std::size_t kDigits = 8;
  const std::string begin = "step_";
  if (name.size() != begin.size() + kDigits + ending.size() || !name.starts_with(begin) || !name.ends_with(ending))
    return -1;
  const std::string digits = name.substr(begin.size(), kDigits);
  const bool good = std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return good ? std::stoll(digits) : -1;
}

SeenCheckpoint look_at_checkpoint(const fs::path& folder) {
  SeenCheckpoint seen;
  std::string all;
  for (const auto& [name, digest] : digests_below(folder)) all += name + " " + digest + "\n";
  seen.digest = digest_of(all);
  const json manifest = json::parse(contents(folder / "manifest.json"), nullptr, false);
  if (!manifest.is_object()) return seen;
  seen.run = manifest.value("run", "");
  seen.step = manifest.value("step", std::int64_t{-1});
  seen.serial = manifest.value("serial", std::int64_t{-1});
  seen.has_parent_key = manifest.contains("parent");
  if (seen.has_parent_key && manifest["parent"].is_object())
    seen.parent = {manifest["parent"].value("run", ""), manifest["parent"].value("step", std::int64_t{-1})};
  return seen;
}

json object_in(const fs::path& file) {
  if (!fs::exists(file)) return nullptr;
  json object = json::parse(contents(file), nullptr, false);
  if (!object.is_object()) throw std::runtime_error(file.string() + " is no JSON object");
  return object;
}

}  // namespace

Digests digests_below(const fs::path& folder) {
  Digests digests;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, error); !error && it != fs::end(it); it.increment(error)) {
    const std::string name = it->path().filename();
    if (!it->is_regular_file() || is_lock(name) || name == "output") continue;
    digests[it->path().lexically_relative(folder)] = digest_of(contents(it->path()));
  }
  return digests;
}

SeenFolder look_at_folder(const fs::path& folder) {
  SeenFolder seen;
  std::error_code error;
  std::vector<std::pair<std::int64_t, fs::path>> aside;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (const std::int64_t step = step_in(name, ""); step >= 0) {
      seen.checkpoints[step] = look_at_checkpoint(entry.path());
    } else if (const std::int64_t old = step_in(name, ".old"); old >= 0) {
      aside.emplace_back(old, entry.path());
    } else if (name == "latest") {
      seen.latest = contents(entry.path());
      if (seen.latest.ends_with('\n')) seen.latest.pop_back();
    } else if (!is_lock(name) && step_in(name, ".tmp") < 0) {
      seen.others.push_back(name);
    }
  }
  for (const auto& [step, path] : aside) {
    if (seen.checkpoints.contains(step)) continue;
    fs::path written = path;  // a complete one that was to take its place does so at the next start
    written.replace_extension(".tmp");
    SeenCheckpoint one = look_at_checkpoint(written);
    if (one.step != step) {
      one = look_at_checkpoint(path);
      one.moved_aside = true;
    }
    if (one.step == step) seen.checkpoints[step] = one;
  }
  return seen;
}

std::vector<SeenLine> lines_of(const fs::path& file) {
  std::vector<SeenLine> lines;
  std::istringstream in(contents(file));
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) break;  // cut by a kill
    const json read = json::parse(line, nullptr, false);
    if (!read.is_object() || !read.contains("step") || !read.contains("loss") || !read["loss"].is_number() ||
        !read.contains("run"))
      throw std::runtime_error(fmt::format("{}: no line of metrics: {}", file.string(), line));
    lines.push_back({read["step"], read["loss"], read["run"]});
  }
  return lines;
}

SeenOutput look_at_output(const fs::path& folder) {
  SeenOutput seen;
  if (fs::exists(folder / "metrics.jsonl")) seen.lines = lines_of(folder / "metrics.jsonl");
  seen.training = object_in(folder / "training.json");
  seen.summary = object_in(folder / "summary.json");
  return seen;
}

}  // namespace shard8::test
