// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/box.hpp"
#include "io/hdf5.hpp"
#include "io/tensor_formats.hpp"

namespace shard8::io {
namespace {

constexpr std::string_view kAllowed = "fp32, bf16, fp16 or fp64";
constexpr std::size_t kLongestDtypeName = 64;  // chosen; names of dtypes are shorter

/// How the values of an HDF5 dataset become fp32. Used on the I/O thread.
struct StoredValues {
  /// Why they cannot, in words that follow "tensor 'name' "; otherwise empty.
  std::string unreadable;
  /// The dataset holds integers that are the bits of values of this type. Without a type the dataset holds floats,
  /// which HDF5 converts.
  std::optional<StoredFloat> bits;
};

/// The attribute `dtype` of a dataset.
struct Attribute {
  bool present = false;
  std::optional<std::string> text;  ///< none if the attribute is not one short text
};

/// Reads the text of an attribute that holds one text.
std::optional<std::string> text_of(hid_t attribute, const std::string& where) {
  const H5Handle type(SHARD8_H5(where, H5Aget_type(attribute)), H5Tclose);
  const H5Handle space(SHARD8_H5(where, H5Aget_space(attribute)), H5Sclose);
  if (H5Tget_class(type.id()) != H5T_STRING || H5Sget_simple_extent_npoints(space.id()) != 1) return std::nullopt;
  std::string text;
  if (SHARD8_H5(where, H5Tis_variable_str(type.id())) > 0) {
    char* bytes = nullptr;
    SHARD8_H5(where, H5Aread(attribute, type.id(), static_cast<void*>(&bytes)));
    if (bytes != nullptr) text = base::shortened(bytes, kLongestDtypeName);
    H5Dvlen_reclaim(type.id(), space.id(), H5P_DEFAULT, static_cast<void*>(&bytes));
  } else {
    const std::size_t size = H5Tget_size(type.id());
    if (size == 0 || size > kLongestDtypeName) return std::nullopt;
    text.resize(size);
    SHARD8_H5(where, H5Aread(attribute, type.id(), text.data()));
  }
  text.resize(std::min(text.find('\0'), text.size()));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

Attribute dtype_attribute(hid_t dataset, const std::string& where) {
  if (SHARD8_H5(where, H5Aexists(dataset, "dtype")) == 0) return {};
  const H5Handle attribute(SHARD8_H5(where, H5Aopen(dataset, "dtype", H5P_DEFAULT)), H5Aclose);
  return {true, text_of(attribute.id(), where)};
}

/// A name of a dtype in lower case and without PyTorch's module.
std::string plain(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.starts_with("torch.") ? name.substr(6) : name;
}

std::optional<StoredFloat> float_named(const std::string& name) {
  struct Named {
    std::string_view name;
    StoredFloat type;
  };
  static constexpr std::array<Named, 13> kNames = {{{"fp32", StoredFloat::f32},
                                                    {"float32", StoredFloat::f32},
                                                    {"float", StoredFloat::f32},
                                                    {"f32", StoredFloat::f32},
                                                    {"bf16", StoredFloat::bf16},
                                                    {"bfloat16", StoredFloat::bf16},
                                                    {"fp16", StoredFloat::f16},
                                                    {"float16", StoredFloat::f16},
                                                    {"half", StoredFloat::f16},
                                                    {"f16", StoredFloat::f16},
                                                    {"fp64", StoredFloat::f64},
                                                    {"float64", StoredFloat::f64},
                                                    {"f64", StoredFloat::f64}}};
  for (const Named& known : kNames)
    if (known.name == name) return known.type;
  return std::nullopt;
}

bool is_fp8(const std::string& name) {
  for (const std::string_view begin : {"e4m3", "e5m2", "ue8m0", "e8m0", "float8", "f8_", "fp8"})
    if (name.starts_with(begin)) return true;
  return false;
}

/// Whether a floating-point type of HDF5 is the one of this name. The two types of 16 bits differ in their exponents.
bool is_stored_as(hid_t type, StoredFloat named, const std::string& where) {
  std::array<std::size_t, 5> fields{};  // places and sizes of sign, exponent and mantissa
  SHARD8_H5(where, H5Tget_fields(type, &fields[0], &fields[1], &fields[2], &fields[3], &fields[4]));
  if (named == StoredFloat::bf16 && fields[2] != 8) return false;
  if (named == StoredFloat::f16 && fields[2] != 5) return false;
  return static_cast<std::int64_t>(H5Tget_size(type)) == bytes_of(named);
}

/// The dtypes alone, without filters.
StoredValues values_of_type(hid_t dataset, const std::string& where) {
  const H5Handle type(SHARD8_H5(where, H5Dget_type(dataset)), H5Tclose);
  const H5T_class_t kind = H5Tget_class(type.id());
  if (kind == H5T_NO_CLASS) h5_fail("H5Tget_class(type)", where);
  if (kind != H5T_INTEGER && kind != H5T_FLOAT)
    return {
        fmt::format("is neither of an integer nor of a floating-point type (HDF5 class {})", static_cast<int>(kind)),
        {}};
  const std::size_t bytes = H5Tget_size(type.id());
  const std::string stored = fmt::format("{} of {} bits", kind == H5T_FLOAT ? "floats" : "integers", 8 * bytes);
  const Attribute attribute = dtype_attribute(dataset, where);
  if (!attribute.present) {
    if (kind == H5T_FLOAT && bytes > 1) return {};
    return {fmt::format("holds {}, and no attribute 'dtype' says that they are the bits of {}", stored, kAllowed), {}};
  }
  if (!attribute.text) return {fmt::format("has an attribute 'dtype' that is not one text, such as {}", kAllowed), {}};
  const std::string name = plain(*attribute.text), shown = base::quotable(*attribute.text);
  if (is_fp8(name))
    return {fmt::format("has dtype '{}' by its attribute: give a copy in bf16, since shard8 reads no scales of FP8 "
                        "weights",
                        shown),
            {}};
  const auto named = float_named(name);
  if (!named) return {fmt::format("has dtype '{}' by its attribute; allowed for weights are {}", shown, kAllowed), {}};
  const bool agrees =
      kind == H5T_FLOAT ? is_stored_as(type.id(), *named, where) : static_cast<std::int64_t>(bytes) == bytes_of(*named);
  if (!agrees)
    return {fmt::format("holds {}{}, but its attribute says dtype '{}': correct the attribute, or write the file again",
                        stored, kind == H5T_FLOAT && bytes == 2 ? " of another kind" : "", shown),
            {}};
  if (kind == H5T_FLOAT) return {};
  return {{}, named};
}

/// Decides by the dataset's type, by its attribute `dtype` if it has one, and by the filters that its chunks need. The
/// attribute is that of shard files (ShardLayout); names of PyTorch and safetensors are known, too. `where` names the
/// dataset in messages. Error(failed) if HDF5 fails.
StoredValues stored_values(hid_t dataset, const std::string& where) {
  StoredValues values = values_of_type(dataset, where);
  if (values.unreadable.empty()) values.unreadable = h5_missing_filter(dataset, where);
  return values;
}

// Bits are read in blocks of rows of at most this many values, before they are decoded. Chosen.
constexpr std::int64_t kBitsAtOnce = std::int64_t{1} << 20;

class Hdf5TensorFile final : public TensorFile {
 public:
  Hdf5TensorFile(IoThread& io, const std::string& spec) : TensorFile(spec), io_(io) {
    io_.call([this] { open(); });
  }

  ~Hdf5TensorFile() override {
    io_.call([this] {
      group_ = H5Handle();
      file_ = H5Handle();
    });
  }

 private:
  void open() {
    auto [path, group] = h5_split(spec());
    if (group.empty()) group = "/";
    auto file = h5_open_file(path);
    auto at = h5_open_object(file.id(), path, group, H5O_TYPE_GROUP);
    for (auto& name : h5_children(at.id(), spec(), H5O_TYPE_DATASET)) {
      const auto where = fmt::format("'{}': tensor '{}'", spec(), base::quotable(name));
      const auto data = h5_open_dataset(at.id(), name, where);
      auto shape = h5_dataset_shape(data.id(), where);
      auto values = stored_values(data.id(), where);
      if (values.unreadable.empty()) h5_require_allocated(data.id(), where);
      if (values.bits) bits_.emplace(name, *values.bits);
      add(std::move(name), std::move(shape), std::move(values.unreadable));
    }
    // Stored last: if something above throws, its handles are closed here, on the I/O thread.
    file_ = std::move(file);
    group_ = std::move(at);
  }

  void read_checked(const std::string& name, const Box& box, float* out, std::int64_t row_stride) const override {
    io_.call([&] { read_here(name, box, out, row_stride); });
  }

  double read_one(const std::string& name, const Box& box) const override {
    const auto bits = bits_.find(name);
    if (bits != bits_.end() && bits->second != StoredFloat::f64) return TensorFile::read_one(name, box);
    double value = 0;
    io_.call([&] {
      const auto where = fmt::format("'{}': tensor '{}'", spec(), base::quotable(name));
      const auto data = h5_open_dataset(group_.id(), name, where);
      if (bits == bits_.end()) return read_values(data.id(), where, box, H5T_NATIVE_DOUBLE, &value, 1);
      const H5Handle type(SHARD8_H5(where, H5Dget_type(data.id())), H5Tclose);
      const H5Handle native(SHARD8_H5(where, H5Tget_native_type(type.id(), H5T_DIR_DEFAULT)), H5Tclose);
      read_values(data.id(), where, box, native.id(), &value, 1);  // the bits of one
    });
    return value;
  }

  void read_here(const std::string& name, const Box& box, float* out, std::int64_t row_stride) const {
    const auto where = fmt::format("'{}': tensor '{}'", spec(), base::quotable(name));
    const auto data = h5_open_dataset(group_.id(), name, where);
    const auto bits = bits_.find(name);
    if (bits == bits_.end()) return read_values(data.id(), where, box, H5T_NATIVE_FLOAT, out, row_stride);

    const H5Handle type(SHARD8_H5(where, H5Dget_type(data.id())), H5Tclose);
    const H5Handle native(SHARD8_H5(where, H5Tget_native_type(type.id(), H5T_DIR_DEFAULT)), H5Tclose);
    const std::int64_t rows_at_once = std::clamp<std::int64_t>(kBitsAtOnce / box.cols, 1, box.rows);
    std::vector<std::byte> buffer(static_cast<std::size_t>(rows_at_once * box.cols * bytes_of(bits->second)));
    for (std::int64_t first = 0; first < box.rows; first += rows_at_once) {
      const Box rows = clip_rows(box, box.row0 + first, rows_at_once);
      read_values(data.id(), where, rows, native.id(), buffer.data(), rows.cols);
      for (std::int64_t r = 0; r < rows.rows; ++r) {
        const std::byte* const row = buffer.data() + r * rows.cols * bytes_of(bits->second);
        decode_floats(out + (first + r) * row_stride, row, rows.cols, bits->second);
      }
    }
  }

  /// Reads a box as values of an HDF5 type in memory, into rows of `row_stride` such values.
  static void read_values(hid_t data, const std::string& where, const Box& box, hid_t type, void* out,
                          std::int64_t row_stride) {
    const std::array<hsize_t, 2> first = {static_cast<hsize_t>(box.row0), static_cast<hsize_t>(box.col0)};
    const std::array<hsize_t, 2> count = {static_cast<hsize_t>(box.rows), static_cast<hsize_t>(box.cols)};
    const H5Handle from(SHARD8_H5(where, H5Dget_space(data)), H5Sclose);
    const int rank = SHARD8_H5(where, H5Sget_simple_extent_ndims(from.id()));
    if (rank > 0) {
      SHARD8_H5(where, H5Sselect_hyperslab(from.id(), H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr));
    }
    const std::array<hsize_t, 2> memory = {count[0], static_cast<hsize_t>(row_stride)};
    const std::array<hsize_t, 2> origin = {0, 0};
    const H5Handle to(SHARD8_H5(where, H5Screate_simple(2, memory.data(), nullptr)), H5Sclose);
    SHARD8_H5(where, H5Sselect_hyperslab(to.id(), H5S_SELECT_SET, origin.data(), nullptr, count.data(), nullptr));
    SHARD8_H5(where, H5Dread(data, type, to.id(), from.id(), H5P_DEFAULT, out));
  }

  IoThread& io_;
  H5Handle file_;
  H5Handle group_;
  std::map<std::string, StoredFloat> bits_;  ///< tensors that are stored as bits of this type
};

}  // namespace

std::unique_ptr<TensorFile> open_hdf5_tensors(IoThread& io, const std::string& spec) {
  return std::make_unique<Hdf5TensorFile>(io, spec);
}

}  // namespace shard8::io
