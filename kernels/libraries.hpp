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
  off,         ///< the first guess of the library that runs
  candidates,  ///< the fastest of its guesses, timed on the operands of the product's first run
  exhaustive,  ///< the same, and all that it has are timed too, to compare
};

/// The vendor's libraries of one device: handles, and the algorithms chosen for what was computed.
/// Made once by the owner of the device, which is current then, and lent to kernels in a Workspace.
/// Not for two threads at once. (Only where tensors are in a device's memory.)
class Libraries {
 public:
  Libraries();
  ~Libraries();
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;

  /// For a rehearsal, whose gradients are thrown away: while on, the first run of a product tries
  /// algorithms in its place, which leaves garbage in outputs that are accumulated in.
  void set_tuning(Tuning tuning);

  /// The algorithms chosen so far, lines of text for a plan file or for the other ranks, which must
  /// use the same ones.
  std::string algorithms() const;
  /// Takes over what algorithms() gave, there or elsewhere. False, and nothing taken, if it is of
  /// another kind of device or version of a library. Throws base::Error if it cannot be read.
  [[nodiscard]] bool adopt(std::string_view algorithms);

  /// What was chosen for a product, for reports.
  struct Choice {
    std::string product;  ///< dtypes and shapes
    double flops = 0;
    float microseconds = 0;        ///< 0: not timed
    float first_microseconds = 0;  ///< of the library's first guess
    float best_microseconds = 0;   ///< of the exhaustive search's best; 0: there was none
    int guess = 0;                 ///< which of the library's guesses it is, from 0
    int guesses = 0;
    std::string searched;  ///< how much the exhaustive search covered, and what it found
  };
  std::vector<Choice> choices() const;

  /// For the kernels of the device.
  struct Parts;
  Parts& parts() { return *parts_; }

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace shard8::kernels
