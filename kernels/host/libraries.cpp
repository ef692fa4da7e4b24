// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "kernels/blas/blas_core.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/host/decoded_tile.hpp"
#include "kernels/kokkos/portable.hpp"
#include "kernels/libraries.hpp"

/// On hosts there is no choice of algorithms, so there is nothing to keep.

namespace shard8::kernels {

struct Libraries::Parts {};

Libraries::Libraries() = default;
Libraries::~Libraries() = default;
void Libraries::set_tuning(Tuning tuning) { tuning_ = tuning; }
std::string Libraries::algorithms() const { return {}; }
bool Libraries::adopt(std::string_view algorithms) { return algorithms.empty(); }
std::vector<Libraries::Choice> Libraries::choices() const { return {}; }

namespace {

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && std::atoi(value) > 0;  // as OpenBLAS reads it
}

}  // namespace

std::string blas_description() {
  auto* const config = openblas_function<char*()>("openblas_get_config");
  return config == nullptr ? "unknown vendor" : config();
}

int blas_threads(int threads) {
  auto* const kind = openblas_function<int()>("openblas_get_parallel");
  auto* const count = openblas_function<int()>("openblas_get_num_threads");
  if (kind == nullptr || count == nullptr) return 0;
  constexpr int kOwnThreads = 1, kOpenMP = 2;
  const bool named = is_set("OPENBLAS_NUM_THREADS") || is_set("GOTO_NUM_THREADS");
  switch (kind()) {
    case kOwnThreads:
      if (auto* const set = openblas_function<void(int)>("openblas_set_num_threads"); set != nullptr && !named)
        set(threads);
      return count();
    case kOpenMP:
      return threads;  // the BLAS queries OpenMP at each product, and has no number of its own
    default:
      return 0;
  }
}

void reserve_blas_memory(int threads) {
  // The size of one working buffer of OpenBLAS (BUFFER_SIZE of its common_x86_64.h). A product on one thread maps one;
  // a product on several maps one, and one for each thread.
  constexpr std::size_t kBuffer = std::size_t{128} << 20;
  const std::size_t bytes = kBuffer * static_cast<std::size_t>(threads == 1 ? 1 : threads + 1);
  void* const trial = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (trial == MAP_FAILED) {
    base::fail(base::ExitCode::environment,
               "cannot allocate {} bytes of working memory for the BLAS: raise the limit on this process's memory "
               "(ulimit -v, the job's --mem), or lower OMP_NUM_THREADS",
               bytes);
  }
  ::munmap(trial, bytes);
  // A product that is large enough to run on all threads; a smaller one may need no buffer.
  constexpr std::int64_t kRows = 256;
  const std::vector<float> a(kRows * kRows, 0.0f);
  std::vector<float> c(a.size());
  sgemm(c.data(), kRows, {a.data(), kRows}, {a.data(), kRows}, kRows, kRows, kRows, 1, 0);
}

void rmsnorm_forward(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& rstd,
                     const tensor::SumOfPartials& x, const tensor::Tensor& weight, float eps) {
  make_sum(exec, x);
  portable_rmsnorm_forward(exec, y, rstd, x.sum, weight, eps);
}

void layernorm_forward(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& mean,
                       const tensor::Tensor& rstd, const tensor::SumOfPartials& x, const tensor::Tensor& weight,
                       const tensor::Tensor& bias, float eps) {
  make_sum(exec, x);
  portable_layernorm_forward(exec, y, mean, rstd, x.sum, weight, bias, eps);
}

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// Chosen: larger than the caches of a core, small compared with what a rank holds.
constexpr std::size_t kMemory = std::size_t{32} << 20;
constexpr std::size_t kPiece = std::size_t{64} << 10;  ///< bytes that are read at a time
/// Chosen: Linux wakes a thread up to 50 us late, and by as much later under load.
constexpr double kSpin_s = 100e-6;
constexpr double kMostLate_s = 1e-3;

void sleep(double seconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - static_cast<double>(time.tv_sec)) * 1e9);
  ::nanosleep(&time, nullptr);  // a signal ends it early: the caller looks at the clock
}

}  // namespace

struct Waiter::Parts {
  double bandwidth = 0;
  std::vector<std::uint64_t> memory{};
  std::size_t next = 0;  ///< element to read
  std::uint64_t sum = 0;
  std::uint64_t bytes = 0;  ///< read so far
  double late_s = 0;        ///< by which the waits so far ended late

  void read_piece() {
    constexpr std::size_t kCount = kPiece / sizeof(std::uint64_t);
    const auto* const begin = memory.data() + next;
    sum += std::accumulate(begin, begin + kCount, std::uint64_t{0});
    next = (next + kCount) % memory.size();
    bytes += kPiece;
  }
};

Waiter::Waiter(const tensor::Exec&, double read_bandwidth) : parts_(std::make_unique<Parts>()) {
  parts_->bandwidth = read_bandwidth;
  if (read_bandwidth > 0) parts_->memory.resize(kMemory / sizeof(std::uint64_t), 1);
}

Waiter::~Waiter() {
  // What was read is used, so that no compiler leaves the reads out.
  static volatile std::uint64_t all = 0;
  all = all + parts_->sum;
}

void Waiter::wait(const tensor::Exec&, double seconds) {
  if (seconds <= 0) return;
  const auto begin = Clock::now();
  const double wanted = seconds - parts_->late_s;
  const auto passed = [&] { return Seconds(Clock::now() - begin).count(); };
  double now = 0, read = 0;
  for (; now < wanted; now = passed()) {
    // The next thing to do: read, or wait for the end.
    double left = wanted - now;
    if (parts_->bandwidth > 0) {
      if (read <= now * parts_->bandwidth) {
        parts_->read_piece();
        read += static_cast<double>(kPiece);
        continue;
      }
      left = std::min(left, read / parts_->bandwidth - now);
    }
    if (left > 2 * kSpin_s)
      sleep(left - kSpin_s);
    else
      ::sched_yield();
  }
  parts_->late_s = std::clamp(now - wanted, -kMostLate_s, kMostLate_s);
}

std::size_t Waiter::memory() const { return parts_->memory.size() * sizeof(std::uint64_t); }

std::uint64_t Waiter::bytes_read() const { return parts_->bytes; }

}  // namespace shard8::kernels
