// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/context.hpp"

#include <bit>

#include "base/error.hpp"

namespace shard8::model {

void Lease::hold(Leases& leases, std::string_view what, const Bytes& bytes) {
  if (bytes.begin == bytes.end) return;
  SHARD8_REQUIRE(held_ == 0 || leases_ == &leases, "a lease of {} is of two sets of leases", what);
  for (std::uint32_t rest = leases.held_; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(rest));
    if (bytes.end <= leases.begin_[i] || leases.end_[i] <= bytes.begin) continue;
    const bool own = (held_ >> i & 1) != 0;
    if (own && leases.begin_[i] == bytes.begin) return;
    base::fail(base::ExitCode::failed, "{} would overwrite {}, which is still in use", what, leases.what_[i]);
  }
  const auto free = static_cast<std::size_t>(std::countr_one(leases.held_));
  SHARD8_REQUIRE(free < leases.begin_.size(), "there is no room for another lease, of {}", what);
  leases.begin_[free] = bytes.begin;
  leases.end_[free] = bytes.end;
  leases.what_[free] = what;
  leases_ = &leases;
  leases.held_ |= std::uint32_t{1} << free;
  held_ |= std::uint32_t{1} << free;
}

void Context::wait(profile::Exchange exchange, operation::Issued<comm::Request>& collective) const {
  if (!collective.under_way.active()) return executor.wait(collective);  // recorded, or left out
  auto part = timer().exchange(exchange, "wait");
  executor.wait(collective);
}

}  // namespace shard8::model
