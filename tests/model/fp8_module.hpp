// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "model/linear.hpp"
#include "tests/model/module.hpp"
#include "tests/model/reference/reference.hpp"

namespace shard8::tests {

/// A recipe, and the state in which it is tested.
struct Fp8Setting {
  Setting of{};
  deck::Recipe kind = deck::Recipe::current;
  bool later = false;       ///< delayed: true in a step after the first, whose scales come from the step before
  bool any_scales = false;  ///< block: scales that are no powers of two
  bool hybrid = false;      ///< block: gradients of outputs in E5M2
  bool known_scales() const { return later; }
  /// Whether the recipe has block scales.
  bool blocks() const { return kind == deck::Recipe::block || kind == deck::Recipe::mxfp8; }
};
/// All recipes, for both architectures in fp32, and for one of them in bf16. On 4 ranks two kinds of settings are left
/// out: bf16, which adds nothing to 2 ranks, and blocks of 128, whose model would be too large for a plain reference.
std::vector<Fp8Setting> fp8_settings(bool and_bf16);
std::string name_of(const Fp8Setting& setting);
fp8::Recipe recipe_of(const Fp8Setting& setting);
/// A model of one layer that a tensor group of all ranks can cut at whole blocks, and the number of its sequences.
deck::ModelConfig fp8_model(const Fp8Setting& setting);
std::int64_t fp8_batch(const Fp8Setting& setting);

/// A module whose linears are in FP8, and the casts for its reference.
///
/// Two computations of one matrix differ by rounding, and a cast makes this difference larger: of two values close to
/// the middle between two FP8 numbers, one may be rounded up and the other down. So the test reads the casts that the
/// module made and compares them, element by element, with the casts that the reference's values allow. The reference
/// then multiplies the module's casts, and the tolerance of all results stays that of the compute type.
class Fp8Module : public Module {
 public:
  explicit Fp8Module(const Fp8Setting& setting, std::int64_t arena_bytes = std::int64_t{10} << 20);
  const Fp8Setting setting;

  static constexpr int kLayer = 1;  ///< the layer's unit
  static fp8::Site site(fp8::Linear linear, fp8::Role role) { return {0, linear, role}; }
  /// The index of a linear's weight in the unit.
  int weight_of(fp8::Linear linear) const;

  /// New memory for the casts of a matrix.
  fp8::Operands copies(fp8::Role role, std::int64_t rows, std::int64_t cols);
  model::LinearScratch linear_scratch();
  /// The unit's parameters as products read them.
  std::vector<model::Weight> fp8_weights();
  model::Weight fp8_weight(fp8::Linear linear);

  /// The part that a rank holds of a linear's input or output gradient: its own tokens, or some columns of all tokens.
  struct Share {
    std::vector<std::int64_t> columns;
    std::int64_t cols = 0;
    bool of_tokens() const { return columns.empty(); }
    fp8::Quantizer::Tokens tokens() const {
      return of_tokens() ? fp8::Quantizer::Tokens::part : fp8::Quantizer::Tokens::all;
    }
  };
  Share share(const fp8::Site& site) const;

  /// How a matrix is cast for products that sum along rows or along columns.
  reference::CastRule rule(const fp8::Site& site, bool columnwise) const;
  /// This rank's share of a whole matrix, and below it the cast that this rank should make of this share.
  Matrix part(const Share& share, const Matrix& whole) const {
    return share.of_tokens() ? whole.row_range(rank() * dims.tokens_local(), dims.tokens_local())
                             : columns(whole, share.columns);
  }
  reference::Cast cast_of(const fp8::Site& site, const Matrix& whole, bool columnwise) const;
  reference::Cast weight_cast(fp8::Linear linear, const Matrix& whole, bool columnwise) const;

  /// Copies of the casts that this rank made; the module will overwrite its own.
  struct Seen {
    reference::Cast rowwise, columnwise;
  };
  static Seen see(const fp8::Operands& copies);
  reference::Casting weight_casting(fp8::Linear linear) const;
  /// A casting that casts x exactly. If `source` is not empty it is cast in place of x, which may differ by rounding.
  reference::Casting exactly(const fp8::Site& site, Matrix source = {}) const;
  /// A casting that expects `seen` to be a cast of x within the rounding of x, and returns `seen`.
  reference::Casting as_seen(const fp8::Site& site, Seen seen) const;

  /// Compare this rank's share of a result, or its part of a parameter's gradient, with the whole matrix `want`.
  void expect_share(const std::string& what, const Share& share, const tensor::Tensor& got, const Matrix& want) const;
  void expect_gradient(int parameter, const tensor::Tensor& got, const Matrix& want) const;

  /// Ends a step: with delayed scaling this step's amaxes set the scales of the next one.
  void end_step();

 private:
  struct Amax {
    double least, most;
  };
  Matrix whole_of(const Share& share, const Matrix& mine) const;
  Amax shared_amax(const Share& share, const Matrix& whole, const Matrix& allowed) const;
  Matrix checked(const fp8::Site& site, const reference::Cast& seen, const Matrix& x, bool columnwise) const;
  void expect_amax(const fp8::Site& site, const Matrix& x) const;
  tensor::Operand put_cast(const reference::Cast& cast, tensor::DType dtype, tensor::Scaling scaling);
};

}  // namespace shard8::tests
