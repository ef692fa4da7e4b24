// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Headers of .safetensors files. An input is tried as three files: as it is; with its first eight bytes replaced by the
// right length of the header (up to the last '}'); and, without these bytes, as the index of a checkpoint in several
// files. Each file must either be refused with a message that names it, or every tensor must lie in the file and be
// readable.
#include <fmt/format.h>

#include <cstring>

#include "io/tensor_file.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/io/safetensors_bytes.hpp"

namespace shard8::fuzz {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::int64_t kMostElements = 1 << 16;  // larger tensors are not read; chosen

class Files {
 public:
  Files() {
    write_file(folder_ / "part.safetensors",
               test::safetensors("{" + test::entry("w", "F32", "2", 0, 8) + "}", "12345678"));
  }

  void try_file(const std::string& name, std::string_view bytes) {
    const std::string path = folder_ / name;
    write_file(path, bytes);
    std::unique_ptr<io::TensorFile> file;
    try {
      file = io::open_tensor_file(io_, path);
    } catch (const base::Error& error) {
      return require_good_error(error, {folder_.path()});
    }
    for (const auto& tensor : file->names()) read(*file, tensor, bytes.size());
  }

 private:
  void read(const io::TensorFile& file, const std::string& name, std::size_t bytes) {
    const auto& shape = file.shape(name);
    std::int64_t elements = 1;
    for (const auto size : shape) {
      require(size >= 0 && (size == 0 || elements <= INT64_MAX / size), "a shape overflows: " + name);
      elements *= size;
    }
    if (shape.size() > 2 || elements > kMostElements) return;
    const std::int64_t rows = shape.empty() ? 1 : shape[0], cols = shape.size() < 2 ? 1 : shape[1];
    std::vector<float> values(static_cast<std::size_t>(elements));
    try {
      file.read_box(name, {0, rows, 0, cols}, values.data(), cols);
      require(file.spec().ends_with(".json") || elements <= static_cast<std::int64_t>(bytes),
              "a tensor is larger than its file: " + name);
      file.read_box(name, {rows / 2, rows - rows / 2, cols / 2, cols - cols / 2}, values.data(), cols);
    } catch (const base::Error& error) {
      require_good_error(error, {folder_.path()});
      require(std::string(error.what()).find("has dtype") != std::string::npos,
              fmt::format("not read: {}", error.what()));
    }
  }

  Folder folder_;
  io::IoThread io_;
};

std::string number(Random& random) {
  static const std::vector<std::string> odd = {
      "-1",   "2.0", "1e3", "9223372036854775807", "9223372036854775808", "4294967296", "18446744073709551616", "\"1\"",
      "null", "[1]", "{}"};
  return random.one_in(12) ? random.of(odd) : std::to_string(random.below(random.one_in(4) ? 70 : 5));
}

std::string numbers(Random& random, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + number(random);
  return text;
}

std::string name_of(Random& random) {
  static const std::vector<std::string> names = {
      "a",        "b",    "w",    "model.norm.weight", "__metadata__", "", "\\u0000", "\\ud800", "\\u001b[31m",
      "\xc3\xa9", "\xff", "\\\"", "weight_map",        "dtype"};
  return random.of(names);
}

/// The description of a tensor that is right in itself. The tensor's data follow those of the tensors before.
std::string right_entry(Random& random, const std::string& name, std::size_t& end) {
  static const std::vector<std::pair<std::string, std::size_t>> types = {
      {"F32", 4}, {"BF16", 2}, {"F16", 2}, {"F64", 8}, {"I8", 1}};
  const auto& [dtype, bytes] = random.of(types);
  const std::size_t rows = random.below(5), cols = random.below(4), begin = end;
  end += rows * cols * bytes;
  return test::entry(name, dtype, fmt::format("{},{}", rows, cols), begin, end);
}

std::string any_entry(Random& random) {
  static const std::vector<std::string> types = {"\"F32\"", "\"BF16\"", "\"F8_E4M3\"", "\"X\"", "3", "null", "[]"};
  std::string text = "\"" + name_of(random) + "\":{";
  static const std::vector<std::string> keys = {"dtype", "shape", "data_offsets", "other"};
  for (std::size_t i = 2 + random.below(3), k = 0; k < i; ++k) {
    const std::string& key = random.one_in(6) ? random.of(keys) : keys[k % keys.size()];
    text += (k == 0 ? "\"" : ",\"") + key + "\":";
    text += key == "dtype" ? random.of(types) : "[" + numbers(random, key == "shape" ? random.below(4) : 2) + "]";
  }
  return text + "}";
}

std::string index_of(Random& random) {
  static const std::vector<std::string> files = {
      "\"part.safetensors\"",       "\"none.safetensors\"", "\"..\"", "\"\"", "\"a/b\"", "3", "{}",
      "\"part.safetensors\\u0000\""};
  std::string text = "{\"metadata\":{},\"weight_map\":{";
  for (std::size_t i = 0, n = random.below(4); i < n; ++i) {
    text += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", random.one_in(2) ? "w" : name_of(random),
                        random.one_in(3) ? random.of(files) : files[0]);
  }
  return std::string(kLengthBytes, ' ') + text + "}}";
}

}  // namespace

void fuzz_one(const std::uint8_t* data, std::size_t size) {
  static Files files;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  files.try_file("w.safetensors", bytes);
  if (size < kLengthBytes) return;
  files.try_file("w.json", std::string_view(bytes).substr(kLengthBytes));
  const auto end = bytes.rfind('}');
  if (end == std::string::npos || end < kLengthBytes) return;
  const std::uint64_t length = end + 1 - kLengthBytes;
  std::memcpy(bytes.data(), &length, sizeof(length));
  files.try_file("repaired.safetensors", bytes);
}

std::vector<std::string> corpus() {
  const std::string eight = "12345678";
  std::vector<std::string> inputs = {
      test::safetensors("{" + test::entry("a", "F32", "2", 0, 8) + "}", eight),
      test::safetensors("{" + test::entry("a", "BF16", "2,2", 0, 8) + "}", eight),
      test::safetensors("{" + test::entry("a", "F64", "", 0, 8) + "}", eight),
      test::safetensors("{" + test::entry("a", "F16", "1,2,2", 0, 8) + "}", eight),
      test::safetensors("{" + test::entry("a", "I8", "4", 0, 4) + "," + test::entry("b", "F32", "1", 4, 8) + "}  ",
                        eight),
      test::safetensors("{\"__metadata__\":{\"format\":\"pt\"}," + test::entry("a", "F8_E4M3", "8", 0, 8) + "}", eight),
      test::safetensors("{" + test::entry("a", "F32", "0,7", 8, 8) + "," + test::entry("b", "F32", "2,1", 0, 8) + "}",
                        eight),
      test::safetensors("{}", ""),
      std::string(kLengthBytes, ' ') + R"({"metadata":{"total_size":8},"weight_map":{"w":"part.safetensors"}})"};
  Random random(0);
  for (int i = 0; i < 20; ++i) inputs.push_back(generate(random));
  return inputs;
}

std::vector<std::string> dictionary() {
  return json_words({"\"a\"", "\"dtype\":", "\"shape\":", "\"data_offsets\":", "\"__metadata__\":", "\"weight_map\":",
                     "\"F32\"", "\"BF16\"", "[0,8]", "[[", "]]", "{\"a\":", "\xff", "\xef\xbb\xbf",
                     std::string(1, '\0'), std::string(8, '\xff'), "4294967296,", "0,"});
}

std::string generate(Random& random) {
  if (random.one_in(6)) return index_of(random);
  std::string header = "{";
  std::size_t end = 0;
  const bool right = random.one_in(2);
  for (std::size_t i = 0, n = random.below(6); i < n; ++i) {
    header += (i == 0 ? "" : ",") + (right ? right_entry(random, fmt::format("t{}", i), end) : any_entry(random));
  }
  if (random.one_in(8)) {
    const std::size_t depth = 1 + random.below(5000);
    header += ",\"deep\":" + std::string(depth, '[') + std::string(random.one_in(2) ? depth : depth - 1, ']');
  }
  return test::safetensors(header + "}", std::string(right ? end : random.below(40), 'x'));
}

}  // namespace shard8::fuzz
