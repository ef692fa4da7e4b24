// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/blas.hpp"

#include <dlfcn.h>

namespace shard8::kernels {

std::string blas_description() {
  // Asked for by name, so that any BLAS links.
  using Text = char* (*)();
  const auto ask = [](const char* name) -> std::string {
    const auto function = reinterpret_cast<Text>(dlsym(RTLD_DEFAULT, name));
    return function == nullptr ? "" : function();
  };
  const std::string config = ask("openblas_get_config");
  if (!config.empty()) return config;
  return "unknown vendor";
}

}  // namespace shard8::kernels
