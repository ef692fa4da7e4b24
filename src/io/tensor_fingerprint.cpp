// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "io/fingerprint.hpp"
#include "io/flat_range.hpp"
#include "io/tensor_file.hpp"

namespace shard8::io {

namespace {

/// A tensor whose values are in the stream, as the matrix of read_box().
struct Part {
  std::string name;
  std::array<std::int64_t, 2> shape;  // rows, columns
  std::int64_t first;                 // position in the stream of the tensor's first value
  std::int64_t count;
};

/// Whether read_box() can read the values.
bool has_values(const TensorFile& file, const std::string& name) {
  return file.shape(name).size() <= 2 && file.unreadable(name).empty();
}

class Stream {
 public:
  explicit Stream(const TensorFile& file) : file_(file) {
    for (const std::string& name : file.names()) add(name);
  }

  std::uint64_t values() const { return static_cast<std::uint64_t>(values_); }
  const std::string& header() const { return header_; }

  /// Reads the values [first, first + count).
  void read(float* out, std::int64_t first, std::int64_t count) const {
    // The last part that does not begin after `first`. Parts are never empty.
    auto part = std::upper_bound(parts_.begin(), parts_.end(), first,
                                 [](std::int64_t at, const Part& p) { return at < p.first; }) -
                1;
    for (; count > 0; ++part) {
      const std::int64_t from = first - part->first;
      const std::int64_t here = std::min(count, part->count - from);
      for_each_box(part->shape, from, here, [&](std::span<const Range> ranges, std::int64_t elements) {
        const auto &rows = ranges[0], &cols = ranges[1];
        file_.read_box(part->name, {rows.start, rows.count, cols.start, cols.count}, out, cols.count);
        out += elements;
      });
      first += here;
      count -= here;
    }
  }

 private:
  void number(std::size_t value) {
    const auto wide = static_cast<std::uint64_t>(value);
    header_.append(reinterpret_cast<const char*>(&wide), sizeof wide);
  }

  void add(const std::string& name) {
    const auto& shape = file_.shape(name);
    number(name.size());
    header_ += name;
    number(shape.size());
    std::int64_t count = 1;
    bool fits = true;
    for (const auto size : shape) {
      number(static_cast<std::size_t>(size));
      fits &= !__builtin_mul_overflow(count, size, &count);
    }
    if (count == 0 || !has_values(file_, name)) return;
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(sizeof(float));
    SHARD8_REQUIRE(fits && count <= kMost - values_, "'{}': more values than 64 bits count bytes", file_.spec());
    parts_.push_back({name, {shape.empty() ? 1 : shape[0], shape.size() < 2 ? 1 : shape[1]}, values_, count});
    values_ += count;
  }

  const TensorFile& file_;
  std::vector<Part> parts_;
  std::int64_t values_ = 0;
  std::string header_;
};

}  // namespace

Fingerprint fingerprint_of(const TensorFile& file) {
  const Stream stream(file);
  std::vector<float> values;
  const auto read = [&](std::uint64_t offset, std::span<std::byte> out) {
    const auto first = static_cast<std::int64_t>(offset / sizeof(float));
    values.resize(out.size() / sizeof(float));
    stream.read(values.data(), first, static_cast<std::int64_t>(values.size()));
    std::memcpy(out.data(), values.data(), out.size());
  };
  return fingerprint_of(stream.values() * sizeof(float), read,
                        {sizeof(float), static_cast<std::int64_t>(file.names().size()), stream.header()});
}

}  // namespace shard8::io
