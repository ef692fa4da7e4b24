// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shard8::comm {

/// Where tensors are on a device: the streams on which a group's collectives run. Those that have none
/// beside the compute stream run on it, in its order, if the group has that lane.
struct DeviceLanes {
  bool compute = false;  ///< the compute stream itself: for what is waited for at once
  bool gather = false;   ///< all-gathers on a stream of their own
  bool reduce = false;   ///< reductions on another

  bool any() const { return compute || gather || reduce; }
};

}  // namespace shard8::comm
