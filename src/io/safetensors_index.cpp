// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "io/input_file.hpp"
#include "io/safetensors.hpp"

namespace shard8::io {

namespace {

class IndexedFiles final : public TensorFile {
 public:
  explicit IndexedFiles(const std::string& path) : TensorFile(path) {
    const auto folder = std::filesystem::path(path).parent_path();
    for (const auto& [name, file] : read_map()) {
      auto& part = parts_[file];
      if (!part) part = open_safetensors((folder / file).string());
      if (!part->contains(name)) {
        base::fail(base::ExitCode::failed,
                   "'{}': says that tensor '{}' is in '{}', but it is not; copy all the files of "
                   "one checkpoint again",
                   spec(), name, part->spec());
      }
      add(name, part->shape(name));
      home_.emplace(name, part.get());
    }
  }

 private:
  std::map<std::string, std::string> read_map() const {
    const InputFile file(spec());
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(std::as_writable_bytes(std::span(text)), 0);
    std::map<std::string, std::string> out;
    try {
      const auto index = nlohmann::json::parse(text);
      for (const auto& [name, part] : index.at("weight_map").items()) {
        out[name] = part.get<std::string>();
      }
    } catch (const nlohmann::json::exception& error) {
      base::fail(base::ExitCode::failed,
                 "'{}': not an index of safetensors, which is JSON with \"weight_map\": "
                 "{{\"tensor\": \"file\"}}: {}",
                 spec(), error.what());
    }
    for (const auto& [name, part] : out) {
      if (part.empty() || part.find('/') != std::string::npos) {
        base::fail(base::ExitCode::failed,
                   "'{}': tensor '{}' is said to be in '{}'; needed is the plain name of a file "
                   "beside the index",
                   spec(), name, part);
      }
    }
    return out;
  }

  void read_checked(const std::string& name, const Box& box, float* out, std::int64_t row_stride) const override {
    home_.at(name)->read_box(name, box, out, row_stride);
  }

  std::map<std::string, std::unique_ptr<TensorFile>> parts_;
  std::map<std::string, const TensorFile*> home_;
};

}  // namespace

std::unique_ptr<TensorFile> open_safetensors_index(const std::string& path) {
  return std::make_unique<IndexedFiles>(path);
}

}  // namespace shard8::io
