// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint/snapshot.hpp"
#include "train/plan/plan.hpp"
#include "train/state_tensors.hpp"

namespace shard8::train {

Plan::Checkpoint checkpoint_bytes(const Setup& setup, State& state) {
  const auto tensors = state_tensors(setup, state);
  Plan::Checkpoint bytes;
  bytes.copies = checkpoint::Snapshot::bytes(tensors, setup.place);
  for (const checkpoint::StateTensor& t : tensors) {
    bytes.state += tensor::bytes_of(t.dtype, t.shape.count());
    if (!t.counts(setup.place)) continue;
    for (const checkpoint::LocalPart& part : t.parts) bytes.rank_file += part.local.bytes();
  }
  return bytes;
}

}  // namespace shard8::train
