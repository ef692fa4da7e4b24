// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/runtime.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// The version of the libraries that multiply. On hosts: what OpenBLAS reports (version, options, core), or "unknown
/// vendor" for another BLAS. On devices: the loaded libraries and the CUTLASS of the build, "cuBLASLt 13.1.0, cuDNN
/// 9.19.0, CUTLASS 4.5.0", or "no CUTLASS".
std::string blas_description();

/// On how many threads the BLAS runs a large product of a rank that has `threads` threads. A BLAS with threads of its
/// own (pthreads) is given that number first, unless OPENBLAS_NUM_THREADS or GOTO_NUM_THREADS names one. Runs no
/// product. Returns 0 where the library does not tell (another BLAS than OpenBLAS, or an OpenBLAS without threads) and
/// on devices.
int blas_threads(int threads);

/// Makes the BLAS allocate its working memory now, on hosts; the BLAS keeps this memory for all later products.
/// `threads`: the number of threads on which the BLAS runs a product. Throws Error(environment) if the memory cannot be
/// allocated; without this call OpenBLAS would retry for ever in its first product. On devices the function does
/// nothing.
void reserve_blas_memory(int threads);

/// How an algorithm is chosen for a matrix product that has none yet.
enum class Tuning : std::uint8_t {
  off,         ///< the first of cuBLASLt's guesses that runs
  candidates,  ///< the fastest of cuBLASLt's guesses, timed on the operands of the product's first run; for products of
               ///< 100 us and more also the fastest of algorithms similar to the best guesses; CUTLASS's kernel if
               ///< there is one and it is faster
  exhaustive,  ///< as candidates; all of cuBLASLt's algorithms are timed too, but only to compare: the choice is the
               ///< same
};

/// The vendor's libraries of one device: their handles, and the algorithm chosen for each product that was computed.
/// The owner of the device constructs one object, while the device is current, and lends it to kernels in a Workspace.
/// Two threads must not use the object at once. On hosts there is nothing to choose: kernels take no Libraries, and
/// the functions here do nothing (adopt() returns true for an empty text alone).
class Libraries {
 public:
  Libraries();
  ~Libraries();
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;

  /// Sets how algorithms are chosen. While tuning is not off, the first run of a product runs several algorithms. So an
  /// output that accumulates holds garbage after that run. Tune only in a rehearsal whose gradients are not used.
  void set_tuning(Tuning tuning);
  Tuning tuning() const { return tuning_; }

  /// The algorithms chosen so far, as lines of text. A plan file keeps the text. The other ranks adopt it, because all
  /// ranks must use the same algorithms.
  std::string algorithms() const;
  /// Adopts the algorithms of a text that algorithms() returned, in this process or another. An adopted algorithm that
  /// does not run is replaced at the product's first run. Returns false, and changes nothing, if the text is for
  /// another kind of device, or another version of cuBLASLt or CUTLASS. Throws base::Error if a line of the text is
  /// malformed.
  [[nodiscard]] bool adopt(std::string_view algorithms);

  /// The algorithm chosen for one product, for reports. Times are of one run, in microseconds.
  struct Choice {
    std::string product;               ///< dtypes and shapes as text
    std::int64_t m = 0, n = 0, k = 0;  ///< (m, n) = (m, k) · (k, n)
    std::string dtype, out_dtype;      ///< of the factors ("bf16", of FP8 that of the left one) and of the result
    double flops = 0;
    float microseconds = 0;        ///< of the chosen algorithm; 0: not timed
    float first_microseconds = 0;  ///< of cuBLASLt's first guess; 0: it does not run, or was not timed
    float best_microseconds = 0;   ///< of the best algorithm of the exhaustive search; 0: no search
    int guess = 0;         ///< which of cuBLASLt's guesses was chosen, from 0 (before similar algorithms were timed)
    int guesses = 0;       ///< how many guesses cuBLASLt offered
    bool cutlass = false;  ///< CUTLASS computes the product: its kernel was faster than cuBLASLt's algorithms
    std::string searched;  ///< how much the exhaustive search covered and what it found; empty: no search
  };
  std::vector<Choice> choices() const;

  /// The handles themselves, for kernels/device.
  struct Parts;
  Parts& parts() { return *parts_; }

 private:
  std::unique_ptr<Parts> parts_;
  Tuning tuning_ = Tuning::off;
};

/// While the object lives, no algorithm is timed. The class is for products whose sizes depend on the data: a rehearsal
/// meets only some of these sizes, and times of those would decide how the results of a training are rounded.
/// `libraries` may be null.
class WithoutTuning {
 public:
  explicit WithoutTuning(Libraries* libraries) : libraries_(libraries) {
    if (libraries == nullptr) return;
    before_ = libraries->tuning();
    libraries->set_tuning(Tuning::off);
  }
  ~WithoutTuning() {
    if (libraries_ != nullptr) libraries_->set_tuning(before_);
  }
  WithoutTuning(const WithoutTuning&) = delete;
  WithoutTuning& operator=(const WithoutTuning&) = delete;

 private:
  Libraries* libraries_;
  Tuning before_ = Tuning::off;
};

/// What a kernel needs besides its operands: memory that it may overwrite during the call, and the vendor's libraries.
/// Two kernels that run at once need memory each.
struct Workspace {
  tensor::Tensor memory;           ///< u8
  Libraries* libraries = nullptr;  ///< null on hosts; on a device needed by products and by bf16 attention
  int spared = 0;                  ///< on a device: multiprocessors that a grouped product leaves to other kernels

  Workspace() = default;
  Workspace(const tensor::Tensor& bytes, Libraries* vendor = nullptr)  // NOLINT: memory alone is a workspace
      : memory(bytes), libraries(vendor) {}
};

/// Waits in the place of kernels, for skeleton runs: on hosts the calling thread sleeps and, for the last moments,
/// spins; on a device a kernel of one block spins, so that all other multiprocessors are free.
class Waiter {
 public:
  /// `read_bandwidth`, in bytes a second: while the Waiter waits, it reads so much of its own memory(), as a kernel
  /// bound by memory would; on a device by as many blocks as that takes. 0: it reads nothing. On a device the
  /// constructor times what a kernel takes that waits for nothing, which wait() then subtracts. Throws
  /// Error(environment) when the memory cannot be allocated.
  Waiter(const tensor::Exec& exec, double read_bandwidth);
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter();

  /// Waits `seconds` in the order of the execution space; nothing for 0 or less. A wait on hosts that ends late makes
  /// the next one shorter, by up to 1 ms: the sum of many is right.
  void wait(const tensor::Exec& exec, double seconds);
  /// Bytes of memory that the Waiter reads over and over; 0 without a bandwidth.
  std::size_t memory() const;
  /// Bytes that the Waiter has read so far on hosts; 0 on a device.
  std::uint64_t bytes_read() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace shard8::kernels
