// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5_stored_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/text.hpp"
#include "io/hdf5_storage.hpp"

namespace shard8::io {

namespace {

constexpr std::string_view kAllowed = "fp32, bf16, fp16 or fp64";
constexpr std::size_t kLongestName = 64;  // chosen; names of dtypes are shorter

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
    if (bytes != nullptr) text = base::shortened(bytes, kLongestName);
    H5Dvlen_reclaim(type.id(), space.id(), H5P_DEFAULT, static_cast<void*>(&bytes));
  } else {
    const std::size_t size = H5Tget_size(type.id());
    if (size == 0 || size > kLongestName) return std::nullopt;
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

}  // namespace

StoredValues stored_values(hid_t dataset, const std::string& where) {
  StoredValues values = values_of_type(dataset, where);
  if (values.unreadable.empty()) values.unreadable = h5_missing_filter(dataset, where);
  return values;
}

}  // namespace shard8::io
