// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shard8::kernels {

/// How a matrix product that has no algorithm yet gets one.
enum class Tuning : std::uint8_t {
  off,         ///< the first of the library's guesses that runs
  candidates,  ///< the fastest of the library's guesses, timed on the operands of the product's first run
  exhaustive,  ///< as candidates; all algorithms of the library are timed too, for comparison
};

/// The vendor's libraries of one device: their handles, and the algorithm chosen for each product that was computed.
/// The owner of the device constructs it once, while the device is current, and lends it to kernels in a Workspace. Two
/// threads must not use it at once. Hosts have none.
class Libraries {
 public:
  Libraries();
  ~Libraries();
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;

  /// Sets how products get algorithms. While tuning is not off, the first run of a product runs several algorithms, so
  /// outputs that accumulate hold garbage afterwards: for a rehearsal, whose gradients are thrown away.
  void set_tuning(Tuning tuning);

  /// The algorithms chosen so far, as lines of text: for a plan file, and for the other ranks, which must use the same
  /// algorithms.
  std::string algorithms() const;
  /// Uses the algorithms of a text that algorithms() gave, in this process or another. Returns false, and changes
  /// nothing, if the text is for another kind of device or version of a library. Throws base::Error if it cannot be
  /// read.
  [[nodiscard]] bool adopt(std::string_view algorithms);

  /// The algorithm chosen for a product, for reports.
  struct Choice {
    std::string product;  ///< dtypes and shapes
    double flops = 0;
    float microseconds = 0;        ///< 0: not timed
    float first_microseconds = 0;  ///< of the library's first guess
    float best_microseconds = 0;   ///< of the best algorithm of the exhaustive search; 0: no search
    int guess = 0;                 ///< which of the library's guesses was chosen, from 0
    int guesses = 0;
    std::string searched;  ///< how much the exhaustive search covered and what it found; empty: no search
  };
  std::vector<Choice> choices() const;

  /// The libraries themselves, for kernels/device.
  struct Parts;
  Parts& parts() { return *parts_; }

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace shard8::kernels
