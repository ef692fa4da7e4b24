// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "kernels/cuda/lt_gemm.hpp"
#include "tensor/cuda/device.hpp"
#include "tests/kernels/cuda/device_memory.hpp"
#include "tests/kernels/cuda/numbers.hpp"

/// One product, run and compared with the host.
namespace shard8::test {

using kernels::cuda::LtFactor;
using kernels::cuda::LtGemm;
using kernels::cuda::LtGemmArgs;
using kernels::cuda::LtGemmKey;
using kernels::cuda::LtScaling;
using tensor::DType;

struct Case {
  LtGemmKey key;
  std::string name;
  bool required = true;  ///< if false, an unsupported product is no failure
  bool timed = false;
  bool positive = false;    ///< all numbers positive, so nothing cancels: the worst data for accumulators of few bits
  std::int64_t offset = 0;  ///< bytes from a multiple of 256 to the address of each matrix
};

struct Outcome {
  bool supported = false;
  bool good = true;
  float microseconds = 0;        ///< median of 20
  double eps = 0;                ///< largest |error| / Σ|a||b| that was seen
  unsigned long long zeros = 0;  ///< elements of += that kept their number, because the sum is 0
};

struct Scan;

class CaseRunner {
 public:
  CaseRunner(LtGemm& gemm, cudaStream_t stream, const Case& c);

  /// Runs the case and compares the result with the host. Prints what is wrong.
  Outcome run();
  /// A checksum of the present output.
  unsigned long long checksum();

 private:
  struct Reference {
    double value = 0;
    double magnitude = 0;  ///< Σ|a||b|
  };

  const LtGemmKey& key() const { return case_.key; }
  /// Whether the product adds to what `out` holds; an addend is `out` here.
  bool reads_out() const { return key().accumulate || key().addend; }
  void fill_factor(char* to, const LtFactor& factor, std::int64_t outer, std::uint64_t seed);
  std::vector<double> row(const LtFactor& factor, std::int64_t i, std::uint64_t seed) const;
  void upload_scales(char* to, const LtFactor& factor, std::int64_t outer, std::uint64_t seed);
  bool prepare();
  void set_out_to_number();
  void set_out_to(float value);
  Scan look(float sentinel);
  float out_at(std::int64_t r, std::int64_t c);
  bool check_run(bool from_numbers, Outcome& outcome);
  bool compare(std::int64_t r, std::int64_t c, const Reference& ref, Outcome& outcome);
  Reference reference(const std::vector<double>& left, const std::vector<double>& right, std::int64_t r, std::int64_t c,
                      bool from_numbers) const;
  bool complain(const char* what) const;
  void time(Outcome& outcome);

  LtGemm& gemm_;
  cudaStream_t stream_;
  Case case_;
  DeviceMemory left_, right_, out_, left_scale_, right_scale_, bias_, workspace_, scan_;
  LtGemmArgs args_;
};

}  // namespace shard8::test
