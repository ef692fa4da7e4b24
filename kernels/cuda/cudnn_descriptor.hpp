// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <span>
#include <utility>

#include "kernels/cuda/cudnn_check.hpp"

namespace shard8::kernels::cuda {

/// A descriptor of cuDNN's backend API, owned. The caller sets attributes, then finalizes the descriptor; after that it
/// is not changed.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    SHARD8_CUDNN_CHECK(cudnnBackendCreateDescriptor(type, &descriptor_));
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  using Name = cudnnBackendAttributeName_t;
  Descriptor& set(Name name, std::int64_t value) { return set(name, CUDNN_TYPE_INT64, 1, &value); }
  Descriptor& set(Name name, bool value) { return set(name, CUDNN_TYPE_BOOLEAN, 1, &value); }
  Descriptor& set(Name name, cudnnDataType_t value) { return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value); }
  Descriptor& set(Name name, cudnnPointwiseMode_t value) { return set(name, CUDNN_TYPE_POINTWISE_MODE, 1, &value); }
  Descriptor& set(Name name, cudnnReduceTensorOp_t value) {
    return set(name, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &value);
  }
  Descriptor& set(Name name, cudnnBackendHeurMode_t value) { return set(name, CUDNN_TYPE_HEUR_MODE, 1, &value); }
  Descriptor& set(Name name, cudnnHandle_t value) { return set(name, CUDNN_TYPE_HANDLE, 1, &value); }
  Descriptor& set(Name name, const Descriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
  }
  Descriptor& set(Name name, std::span<const std::int64_t> values) {
    return set(name, CUDNN_TYPE_INT64, std::ssize(values), values.data());
  }
  Descriptor& set_pointers(Name name, std::span<void* const> values) {
    return set(name, CUDNN_TYPE_VOID_PTR, std::ssize(values), values.data());
  }
  Descriptor& set_descriptors(Name name, std::span<const cudnnBackendDescriptor_t> values) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(values), values.data());
  }

  Descriptor& finalize() {
    SHARD8_CUDNN_CHECK(cudnnBackendFinalize(descriptor_));
    return *this;
  }
  /// Finalizes and returns the status, where a failure is an answer: an engine does not support a graph.
  cudnnStatus_t try_finalize() { return cudnnBackendFinalize(descriptor_); }

  std::int64_t get_int(Name name) const {
    std::int64_t value = 0, count = 0;
    SHARD8_CUDNN_CHECK(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_INT64, 1, &count, &value));
    return value;
  }
  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  Descriptor& set(Name name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
    SHARD8_CUDNN_CHECK(cudnnBackendSetAttribute(descriptor_, name, type, count, values));
    return *this;
  }

  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace shard8::kernels::cuda
