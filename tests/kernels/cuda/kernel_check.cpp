// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "kernels/cuda/gemm.hpp"
#include "tensor/cuda/device.hpp"
#include "tensor/tensor.hpp"
#include "tests/kernels/cuda/device_memory.hpp"
#include "tests/kernels/cuda/totals.hpp"

namespace shard8::test {
namespace {

namespace cuda = kernels::cuda;
using tensor::BFloat16;
using tensor::DType;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint8_t kUntouched = 0xa5;

Bytes random_bytes(std::int64_t count, std::uint64_t seed) {
  Bytes bytes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(mix(seed ^ mix(i)) >> 40);
  return bytes;
}

std::string shape_of(std::int64_t rows, std::int64_t cols) {
  return "(" + std::to_string(rows) + ", " + std::to_string(cols) + ")";
}

/// Runs a kernel that writes `bytes` bytes, and returns them. The kernel must not write the bytes after them.
Bytes output_of(cudaStream_t stream, std::size_t bytes, Totals& totals, const std::string& name,
                const std::function<void(char*)>& kernel) {
  constexpr std::size_t kBehind = 512;
  const DeviceMemory out(bytes + kBehind);
  SHARD8_CUDA_CHECK(cudaMemsetAsync(out.data(), kUntouched, bytes + kBehind, stream));
  kernel(out.data());
  Bytes result = out.download<std::uint8_t>(stream, bytes + kBehind);
  const auto end = result.begin() + static_cast<std::ptrdiff_t>(bytes);
  totals.expect(std::all_of(end, result.end(), [](std::uint8_t b) { return b == kUntouched; }),
                name + " writes behind its output");
  result.resize(bytes);
  return result;
}

template <class T>
void expect_same(Totals& totals, const std::string& name, const Bytes& got, const std::vector<T>& want) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(want.data());
  const auto differ = std::mismatch(got.begin(), got.end(), bytes);
  totals.expect(
      got.size() == sizeof(T) * want.size() && differ.first == got.end(),
      name + " is wrong from byte " + std::to_string(differ.first - got.begin()) + " of " + std::to_string(got.size()));
}

void check_transpose(cudaStream_t stream, std::int64_t rows, std::int64_t cols, Totals& totals) {
  const Bytes from = random_bytes(rows * cols, 1);
  const DeviceMemory in(from.size());
  in.upload(stream, from);
  Bytes want(from.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      want[static_cast<std::size_t>(c * rows + r)] = from[static_cast<std::size_t>(r * cols + c)];
    }
  }
  const std::string name = "transpose_bytes of " + shape_of(rows, cols);
  const Bytes got = output_of(stream, from.size(), totals, name,
                              [&](char* out) { cuda::transpose_bytes(stream, out, in.data(), rows, cols); });
  expect_same(totals, name, got, want);
}

void check_scales(cudaStream_t stream, std::int64_t rows, std::int64_t cols, Totals& totals) {
  std::vector<float> from;
  for (std::int64_t i = 0; i < rows * cols; ++i) from.push_back(1.0f + static_cast<float>(i));
  const DeviceMemory in(sizeof(float) * from.size());
  in.upload(stream, from);
  const auto* const data = reinterpret_cast<const float*>(in.data());
  const auto padded = [](std::int64_t n) { return (n + 3) / 4 * 4; };
  const auto check = [&](const std::string& name, std::int64_t lines, std::int64_t pitch, const auto& at,
                         const std::function<void(float*)>& kernel) {
    std::vector<float> want;
    for (std::int64_t i = 0; i < lines; ++i) {
      for (std::int64_t j = 0; j < pitch; ++j) want.push_back(at(i, j));
    }
    const Bytes got = output_of(stream, sizeof(float) * want.size(), totals, name,
                                [&](char* out) { kernel(reinterpret_cast<float*>(out)); });
    expect_same(totals, name, got, want);
  };
  const auto value = [&](std::int64_t r, std::int64_t c) {
    return r < rows && c < cols ? from[static_cast<std::size_t>(r * cols + c)] : 0.0f;
  };
  check("pad_scales of " + shape_of(rows, cols), rows, padded(cols), value,
        [&](float* out) { cuda::pad_scales(stream, out, data, rows, cols, padded(cols)); });
  for (const std::int64_t pitch : {rows, padded(rows)}) {
    check(
        "transpose_scales of " + shape_of(rows, cols), cols, pitch,
        [&](std::int64_t i, std::int64_t j) { return value(j, i); },
        [&](float* out) { cuda::transpose_scales(stream, out, data, rows, cols, pitch); });
  }
}

float decoded(DType dtype, std::uint8_t bits) {
  if (dtype == DType::e4m3) {
    tensor::E4M3 value;
    value.bits = bits;
    return static_cast<float>(value);
  }
  tensor::E5M2 value;
  value.bits = bits;
  return static_cast<float>(value);
}

void check_dequantize(cudaStream_t stream, DType dtype, cuda::MxBlocks blocks, std::int64_t rows, std::int64_t cols,
                      Totals& totals) {
  const bool by_row = blocks == cuda::MxBlocks::row;
  const Bytes from = random_bytes(rows * cols, 2), scales = random_bytes(rows * cols / 32, 3);
  const DeviceMemory in(from.size()), scale_inv(scales.size());
  in.upload(stream, from);
  scale_inv.upload(stream, scales);
  const std::string name = "dequantize_mx of " + std::string(tensor::name_of(dtype)) + " " + shape_of(rows, cols) +
                           (by_row ? " rowwise" : " columnwise");
  const Bytes got = output_of(stream, 2 * from.size(), totals, name, [&](char* out) {
    cuda::dequantize_mx(stream, out, in.data(), scale_inv.data(), dtype, blocks, rows, cols);
  });
  const auto* const values = reinterpret_cast<const BFloat16*>(got.data());
  std::int64_t wrong = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t block = by_row ? r * (cols / 32) + c / 32 : r / 32 * cols + c;
      tensor::E8M0 scale;
      scale.bits = scales[static_cast<std::size_t>(block)];
      const auto at = static_cast<std::size_t>(r * cols + c);
      const float value = decoded(dtype, from[at]) * static_cast<float>(scale);
      const auto want = static_cast<float>(static_cast<BFloat16>(value)), is = static_cast<float>(values[at]);
      wrong += (is == want || (is != is && want != want)) ? 0 : 1;
    }
  }
  totals.expect(wrong == 0, name + ": " + std::to_string(wrong) + " elements are wrong");
}

template <class Out, class In>
void check_bias(cudaStream_t stream, std::int64_t rows, std::int64_t cols, Totals& totals) {
  std::vector<In> bias;
  for (std::int64_t c = 0; c < cols; ++c) {
    bias.push_back(static_cast<In>(number(4, static_cast<std::uint64_t>(c), false)));
  }
  std::vector<Out> want;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    want.push_back(static_cast<Out>(static_cast<float>(bias[static_cast<std::size_t>(i % cols)])));
  }
  const DeviceMemory in(sizeof(In) * bias.size());
  in.upload(stream, bias);
  const DType to = tensor::dtype_of<Out>(), of = tensor::dtype_of<In>();
  const std::string name =
      "broadcast_bias of " + std::string(name_of(of)) + " to " + std::string(name_of(to)) + " " + shape_of(rows, cols);
  const Bytes got = output_of(stream, sizeof(Out) * want.size(), totals, name,
                              [&](char* out) { cuda::broadcast_bias(stream, out, to, in.data(), of, rows, cols); });
  expect_same(totals, name, got, want);
  const DeviceMemory addend(sizeof(Out) * want.size());  // the bias in every row
  addend.upload(stream, want);
  std::vector<Out> twice;
  for (std::int64_t i = 0; i < rows * cols; ++i)
    twice.push_back(static_cast<Out>(static_cast<float>(want[static_cast<std::size_t>(i)]) +
                                     static_cast<float>(bias[static_cast<std::size_t>(i % cols)])));
  const Bytes sum = output_of(stream, sizeof(Out) * want.size(), totals, name + " beside an addend", [&](char* out) {
    cuda::broadcast_bias(stream, out, to, in.data(), of, rows, cols, addend.data());
  });
  expect_same(totals, name + " beside an addend", sum, twice);
}

/// Times kernels on matrices that change from run to run, so that none is found in the cache.
class Speeds {
 public:
  Speeds(cudaStream_t stream, Totals& totals) : stream_(stream), totals_(totals), in_(kBytes), out_(kBytes) {
    SHARD8_CUDA_CHECK(cudaMemsetAsync(in_.data(), 0x38, kBytes, stream));
  }

  /// GB/s, bytes read and bytes written, of kernel(out, in).
  double measure(std::size_t in_bytes, std::size_t out_bytes, const std::function<void(char*, const char*)>& kernel) {
    const std::size_t places = std::max<std::size_t>(1, kBytes / std::max(in_bytes, out_bytes));
    std::vector<double> seconds;
    for (std::size_t round = 0; round < 6; ++round) {
      start_.record(stream_);
      for (std::size_t i = 0; i < places; ++i) kernel(out_.data() + i * out_bytes, in_.data() + i * in_bytes);
      stop_.record(stream_);
      stop_.synchronize();
      if (round > 0) seconds.push_back(stop_.seconds_since(start_) / static_cast<double>(places));
    }
    std::sort(seconds.begin(), seconds.end());
    return static_cast<double>(in_bytes + out_bytes) / seconds[seconds.size() / 2] * 1e-9;
  }

  /// Prints a row of the table: the kernel, and a copy that reads and writes as much.
  void report(const std::string& name, std::size_t in_bytes, std::size_t out_bytes,
              const std::function<void(char*, const char*)>& kernel) {
    const std::size_t half = (in_bytes + out_bytes) / 2;
    const double copy = measure(half, half, [&](char* out, const char* in) {
      SHARD8_CUDA_CHECK(cudaMemcpyAsync(out, in, half, cudaMemcpyDeviceToDevice, stream_));
    });
    const double speed = measure(in_bytes, out_bytes, kernel);
    std::array<char, 160> text{};
    std::snprintf(text.data(), text.size(), "%-44s %8.0f GB/s  copy %8.0f GB/s  share %.3f", name.c_str(), speed, copy,
                  speed / copy);
    totals_.speeds.push_back(text.data());
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 30;

  cudaStream_t stream_;
  Totals& totals_;
  DeviceMemory in_, out_;
  tensor::cuda::Event start_{tensor::cuda::Event::Times::yes}, stop_{tensor::cuda::Event::Times::yes};
};

void time_kernels(cudaStream_t stream, Totals& totals) {
  Speeds speeds(stream, totals);
  struct Extents {
    std::int64_t rows, cols;
  };
  for (const Extents& s : {Extents{8192, 4096}, Extents{8192, 14336}, Extents{8192, 28672}, Extents{28672, 4096},
                           Extents{4096, 14336}, Extents{4096, 4096}, Extents{2048, 4096}}) {
    const auto bytes = static_cast<std::size_t>(s.rows * s.cols);
    speeds.report("transpose_bytes " + shape_of(s.rows, s.cols), bytes, bytes,
                  [&](char* out, const char* in) { cuda::transpose_bytes(stream, out, in, s.rows, s.cols); });
  }
  const DeviceMemory scales(std::size_t{8192} * 28672 / 32);
  SHARD8_CUDA_CHECK(cudaMemsetAsync(scales.data(), 127, std::size_t{8192} * 28672 / 32, stream));
  for (const Extents& s : {Extents{8192, 4096}, Extents{8192, 28672}}) {
    for (const cuda::MxBlocks blocks : {cuda::MxBlocks::row, cuda::MxBlocks::column}) {
      const auto bytes = static_cast<std::size_t>(s.rows * s.cols);
      const char* const how = blocks == cuda::MxBlocks::row ? " rowwise" : " columnwise";
      speeds.report("dequantize_mx " + shape_of(s.rows, s.cols) + how, bytes, 2 * bytes,
                    [&](char* out, const char* in) {
                      cuda::dequantize_mx(stream, out, in, scales.data(), DType::e4m3, blocks, s.rows, s.cols);
                    });
    }
  }
  for (const Extents& s : {Extents{8192, 32}, Extents{8192, 224}}) {
    const auto bytes = static_cast<std::size_t>(s.rows * s.cols) * sizeof(float);
    speeds.report("transpose_scales " + shape_of(s.rows, s.cols), bytes, bytes, [&](char* out, const char* in) {
      cuda::transpose_scales(stream, reinterpret_cast<float*>(out), reinterpret_cast<const float*>(in), s.rows, s.cols,
                             s.rows);
    });
  }
}

}  // namespace

void check_kernels(cudaStream_t stream, bool timed, Totals& totals) {
  for (const std::int64_t rows : {16, 128, 144, 400, 1040}) {
    for (const std::int64_t cols : {16, 128, 272, 1168}) check_transpose(stream, rows, cols, totals);
  }
  for (const std::int64_t rows : {1, 5, 32, 77, 264}) {
    for (const std::int64_t cols : {1, 4, 33, 112}) check_scales(stream, rows, cols, totals);
  }
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    check_dequantize(stream, dtype, cuda::MxBlocks::row, 33, 96, totals);
    check_dequantize(stream, dtype, cuda::MxBlocks::row, 200, 1056, totals);
    check_dequantize(stream, dtype, cuda::MxBlocks::column, 96, 40, totals);
    check_dequantize(stream, dtype, cuda::MxBlocks::column, 320, 1048, totals);
  }
  check_bias<float, float>(stream, 7, 300, totals);
  check_bias<float, BFloat16>(stream, 1, 1000, totals);
  check_bias<BFloat16, float>(stream, 70000, 5, totals);
  check_bias<BFloat16, BFloat16>(stream, 3, 257, totals);
  if (timed) time_kernels(stream, totals);
}

}  // namespace shard8::test
