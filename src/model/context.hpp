// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "comm/communicator.hpp"
#include "fp8/quantizer.hpp"
#include "kernels/workspace.hpp"
#include "profile/step_timer.hpp"
#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::model {

namespace operation {
struct Product;
struct Attention;
}  // namespace operation

/// Is told of matrix products and of attention just before they are computed, as model/operations.hpp lists them.
struct Observer {
  std::function<void(const operation::Product& product)> product;
  std::function<void(const operation::Attention& attention)> attention;
};

/// What every module computes with: passed down, owned by the trainer.
struct Context {
  const tensor::Exec& exec;
  const comm::Communicator& tensor_group;
  profile::StepTimer& timer;
  kernels::Workspace workspace;               ///< workspace_bytes(dims), and the device's libraries
  std::function<void()> progress = [] {};     ///< lets collectives under way advance
  const fp8::Quantizer* quantizer = nullptr;  ///< where a linear is in FP8
  const Observer* observer = nullptr;         ///< for tests; runs have none
};

}  // namespace shard8::model
