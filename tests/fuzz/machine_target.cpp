// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Machine files. A text must either be refused, with exit code 2 and a message with its name, or be read. If it is
// read, what is written of it must be read to the same machine.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "machine/fields.hpp"
#include "machine/machine.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace shard8::fuzz {
namespace {

namespace fs = std::filesystem;

const std::string kName = "fuzz.yaml";

void add_folder(std::vector<std::string>& inputs, const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(SHARD8_SOURCE_DIR) / folder))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) inputs.push_back(read_file(file.string()));
}

/// The file to be filled in, its examples as entries.
std::string filled() {
  std::string text = machine::print_table("yaml");
  for (const machine::Group& group : machine::all_groups())
    for (const std::string_view example : group.examples)
      if (const auto at = text.find(fmt::format("  # {}\n", example)); at != std::string::npos) text.erase(at + 2, 2);
  for (std::size_t at = 0; (at = text.find("  # source: here\n", at)) != std::string::npos;) text.erase(at + 2, 2);
  return text;
}

}  // namespace

void fuzz_one(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  machine::Machine machine;
  try {
    machine = machine::read_text(text, kName);
  } catch (const base::Error& error) {
    require(error.code() == base::ExitCode::deck, fmt::format("not exit code 2: {}", error.what()));
    require_good_error(error, {kName + ":"});
    return;
  }
  require(!machine::summary(machine).empty(), "no summary");
  const std::string written = machine::write(machine);
  try {
    const std::string again = machine::write(machine::read_text(written, "again.yaml"));
    require(again == written, fmt::format("read to another machine:\n{}---\n{}", written, again));
  } catch (const base::Error& error) {
    throw Violation(fmt::format("what was written is refused: {}\n{}", error.what(), written));
  }
}

std::vector<std::string> corpus() {
  std::vector<std::string> inputs{filled(), machine::print_table("yaml")};
  add_folder(inputs, "inputs/machines");
  add_folder(inputs, "tests/machine/broken");
  return inputs;
}

std::vector<std::string> dictionary() {
  std::vector<std::string> words = {"x",   "1x",    "^T",   "+",    "/",      "@",    " @here", " @",   ": ", "'", "\"",
                                    "GiB", "B",     "us",   "e-6",  "1e300",  "0",    "-1",     "[",    "{",  "}", "]",
                                    "any", "fprop", "bf16", "e4m3", "tensor", "1x32", "2x8",    "\n  ", "\n", "#"};
  words.emplace_back(1, '\0');
  for (const machine::Group& group : machine::all_groups()) {
    words.push_back(fmt::format("\n{}:\n  source: here\n", group.name));
    for (const std::string_view example : group.examples) words.push_back(fmt::format("\n  {}\n", example));
    for (const machine::Field& field : group.fields)
      words.push_back(fmt::format("\n  {}: {} @here\n", field.key, field.example));
  }
  return words;
}

std::string generate(Random& random) {
  static const auto words = dictionary();
  std::string text = "machine: {format: 1, name: x, kind: cuda}\nsources: {here: 'chosen: x'}\n";
  for (std::size_t n = 1 + random.below(100); n > 0; --n) text += random.of(words);
  return text;
}

}  // namespace shard8::fuzz
