// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/libraries.hpp"

/// On hosts there is no choice of algorithms, so there is nothing to keep.
namespace shard8::kernels {

struct Libraries::Parts {};

Libraries::Libraries() = default;
Libraries::~Libraries() = default;
void Libraries::set_tuning(Tuning) {}
std::string Libraries::algorithms() const { return {}; }
bool Libraries::adopt(std::string_view algorithms) { return algorithms.empty(); }
std::vector<Libraries::Choice> Libraries::choices() const { return {}; }

}  // namespace shard8::kernels
