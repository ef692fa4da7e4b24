// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/train/fp8_weights.hpp"

#include <array>
#include <bit>
#include <functional>

namespace shard8::test {

using fsdp::Pass;
using tensor::Operand;
using tensor::Tensor;

namespace {

/// SplitMix64's finaliser.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t bits_at(const Tensor& t, std::int64_t i) {
  if (tensor::size_of(t.dtype) == 1) return std::to_integer<std::uint64_t>(t.data[i]);
  return reinterpret_cast<const std::uint32_t*>(t.data)[i];
}

/// The hash of one array of a weight. Each item stands for a block of row_block × col_block elements.
std::uint64_t hash_piece(const Tensor& t, const model::ParameterSpec& spec, std::int64_t row_block,
                         std::int64_t col_block, std::uint64_t salt) {
  std::uint64_t sum = 0;
  for (const auto& source : spec.sources) {
    const std::uint64_t name = std::hash<std::string>{}(source.name) ^ mix(salt);
    const io::Box box = io::in_blocks(source.box, row_block, col_block);
    const std::int64_t global_cols = source.global_cols / col_block;
    for (std::int64_t r = 0; r < box.rows; ++r) {
      for (std::int64_t c = 0; c < box.cols; ++c) {
        const std::int64_t global = (box.row0 + r) * global_cols + box.col0 + c;
        const std::uint64_t bits = bits_at(t, (source.local_row / row_block + r) * t.cols() + c);
        sum += mix(name ^ mix(static_cast<std::uint64_t>(global) << 32U | bits));
      }
    }
  }
  return sum;
}

std::uint64_t hash_operand(const Operand& o, const model::ParameterSpec& spec, Pass pass) {
  const auto salt = static_cast<std::uint64_t>(pass);
  std::uint64_t sum = hash_piece(o.data, spec, 1, 1, 2 * salt);
  if (o.scaling != tensor::Scaling::tensor)
    sum += hash_piece(o.scale_inv, spec, tensor::block_rows(o.scaling), tensor::block_cols(o.scaling), 2 * salt + 1);
  return sum;
}

}  // namespace

void for_each_weight(Training& training, const std::function<void(const GatheredWeight&, Pass)>& f) {
  const auto& trainer = training.trainer();
  const auto& setup = training.setup();
  const auto& buffers = trainer.state().units;
  profile::StepTimer timer;
  operation::Executor executor(training.exec(), timer);
  fsdp::WeightStore store(executor, buffers, training.mesh(), trainer.fp8_weights().hooks());
  deck::ModelConfig model = setup.config.model;
  model.recompute = deck::Recompute::none;  // each copy once
  const auto visits = model::visits(model, setup.weights.recipe, 1);
  store.begin_step(visits);
  for (const auto& visit : visits) {
    const auto weights = store.acquire(visit.unit, visit.pass);
    const auto& unit = setup.units[static_cast<std::size_t>(visit.unit)];
    for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
      GatheredWeight w;
      w.site = setup.weights.site(unit, unit.parameters[p]);
      if (!w.site.on()) continue;
      const fsdp::WeightForms& forms = buffers.weights(visit.unit)[p];
      w.name = unit.parameters[p].name;
      w.spec = &unit.parameters[p];
      w.weight = weights[p];
      w.through_bf16 = setup.weights.recipe.through_bf16;
      w.master = forms.master.as<float>();
      w.first_row = forms.first_row();
      w.rows = forms.owned_rows();
      w.cols = unit.parameters[p].cols;
      f(w, visit.pass);
    }
    store.release(visit.unit);
  }
}

WeightHash hash_weights(Training& training) {
  WeightHash hash;
  for_each_weight(training, [&](const GatheredWeight& w, Pass pass) {
    hash.part += hash_operand(pass == Pass::forward ? w.weight.forward : w.weight.backward, *w.spec, pass);
  });
  std::array<std::uint64_t, 2> halves{hash.part >> 32U, hash.part & 0xffffffffU};
  training.mesh().group(base::AxisSet::tensor).all_reduce(halves, comm::Communicator::Reduce::sum);
  hash.whole = (halves[0] << 32U) + halves[1];
  return hash;
}

std::vector<std::uint32_t> weight_scales(Training& training) {
  std::vector<std::uint32_t> bits;
  const auto& recipe = training.setup().weights.recipe;
  const auto& scaling = training.trainer().state().scaling;
  for (int layer = 0; recipe.per_tensor() && layer < recipe.layers; ++layer)
    for (int l = 0; l < fp8::kLinears; ++l)
      bits.push_back(std::bit_cast<std::uint32_t>(
          *scaling.weight_scale_inv({layer, static_cast<fp8::Linear>(l), fp8::Role::weight}).as<float>()));
  return bits;
}

}  // namespace shard8::test
