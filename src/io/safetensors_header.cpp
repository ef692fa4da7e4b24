// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/error.hpp"

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

nlohmann::json parse(const InputFile& file, const std::string& text) {
  std::set<std::string> seen;
  std::string twice;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1 && !seen.insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    return true;
  };
  nlohmann::json header;
  try {
    header = nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    malformed(file, "its header is not JSON ({})", error.what());
  }
  if (!twice.empty()) malformed(file, "tensor '{}' is there twice", twice);
  if (!header.is_object()) malformed(file, "its header is not a JSON object");
  return header;
}

/// A list of integers from 0 to 2^63 - 1.
std::vector<std::int64_t> integers(const InputFile& file, const std::string& name, const nlohmann::json& entry,
                                   const char* key) {
  const auto list = entry.is_object() ? entry.find(key) : entry.end();
  if (!entry.is_object() || list == entry.end() || !list->is_array()) {
    malformed(file, "tensor '{}' has no list '{}'", name, key);
  }
  std::vector<std::int64_t> out;
  for (const auto& item : *list) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > INT64_MAX) {
      malformed(file, "tensor '{}': '{}' holds {}, needed are integers from 0 to 2^63 - 1", name, key,
                item.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    out.push_back(item.get<std::int64_t>());
  }
  return out;
}

/// Bytes of a tensor; -1 for a dtype of a size not known here.
std::int64_t expected_bytes(const InputFile& file, const SafetensorsEntry& entry) {
  const auto* const dtype =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& known) { return known.name == entry.dtype; });
  if (dtype == kDtypes.end()) return -1;
  std::int64_t bytes = dtype->bytes;
  bool overflow = false;
  for (const auto size : entry.shape) overflow |= __builtin_mul_overflow(bytes, size, &bytes);
  if (overflow) {
    malformed(file, "tensor '{}' of shape ({}) has more than 2^63 bytes", entry.name, fmt::join(entry.shape, ", "));
  }
  return bytes;
}

SafetensorsEntry parse_entry(const InputFile& file, const std::string& name, const nlohmann::json& json,
                             std::int64_t data_first) {
  SafetensorsEntry entry;
  entry.name = name;
  entry.shape = integers(file, name, json, "shape");
  const auto offsets = integers(file, name, json, "data_offsets");
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) malformed(file, "tensor '{}' has no dtype", name);
  entry.dtype = dtype->get<std::string>();

  const std::int64_t data_bytes = file.size() - data_first;
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    malformed(file,
              "tensor '{}' has data_offsets [{}], but {} bytes of data follow the header (is the "
              "file truncated?)",
              name, fmt::join(offsets, ", "), data_bytes);
  }
  entry.first = data_first + offsets[0];
  entry.bytes = offsets[1] - offsets[0];
  const auto expected = expected_bytes(file, entry);
  if (expected >= 0 && expected != entry.bytes) {
    malformed(file, "tensor '{}' of dtype {} and shape ({}) needs {} bytes, its data_offsets give {}", name,
              entry.dtype, fmt::join(entry.shape, ", "), expected, entry.bytes);
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
      malformed(file, "tensor '{}' begins at byte {}, inside tensor '{}', which ends at byte {}", entry->name,
                entry->first, *before, end);
    }
    if (entry->first > end) {
      malformed(file, "{} bytes before tensor '{}' belong to no tensor", entry->first - end, entry->name);
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
  const auto header = parse(file, text);
  for (const auto& [name, json] : header.items()) {
    if (name != "__metadata__") entries.push_back(parse_entry(file, name, json, data_first));
  }
  require_cover(file, entries, data_first);
  return entries;
}

}  // namespace shard8::io
