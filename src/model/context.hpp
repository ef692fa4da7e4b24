// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/communicator.hpp"
#include "fp8/quantizer.hpp"
#include "kernels/libraries.hpp"
#include "operation/executor.hpp"

namespace shard8::model {

using operation::At;

/// What every module computes with. The trainer owns it and passes it down.
struct Context {
  operation::Executor& executor;
  const comm::Communicator& tensor_group;
  kernels::Workspace workspace;               ///< memory of workspace_bytes(), and the device's libraries
  const fp8::Quantizer* quantizer = nullptr;  ///< null without a recipe

  profile::StepTimer& timer() const { return executor.timer(); }
  /// Whether the step runs on a device, or is recorded as one that does.
  bool device() const { return executor.device(); }
  /// See operation::Executor.
  template <class What, class Work>
  auto issue(const What& what, const Work& work) const {
    return executor.issue(what, work);
  }
};

}  // namespace shard8::model
