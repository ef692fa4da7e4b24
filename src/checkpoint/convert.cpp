// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/convert.hpp"

#include <cstring>

#include "base/error.hpp"
#include "tensor/bfloat16.hpp"

namespace shard8::checkpoint {

namespace {

using tensor::BFloat16;

template <class T>
T element(const std::byte* bytes, std::int64_t i) {
  T value;
  std::memcpy(&value, bytes + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

/// out[i] = f(i)
template <class F>
void fill(std::byte* out, std::int64_t count, const F& f) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = f(i);
    std::memcpy(out + static_cast<std::size_t>(i) * sizeof(value), &value, sizeof(value));
  }
}

}  // namespace

void convert(Conversion how, std::byte* out, const std::byte* in, const std::byte* remainder, std::int64_t count) {
  switch (how) {
    case Conversion::widen:
      return fill(out, count, [in](std::int64_t i) { return static_cast<float>(element<BFloat16>(in, i)); });
    case Conversion::round:
      return fill(out, count, [in](std::int64_t i) { return BFloat16(element<float>(in, i)); });
    case Conversion::join:
      return fill(out, count, [in, remainder](std::int64_t i) {
        return tensor::join_halves(element<BFloat16>(in, i), element<std::int16_t>(remainder, i));
      });
    case Conversion::upper_half:
      return fill(out, count, [in](std::int64_t i) { return tensor::split_halves(element<float>(in, i)).weight; });
    case Conversion::lower_half:
      return fill(out, count, [in](std::int64_t i) { return tensor::split_halves(element<float>(in, i)).remainder; });
    case Conversion::none:
      break;
  }
  base::fail(base::ExitCode::failed, "elements of the same dtype are not converted");
}

}  // namespace shard8::checkpoint
