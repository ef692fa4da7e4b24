// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/random/handover.hpp"

#include <cstddef>
#include <vector>

#include "base/error.hpp"
#include "tensor/transfer.hpp"
#include "train/state_tensors.hpp"

namespace shard8::test {

void hand_over(Training& from, Training& to, std::int64_t step) {
  const deck::Fp8Config &before = from.setup().config.fp8, &now = to.setup().config.fp8;
  const bool starts_fp8 = now.on() && before.margin != now.margin;
  const auto sources = train::state_tensors(from.setup(), from.trainer().state());
  const auto targets = train::state_tensors(to.setup(), to.trainer().state());
  SHARD8_REQUIRE(sources.size() == targets.size(), "the trainings keep {} and {} tensors", sources.size(),
                 targets.size());
  for (std::size_t t = 0; t < targets.size(); ++t) {
    if (starts_fp8 && targets[t].content >= checkpoint::Content::fp8_rowwise) continue;
    for (std::size_t p = 0; p < targets[t].parts.size(); ++p) {
      const tensor::Tensor &source = sources[t].parts[p].local, &target = targets[t].parts[p].local;
      SHARD8_REQUIRE(source.bytes() == target.bytes() && source.dtype == target.dtype, "{} has another layout",
                     targets[t].label());
      const auto bytes = tensor::to_host<std::byte>(from.exec(), source);
      tensor::to_device(to.exec(), target, bytes.data());
    }
  }
  if (starts_fp8) to.trainer().start();
  to.assembly().begin_at(step, step * to.setup().config.data.batch);
}

}  // namespace shard8::test
