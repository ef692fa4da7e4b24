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

/// What every module computes with. The trainer owns it and passes it down.
struct Context {
  const tensor::Exec& exec;
  const comm::Communicator& tensor_group;
  profile::StepTimer& timer;
  kernels::Workspace workspace;               ///< memory of workspace_bytes(), and the device's libraries
  std::function<void()> progress = [] {};     ///< advances collectives under way; called after each product, attention
  const fp8::Quantizer* quantizer = nullptr;  ///< null without a recipe
  const Observer* observer = nullptr;         ///< for tests; runs have none
};

}  // namespace shard8::model
