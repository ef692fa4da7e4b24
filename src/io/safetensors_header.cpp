// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_formats.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace shard8::io {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kLargestHeader = 100'000'000;  // the reference implementation's limit

struct Dtype {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<Dtype, 16> kDtypes = {{{"BOOL", 1},
                                            {"U8", 1},
                                            {"I8", 1},
                                            {"F8_E5M2", 1},
                                            {"F8_E4M3", 1},
                                            {"F8_E8M0", 1},
                                            {"I16", 2},
                                            {"U16", 2},
                                            {"F16", 2},
                                            {"BF16", 2},
                                            {"I32", 4},
                                            {"U32", 4},
                                            {"F32", 4},
                                            {"I64", 8},
                                            {"U64", 8},
                                            {"F64", 8}}};

template <class... Args>
[[noreturn]] void malformed(const InputFile& file, fmt::format_string<Args...> format, Args&&... args) {
  base::fail(base::ExitCode::failed, "'{}': not a valid .safetensors file: {}; copy or export it again", file.path(),
             fmt::format(format, std::forward<Args>(args)...));
}

std::string read_text(const InputFile& file) {
  if (file.size() < kLengthBytes) {
    malformed(file, "it has {} bytes, and the length of its header alone takes {}", file.size(), kLengthBytes);
  }
  std::uint64_t length = 0;
  file.read(std::as_writable_bytes(std::span(&length, 1)), 0);
  const auto most = std::min(kLargestHeader, file.size() - kLengthBytes);
  if (length < 2 || length > static_cast<std::uint64_t>(most)) {
    malformed(file, "it says that its header has {} bytes; at least 2 and at most {} are possible", length, most);
  }
  std::string text(length, '\0');
  file.read(std::as_writable_bytes(std::span(text)), kLengthBytes);
  return text;
}

/// The description of one tensor in the header; a part that is not given is empty.
struct Described {
  std::optional<std::string> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::vector<std::int64_t>> offsets;
};

/// Follows the parser's events through {"name": {"dtype": text, "shape": [...], "data_offsets": [...]}, ...}.
/// Nothing else is kept, so the memory grows with the number of tensors. Values of other keys, such as "__metadata__",
/// are skipped.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  using Visit = std::function<void(const std::string& name, Described&& tensor)>;

  HeaderEvents(const InputFile& file, Visit visit) : file_(file), visit_(std::move(visit)) {}

  bool null() override { return other("null"); }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return other(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (list_ == nullptr || value > INT64_MAX) return other(std::to_string(value));
    if (list_->size() == kMostNumbers) {
      malformed(file_, "tensor '{}': '{}' holds more than {} numbers", base::quotable(name_), key_, kMostNumbers);
    }
    list_->push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool number_float(number_float_t, const string_t& text) override { return other(text); }
  bool string(string_t& text) override {
    if (!in_tensor() || key_ != "dtype") return other("\"" + text + "\"");
    tensor_.dtype = text;
    return true;
  }
  bool binary(binary_t&) override { return other("bytes"); }

  bool start_object(std::size_t) override {
    if (depth_ == 1 && name_ != kMetadata) {
      tensor_ = {};
      keys_.clear();
    } else if (depth_ > 0) {
      other("an object");
    }
    return enter();
  }
  bool key(string_t& key) override {
    if (depth_ == 1) {
      if (!names_.insert(key).second) malformed(file_, "tensor '{}' is there twice", base::quotable(key));
      name_ = key;
    } else if (depth_ == 2) {
      key_ = key;
      if (name_ != kMetadata && !keys_.insert(key).second) {
        malformed(file_, "tensor '{}' has '{}' twice", base::quotable(name_), base::quotable(key));
      }
    }
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ == 1 && name_ != kMetadata) visit_(name_, std::move(tensor_));
    return true;
  }

  bool start_array(std::size_t) override {
    if (in_tensor() && key_ == "shape") {
      list_ = &tensor_.shape.emplace();
    } else if (in_tensor() && key_ == "data_offsets") {
      list_ = &tensor_.offsets.emplace();
    } else {
      other("a list");
    }
    return enter();
  }
  bool end_array() override {
    --depth_;
    list_ = nullptr;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    malformed(file_, "its header is not JSON ({})", base::text_of_json(error));
  }

 private:
  static constexpr int kDeepest = 16;              // chosen; a header has three levels
  static constexpr std::size_t kMostNumbers = 64;  // chosen; the most dimensions of a tensor
  static constexpr std::string_view kMetadata = "__metadata__";

  // Whether the parser is directly in the object that describes a tensor.
  bool in_tensor() const { return depth_ == 2 && name_ != kMetadata; }

  bool enter() {
    if (++depth_ > kDeepest) malformed(file_, "its header is nested more than {} deep", kDeepest);
    return true;
  }

  // Skips a value, or refuses it if another kind of value is needed at this place.
  bool other(const std::string& value) const {
    if (depth_ == 0) malformed(file_, "its header is not a JSON object");
    if (depth_ == 1 && name_ != kMetadata) malformed(file_, "tensor '{}' has no list 'shape'", base::quotable(name_));
    if (list_ != nullptr) {
      malformed(file_, "tensor '{}': '{}' holds {}, needed are integers from 0 to 2^63 - 1", base::quotable(name_),
                key_, base::quotable(value));
    }
    return true;
  }

  const InputFile& file_;
  Visit visit_;
  int depth_ = 0;
  std::set<std::string> names_;
  std::string name_;            // of the tensor whose description is read
  std::set<std::string> keys_;  // of its description
  std::string key_;
  Described tensor_;
  std::vector<std::int64_t>* list_ = nullptr;  // the list that is read
};

/// Bytes of a tensor by dtype and shape; -1 for a dtype that is not in the table. The elements of such a dtype are
/// counted as a byte each.
std::int64_t expected_bytes(const InputFile& file, const SafetensorsEntry& entry) {
  const auto* const dtype =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& known) { return known.name == entry.dtype; });
  const bool known = dtype != kDtypes.end();
  std::int64_t bytes = known ? dtype->bytes : 1;
  bool overflow = false;
  for (const auto size : entry.shape) overflow |= __builtin_mul_overflow(bytes, size, &bytes);
  if (overflow) {
    malformed(file, "tensor '{}' of shape ({}) has more than 2^63 bytes", base::quotable(entry.name),
              fmt::join(entry.shape, ", "));
  }
  return known ? bytes : -1;
}

SafetensorsEntry checked(const InputFile& file, const std::string& name, Described&& tensor, std::int64_t data_first) {
  const auto shown = base::quotable(name);
  if (!tensor.shape) malformed(file, "tensor '{}' has no list 'shape'", shown);
  if (!tensor.offsets) malformed(file, "tensor '{}' has no list 'data_offsets'", shown);
  if (!tensor.dtype) malformed(file, "tensor '{}' has no dtype", shown);
  SafetensorsEntry entry;
  entry.name = name;
  entry.shape = std::move(*tensor.shape);
  entry.dtype = std::move(*tensor.dtype);
  const auto& offsets = *tensor.offsets;

  const std::int64_t data_bytes = file.size() - data_first;
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    malformed(file,
              "tensor '{}' has data_offsets [{}], but {} bytes of data follow the header (is the "
              "file truncated?)",
              shown, fmt::join(offsets, ", "), data_bytes);
  }
  entry.first = data_first + offsets[0];
  entry.bytes = offsets[1] - offsets[0];
  const auto expected = expected_bytes(file, entry);
  if (expected >= 0 && expected != entry.bytes) {
    malformed(file, "tensor '{}' of dtype {} and shape ({}) needs {} bytes, its data_offsets give {}", shown,
              base::quotable(entry.dtype), fmt::join(entry.shape, ", "), expected, entry.bytes);
  }
  return entry;
}

void require_cover(const InputFile& file, const std::vector<SafetensorsEntry>& entries, std::int64_t data_first) {
  std::vector<const SafetensorsEntry*> order;
  for (const auto& entry : entries) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->first, a->bytes) < std::pair(b->first, b->bytes);
  });
  std::int64_t end = data_first;
  const std::string* before = nullptr;
  for (const auto* entry : order) {
    if (entry->first < end) {
      malformed(file, "tensor '{}' begins at byte {}, inside tensor '{}', which ends at byte {}",
                base::quotable(entry->name), entry->first, base::quotable(*before), end);
    }
    if (entry->first > end) {
      malformed(file, "{} bytes before tensor '{}' belong to no tensor", entry->first - end,
                base::quotable(entry->name));
    }
    end += entry->bytes;
    before = &entry->name;
  }
  if (end != file.size()) {
    malformed(file, "{} bytes at its end belong to no tensor", file.size() - end);
  }
}

}  // namespace

std::vector<SafetensorsEntry> read_safetensors_header(const InputFile& file) {
  const auto text = read_text(file);
  const auto data_first = kLengthBytes + static_cast<std::int64_t>(text.size());
  std::vector<SafetensorsEntry> entries;
  HeaderEvents events(file, [&](const std::string& name, Described&& tensor) {
    entries.push_back(checked(file, name, std::move(tensor), data_first));
  });
  nlohmann::json::sax_parse(text, &events);
  require_cover(file, entries, data_first);
  return entries;
}

}  // namespace shard8::io
